"""A folder that ``voicesim measure`` wrote: chunks.csv or tokens.csv beside manifest.json."""

from dataclasses import replace
from pathlib import Path

from voicesim import schemas
from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers import arrival_trace, chunk_csv
from voicesim.calibrate.readers.measured import Measured
from voicesim.calibrate.readers.record import Record
from voicesim.calibrate.readers.source import Head, load_json

NAME = "folder of voicesim measure (manifest.json and chunks.csv or tokens.csv)"
ROWS = {"chunks.csv": chunk_csv, "tokens.csv": arrival_trace}


def sniff(head: Head) -> bool:
    """A folder with the manifest and either table."""
    return "manifest.json" in head.names and bool(ROWS.keys() & head.names)


def read(path: Path) -> Measured:
    """The table of its rows; that a measurement broke off is said."""
    data, text = load_json(path / "manifest.json")
    manifest = Record(data if isinstance(data, dict) else {}, f"{path.name}/manifest.json", 1, text)
    try:
        note = schemas.understood(manifest.text_of("schema"), "measure")
        schemas.warn(manifest.file, note)
    except schemas.SchemaError as error:
        raise manifest.refuse("schema", str(error)) from None
    found = [name for name in ROWS if (path / name).is_file()]
    if len(found) > 1:
        what = f"holds {' and '.join(found)}; give the one that is meant"
        raise CalibrationError(path.name, None, what)
    measured: Measured = ROWS[found[0]].read(path / found[0])
    broken = [] if manifest.flag("complete", default=True) else ["all that was asked: it broke off"]
    return replace(
        measured,
        file=f"{path.name}/{found[0]}",
        format=f"{measured.format} of voicesim measure",
        cannot=[*measured.cannot, *broken],
    )
