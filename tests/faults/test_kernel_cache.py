"""The kernel's cache: where it cannot be written or is damaged, the kernel is compiled anew.

A small function stands for the kernel: compiled and kept in the same way, in seconds.
"""

import os
import subprocess
import sys

TWICE = """\
from voicesim.engine.kernel.jit import compiled

def twice(x):
    return 2 * x

print(compiled(twice)(21))
"""


def run(folder, cache):
    """(standard output, standard error) of a process that compiles with this cache."""
    (folder / "twice.py").write_text(TWICE)
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "twice.py"], cwd=folder, env={**env, "VOICESIM_CACHE": str(cache)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_a_cache_that_cannot_be_written_is_said_and_done_without(tmp_path):
    (tmp_path / "file").touch()
    found, said = run(tmp_path, tmp_path / "file" / "cache")
    assert found == "42"
    assert "cannot write the kernel cache" in said
    assert "set VOICESIM_CACHE to a writable folder" in said
    assert len(said.splitlines()) == 1


def test_a_damaged_cache_is_compiled_anew(tmp_path):
    """Cut off or overwritten, the index or the code: the answer is right, and the cache mended."""
    cache = tmp_path / "cache"
    assert run(tmp_path, cache) == ("42", "")
    for kind, damage in (("*.nbi", b""), ("*.nbc", b"not what it was"), ("*.nbi", b"\x80\x05no")):
        (kept,) = cache.rglob(kind)
        kept.write_bytes(damage)
        assert run(tmp_path, cache) == ("42", "")
        assert all(path.read_bytes() != damage for path in cache.rglob(kind))
