"""The parts by themselves: audio in bytes, events in bytes, addresses, stopping, lateness."""

import math

import numpy as np
import pytest

from tests.live.fake import event, pcm, wav_header
from voicesim.live.errors import EndpointError, LiveError
from voicesim.live.exchange import Clock, Exchange
from voicesim.live.lag import bottleneck, bunched
from voicesim.live.load import Steady, instants
from voicesim.live.pcm import AudioFormat, Meter, check_audio, format_of
from voicesim.live.sse import Events
from voicesim.live.target import read_target
from voicesim.live.work import Work

# --- audio --------------------------------------------------------------------------------------


def test_raw_pcm_counts_whole_frames():
    """16-bit stereo at 8 kHz: 4 bytes a frame; the odd bytes wait."""
    meter = Meter(AudioFormat(8000, 2, 2))
    assert [meter.feed(bytes(n)) for n in (6, 1, 1, 32_000)] == [1 / 8000, 0.0, 1 / 8000, 1.0]


@pytest.mark.parametrize("extra", [b"", b"INFOabc"])
def test_a_wav_header_says_the_format_wherever_it_is_cut(extra):
    """100 ms at 48 kHz stereo, split at every byte: never more, never less."""
    whole = wav_header(48_000, 2, extra=extra) + bytes(4 * 4800)
    for cut in range(1, 80):
        meter = Meter(AudioFormat())
        total = meter.feed(whole[:cut]) + meter.feed(whole[cut:])
        assert total == pytest.approx(0.1, abs=1e-12), cut
        assert meter.format == AudioFormat(48_000, 2, 2, "WAV header")


def test_every_message_may_bring_its_own_wav_header():
    meter = Meter(AudioFormat())
    part = wav_header(16_000) + pcm(50, 16_000)
    assert [meter.feed(part, message=True) for _ in range(3)] == pytest.approx([0.05] * 3)


def test_bytes_that_cannot_be_counted_are_refused():
    with pytest.raises(EndpointError, match="not PCM"):
        Meter(AudioFormat()).feed(wav_header(tag=17) + b"x")
    with pytest.raises(EndpointError, match="without a data chunk"):
        Meter(AudioFormat()).feed(b"RIFF\0\0\0\0WAVEjunk\xff\xff\xff\x00" + bytes(70_000))
    for kind, said in (("audio/mpeg", "ask for pcm or wav"), ("application/json", "not audio")):
        with pytest.raises(EndpointError, match=said):
            check_audio(kind)
    check_audio("audio/wav")
    check_audio("")


@pytest.mark.parametrize(
    ("kind", "header", "rate", "channels", "origin"),
    [
        ("audio/pcm", None, 24_000, 1, "assumed"),
        ("audio/L16; rate=16000; channels=2", None, 16_000, 2, "response headers"),
        ("audio/pcm;rate=44100", "8000", 44_100, 1, "response headers"),
        ("", "22050", 22_050, 1, "response headers"),
        ("audio/pcm;rate=soon", None, 24_000, 1, "assumed"),
    ],
)
def test_the_headers_say_the_rate(kind, header, rate, channels, origin):
    assert format_of(kind, header, AudioFormat()) == AudioFormat(rate, 2, channels, origin)


# --- events -------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_events_are_the_same_wherever_the_bytes_are_cut(end):
    text = ": hello\nevent: a\ndata: one\n\ndata: zwei é\ndata:drei\n\n\nid: 4\n\ndata: [DONE]\n\n"
    raw = text.replace("\n", end).encode()
    for cut in range(len(raw)):
        events = Events()
        assert events.feed(raw[:cut]) + events.feed(raw[cut:]) == ["one", "zwei é\ndrei", "[DONE]"]
    assert Events().feed(event(a=1)[:-1]) == []


# --- chunks -------------------------------------------------------------------------------------


class Hands(Clock):
    """A clock that is set by hand."""

    t = 0.0

    def now(self):
        return self.t


def test_reads_that_are_close_together_are_one_chunk():
    """Each read less than 2 ms after the last joins it; the chunk came when it was whole."""
    clock = Hands()
    exchange = Exchange(0, clock, gather=0.002)
    exchange.send()
    for t, size in ((1.0, 44), (1.001, 100), (1.0025, 50), (1.0045, 20), (1.1, 30)):
        clock.t, clock.live = t, 3
        exchange.add(size, audio=0.0 if size == 44 else size / 1000)
    found = [(c.t, c.audio, c.bytes, c.live) for c in exchange.chunks]
    assert found == [(1.0025, pytest.approx(0.15), 194, 3), (1.0045, 0.02, 20, 3),
                     (1.1, 0.03, 30, 3)]  # fmt: skip
    assert exchange.units == pytest.approx(0.2)
    assert exchange.first == 1.0025
    assert exchange.per_unit == pytest.approx(5.5)


