"""benchmarks/peers.py without its peers: what they are given, how they are read, what is printed.

benchmarks/ is no package: the modules are loaded by their paths, as the script itself finds them.
"""

import importlib.util
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def load(name: str, path: Path):
    """A module of benchmarks/, or a package by its __init__.py."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        made = importlib.util.module_from_spec(spec)
        sys.modules[name] = made
        spec.loader.exec_module(made)
    return sys.modules[name]


load("peering", BENCHMARKS / "peering" / "__init__.py")
