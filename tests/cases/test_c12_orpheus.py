"""C12: a flat first byte hides a stream several times slower than real time.

Orpheus-3B, SNAC one stream after the other.  A100, https://github.com/canopyai/Orpheus-TTS/issues/106:
32 and 64 parallel requests, first byte 602 and 634 ms, total 15.3 and 28.1 s for about 2.8 s of
audio.  H100, https://github.com/taresh18/orpheus-streaming/issues/5: one after the other RTF 0.469,
12 at once 1.403.  First byte: what the decoder hands to the codec.

Must show: from 32 to 64 first byte x 1.05 and total x 1.83; RTF above 1 for twelve while the card
makes more audio than alone; ranked by the first byte it looks healthy.
"""

import pytest

from tests.cases.shipped import value

A100, H100 = "orpheus-3b-a100-vllm", "orpheus-3b-h100-vllm"


def test_first_byte_stays_and_the_total_doubles():
    """Published 1.05 and 1.83."""
    first, total = (value(A100, 64, m) / value(A100, 32, m) for m in ("ttfb", "latency"))
    assert first == pytest.approx(1.05, abs=0.1)
    assert total == pytest.approx(1.83, rel=0.1)


def test_twelve_streams_are_slower_than_real_time():
    """Although the card makes four times the audio (published 2.1 and 8.6 s per second)."""
    assert value(H100, 1, "rtf") < 0.5
    assert value(H100, 12, "rtf") > 1
    assert value(H100, 1, "xrt") == pytest.approx(2.1, rel=0.1)
    assert value(H100, 12, "xrt") == pytest.approx(8.6, rel=0.1)


def test_by_its_first_byte_it_looks_healthy():
    """The first byte comes within 0.7 s at 64, while a stream takes ten times its own length."""
    assert value(A100, 64, "ttfb") < 0.7
    assert value(A100, 64, "rtf") > 8
    assert value(A100, 64, "ttfa") > 1.4 * value(A100, 32, "ttfa")  # first audio does tell
