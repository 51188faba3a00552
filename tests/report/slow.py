"""A small scenario whose one replica is too slow when it is full: replies stall."""

from pathlib import Path

from tests import small

SLOW = {
    "replicas: 2": "replicas: 1",
    "count: 2": "count: 1",
    "horizon: 60s": "horizon: 40s",
    "rate: 6/s": "rate: 5/s",
    "title: Small": "title: Slow & small",
}


def write(folder: Path, title: str | None = None) -> Path:
    """The scenario and its profile (1.2 ms more a step for each stream, measured to 16 streams)."""
    text = small.SCENARIO
    for old, new in SLOW.items():
        assert old in text
        text = text.replace(old, new)
    if title is not None:
        text = text.replace("title: Slow & small", f"title: {title}")
    path = small.write(folder, text)
    profile = small.PROFILE.replace("0.0004", "0.0012")
    profile += "range: {batch: [1, 16], context_tokens: [1, 4000], prefill_tokens: [0, 4000]}\n"
    (folder / "small-profile.yaml").write_text(profile)
    return path
