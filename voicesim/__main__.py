"""``python -m voicesim`` is the command."""

from voicesim.cli import app

app(prog_name="voicesim")
