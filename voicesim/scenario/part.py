"""The base of every mapping of a scenario file, and the files that one may name."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict
from pydantic_core.core_schema import ValidationInfo

from .units import find_file


class Part(BaseModel):
    """A mapping of the file: unknown keys refused, nothing converted behind the user's back."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def named_file(name: str, info: ValidationInfo) -> Path:
    """The file that a scenario being read names."""
    return find_file(name, (info.context or {}).get("base", Path()))
