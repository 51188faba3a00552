"""The page of commands, made of the commands themselves (``python benchmarks/pages.py``)."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from typer.models import ArgumentInfo, OptionInfo

ONE: dict[str, str] = {
    "run": "workers were lost; nothing is kept",
    "replay": "workers were lost; nothing is kept",
    "compare": "workers were lost; finished runs are kept",
    "plan": "no setting was shown to meet, or workers were lost; finished runs are kept",
    "sweep": "workers were lost; finished runs are kept",
    "tornado": "workers were lost; finished runs are kept",
    "alarms": "workers were lost; finished runs are kept",
    "gate": "the candidate is worse (workers lost: 2, it cannot be judged)",
    "measure": "the endpoint failed; finished requests are kept",
}
"""What exit code 1 says, of the commands that have it."""

STOPPED: dict[str, str] = {
    "run": "finished runs are published, summary.json says `complete: false`",
    "replay": "finished runs are published, summary.json says `complete: false`",
    "compare": "finished runs are kept, with the answer so far; the same command goes on",
    **dict.fromkeys(
        ("plan", "sweep", "tornado", "alarms", "gate"),
        "finished runs are kept; the same command goes on",
    ),
    **dict.fromkeys(("ladder", "validate", "calibrate"), "nothing is written"),
    "measure": "finished requests are kept, the manifest says so",
}
"""What Ctrl-C (or SIGTERM) leaves, of the commands that take long."""

BEGIN = """\
# Commands

Made by `python benchmarks/pages.py` from the commands; `voicesim COMMAND --help` says the same.

## In a terminal and in a pipe

- The answer goes to stdout, everything else to stderr: errors, one line each, and the progress: \
a bar on a terminal, at most 40 lines elsewhere, with simulated events a second (`validate`: steps \
of streams) and the time left, both over the runs played here.
- `--json`: stdout holds the answer as JSON, and nothing else; the numbers are those of the \
folder's JSON (`summary.json` of a run). `voicesim run FILE --json | jq .variants`.
- `--quiet`: no progress and no table; stdout holds one line, the folder or file of the answer, \
if there is one. Errors are said. `cd $(voicesim run FILE --quiet)`.
- No colours where stdout is no terminal, or `NO_COLOR` is set (https://no-color.org).

## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | the answer is no, or what was asked could not be played to its end; see below |
| 2 | the input is wrong: one line says what, where and the nearest right name; nothing is written |
| 130 | interrupted by Ctrl-C or SIGTERM |

| command | 1 | 130 |
|---|---|---|
"""

TAB = """
## Completion

<!-- test: skip: it changes the shell's own files -->
```sh
voicesim --install-completion          # bash, zsh, fish, PowerShell; then open a new shell
voicesim --show-completion bash        # or look at the script first
```

Tab offers scenario files where one is wanted (by what they hold), profiles that ship and profile \
files, folders of finished runs, the variants of the scenario named on the line, its keys with \
their values for `--set` and a range for `--vary`, metrics, cards.

## Editors

`voicesim new` puts `voicesim.schema.json` beside the file it writes, and its first line names it; \
VS Code's YAML extension and other editors with yaml-language-server then complete keys, show what \
they mean and underline what is wrong. For a file of your own:

    voicesim schema --out voicesim.schema.json
    # first line of the scenario:
    # yaml-language-server: $schema=./voicesim.schema.json

"""


def manual() -> str:
    """The page."""
    from voicesim.cli import app

    commands = {c.name or c.callback.__name__: c.callback for c in app.registered_commands
                if c.callback}  # fmt: skip
    rows = [
        f"| `{name}` | {ONE.get(name, '-')} | {STOPPED.get(name, '-')} |"
        for name in commands
        if name in ONE or name in STOPPED
    ]
    parts = [BEGIN + "\n".join(rows) + "\n" + TAB.rstrip() + "\n"]
    for name, command in commands.items():
        parts.append("\n".join(_command(name, command)) + "\n")
    return "\n".join(parts)


def _command(name: str, command: Any) -> Iterator[str]:
    """A heading, what it does, how it is called, a row for each argument and option."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    known = [(p, get_args(p.annotation)) for p in parameters]
    arguments = [(p, a) for p, a in known if isinstance(a[1], ArgumentInfo)]
    options = [(p, a) for p, a in known if isinstance(a[1], OptionInfo)]
    words = " ".join(_cell(a[1].metavar or p.name.upper()) for p, a in arguments)
    yield f"## {name}"
    yield ""
    yield " ".join((inspect.getdoc(command) or "").split())
    yield ""
    yield f"`voicesim {name}{' ' + words if words else ''}{' [OPTIONS]' if options else ''}`"
    yield ""
    yield "| | default | |"
    yield "|---|---|---|"
    for parameter, (_, info) in arguments:
        shown = f"`{_cell(info.metavar or parameter.name.upper())}`"
        yield f"| {shown} | {_need(parameter)} | {_cell(info.help or '')} |"
    for parameter, (kind, info) in options:
        plain = f"--{parameter.name.replace('_', '-')}"
        given = [n for n in (info.default, *(info.param_decls or ())) if isinstance(n, str)]
        names = ", ".join(f"`{n}`" for n in given or [plain])
        flag = bool in {kind, *get_args(kind)}
        value = "" if flag else f" `{_cell(info.metavar or _type(kind))}`"
        yield f"| {names}{value} | {_need(parameter)} | {_cell(info.help or '')} |"


def _need(parameter: inspect.Parameter) -> str:
    if parameter.default is inspect.Parameter.empty:
        return "needed"
    if parameter.default is None or parameter.default is False:
        return ""
    return "yes" if parameter.default is True else f"`{_cell(str(parameter.default))}`"


def _type(kind: Any) -> str:
    kinds = {kind, *get_args(kind)}
    return (
        "N" if int in kinds else "NUMBER" if float in kinds else "PATH" if Path in kinds else "TEXT"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
