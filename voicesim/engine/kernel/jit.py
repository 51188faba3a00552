"""numba's settings, and a cache that notices a change in any of the kernel's files.

numba checks only the file of the function it compiled, not of those it calls; so the cache
folder is named by a hash of all files that take part.  A folder that cannot be written means
compiling anew in each process: slower, and said once.
"""

import hashlib
import os
import sys
import tempfile
import types
from contextlib import suppress
from pathlib import Path

import numba
from numba.core import types as nb
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

_PACKAGE = Path(__file__).resolve().parents[2]
_SOURCES = (
    *sorted(Path(__file__).parent.glob("*.py")),
    *sorted((_PACKAGE / "session" / "kernel").glob("*.py")),
    *(_PACKAGE / "session" / name for name in ("blame.py", "layout.py", "record.py", "spec.py")),
    *sorted((_PACKAGE / "engine").glob("asr*.py")),
    _PACKAGE / "engine" / "card.py",
    _PACKAGE / "engine" / "blame.py",
    _PACKAGE / "engine" / "trace.py",
    _PACKAGE / "engine" / "layout.py",
    _PACKAGE / "engine" / "cost.py",
    _PACKAGE / "engine" / "kinds.py",
    _PACKAGE / "engine" / "spec.py",
    _PACKAGE / "listener" / "player.py",
    _PACKAGE / "policy" / "admission.py",
    _PACKAGE / "policy" / "degradation.py",
    _PACKAGE / "policy" / "routing.py",
    _PACKAGE / "workload" / "rng.py",
)


def _cache_folder() -> Path | None:
    digest = hashlib.sha256(numba.__version__.encode())
    for source in _SOURCES:
        digest.update(source.read_bytes())
    root = os.environ.get("VOICESIM_CACHE") or os.environ.get("NUMBA_CACHE_DIR")
    home = Path(root) if root else Path.home() / ".cache" / "voicesim"
    folder = home / f"kernel-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        print(
            f"voicesim: cannot write the kernel cache {folder} ({error.strerror}); "
            "compiling anew, set VOICESIM_CACHE to a writable folder to avoid this",
            file=sys.stderr,
        )
        return None


CACHE_FOLDER = _cache_folder()
if CACHE_FOLDER is not None:
    setattr(numba.config, "CACHE_DIR", str(CACHE_FOLDER))  # noqa: B010


def is_compiled() -> bool:
    """True when the cache holds the event loop, so that a run starts at once."""
    return CACHE_FOLDER is not None and any(CACHE_FOLDER.rglob("loop.run-*.nbi"))


class _Cache(FunctionCache):
    """numba's cache of a function: a damaged file is compiled anew, a full disk keeps nothing."""

    def load_overload(self, sig, target_context):
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # what reading a damaged file comes to is numba's affair
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig, data):
        with suppress(OSError):
            super().save_overload(sig, data)


def compiled(function):
    """njit with IEEE order kept (no fastmath) and, where a folder can be written, a cache."""
    dispatcher = numba.njit(error_model="numpy")(function)
    if CACHE_FOLDER is not None:
        dispatcher._cache = _Cache(function)  # type: ignore[attr-defined]
    return dispatcher


def adopt(function, **calls):
    """Compile a plain function of the shared arithmetic.

    calls: compiled functions to put in place of the plain ones that it calls by name.
    """
    scope = {**function.__globals__, **calls}
    copy = types.FunctionType(function.__code__, scope, function.__name__)
    return numba.njit(error_model="numpy")(copy)


def _pointer_to(element):
    """An address as a pointer to ``element``.

    A pointer, not an array: an index is used as it is (an array's is tested for a negative one at
    every access), a call passes one word and not seven, and no reference is counted.  That makes
    the model faster by two fifths and its compilation by a quarter.
    """

    @intrinsic
    def pointer(typingctx, address):
        def codegen(context, builder, signature, args):
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return nb.CPointer(element)(nb.int64), codegen

    return pointer


float_pointer = _pointer_to(nb.float64)
int_pointer = _pointer_to(nb.int64)


@intrinsic
def bits_of(typingctx, number):
    """The 64 bits of a float as an integer."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return nb.int64(nb.float64), codegen


@intrinsic
def moved(typingctx, pointer, n):
    """The pointer, ``n`` entries on."""

    def codegen(context, builder, signature, args):
        return builder.gep(args[0], [args[1]])

    return pointer(pointer, nb.int64), codegen


@numba.njit(error_model="numpy")
def window(pointer, start, n):
    """``n`` entries from ``start`` on, as an array."""
    return numba.carray(moved(pointer, start), (n,))  # type: ignore[call-arg]