# --- where to -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "protocol"),
    [
        ("http://localhost:8000/v1/audio/speech", "speech"),
        ("http://127.4.5.6/v1/completions", "completions"),
        ("ws://[::1]:9/anything", "websocket"),
    ],
)
def test_this_machine_needs_no_leave(url, protocol):
    assert read_target(url).protocol == protocol


@pytest.mark.parametrize(
    ("url", "asked", "said"),
    [
        ("http://example.com/v1/completions", {}, "add --host-ok example.com"),
        ("http://example.com/v1/completions", {"host_ok": "example.org"}, "add --host-ok"),
        ("http://localhost.example.com/v1/completions", {}, "not this machine"),
        ("http://10.0.0.1/v1/completions", {}, "not this machine"),
        ("http://0x7f000001/v1/completions", {}, "not this machine"),
        ("http://me:secret@localhost/v1/completions", {}, "user or password"),
        ("ftp://localhost/x", {}, "allowed: http"),
        ("localhost:8000/v1/completions", {}, "allowed: http"),
        ("http://localhost:99999/v1/completions", {}, "URL: found"),
        ("http://localhost/v1/chat/completions", {}, "give --protocol"),
        ("http://localhost/x", {"protocol": "websocket"}, "does not go with http"),
        ("http://localhost/x", {"protocol": "grpc"}, "allowed: speech"),
    ],
)
def test_addresses_that_are_refused(url, asked, said):
    with pytest.raises(LiveError, match=said) as error:
        read_target(url, **asked)
    assert "secret" not in str(error.value)


def test_a_named_host_is_spoken_to_and_its_query_is_kept_out_of_files():
    target = read_target(
        "https://TTS.example.com/v1/audio/speech?key=abc", host_ok="tts.example.com"
    )
    assert target.shown == "https://TTS.example.com/v1/audio/speech"
    assert target.beside("/version") == "https://TTS.example.com/version"
    assert read_target("wss://localhost/s").beside("/version") == "https://localhost/version"


# --- when to stop, when to send -----------------------------------------------------------------


def ended(figure):
    clock = Hands()
    exchange = Exchange(0, clock)
    exchange.send()
    clock.t = figure
    exchange.add(1, tokens=1)
    return exchange


def test_a_level_is_steady_by_the_rule_of_its_docstring():
    """The first of each place is left out; figures 1, 3, 1, 3...: sd of n = 24 is 1.0215, t is
    2.0687, so the half-width over the mean of 2 is 0.2157."""
    steady = Steady(2, precision=0.22, least=24)
    for figure in (50, 60):
        steady.add(ended(figure))
    assert steady.width is None
    for figure in [1, 3] * 12:
        assert not steady.reached()
        steady.add(ended(figure))
    assert steady.width == pytest.approx(2.0687 * 1.0215 / math.sqrt(24) / 2, rel=1e-3)
    assert steady.reached()
    steady.precision = 0.21
    assert not steady.reached()


def test_a_level_of_many_places_needs_two_requests_of_each():
    steady = Steady(10, precision=1.0)
    for n in range(30):
        assert not steady.reached(), n
        steady.add(ended(1.0))
    assert steady.reached()


def test_poisson_instants():
    """Mean count and mean square of the gaps of an exponential law, within 4 standard errors."""
    t = instants(2.0, 5000.0, 7)
    assert abs(len(t) - 10_000) < 4 * 100
    gaps = np.diff(t)
    assert gaps.min() > 0 and t[-1] < 5000
    assert abs((gaps**2).mean() - 0.5) < 4 * math.sqrt(20 / 16) / 100
    assert instants(2.0, 5000.0, 7).tolist() == t.tolist()
    assert instants(2.0, 50.0, 8)[0] != t[0]


def test_repeats_ask_for_the_same_lengths_and_other_prompts():
    work = Work(seed=3, prompt_tokens=(5, 40), tokens=(50, 400), vocabulary=500)
    for number in range(50):
        a, b = work.completion(1, number), work.completion(2, number)
        assert (len(a.prompt), a.tokens) == (len(b.prompt), b.tokens)
        assert a.prompt != b.prompt
        assert 5 <= len(a.prompt) <= 40 and 50 <= a.tokens <= 400
        assert all(10 <= i < 500 for i in a.prompt)
        assert work.speech(1, number) == work.speech(2, number)


def test_a_late_client_says_so():
    """Late is more than 5 ms and more than a tenth of the median gap."""
    assert bottleneck(0.004, 0.1, [0.01]) is None
    assert bottleneck(0.007, 0.1, [0.08]) is None
    assert "9.0 ms late" in bottleneck(0.009, 0.1, [0.08])
    assert "90% of a core" in bottleneck(0.0, 0.9, [])


def test_tokens_that_came_together():
    """Mean gap 25 ms, so less than 2.5 ms is together: two of four."""
    assert bunched([0.049, 0.001, 0.0, 0.05]) == 0.5
    assert bunched([0.02, 0.03]) == 0.0
    assert bunched([]) == 0.0
