"""The text of a new scenario: every line with what it does, its unit, and where its value is from.

The words are those of the schema (``scenario.keys``), so they cannot fall behind it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from voicesim.catalogue import WITH_MEMORY
from voicesim.report.ladder import usual_prompt
from voicesim.scenario.editor import modeline
from voicesim.scenario.keys import found, scenario_keys
from voicesim.scenario.sources import source_of
from voicesim.schemas import current

FIRST = "qwen3-tts-1.7b-h100"
"""What is served unless told otherwise: the profile measured at the most streams of a card."""
YOURS, DEFAULT = "your answer", "the default of voicesim new"
USUAL = "the usual value"
ASSUMED = "an assumption"
PROFILE = "as the profile's figures were measured"
WIDTH = 98
CHUNKS = (4, 4, 8, 16, 25)
CODEC_CAP = 8
WIDE = 3.5
"""p99 over mean of a reply's length."""
HORIZON, RISE, PEAK_AT, HOLD = "30min", "5min", "8min", "8min"


@dataclass(frozen=True)
class Answers:
    """The six answers; rates in calls per second, times in seconds.  profile: with its ``name`` as
    the file has it.  limit: streams a card, None: none.  origin: YOURS or DEFAULT by option."""

    profile: Any
    gpu: str
    cards: int
    calls: float
    peak: float
    reply: float
    limit: int | None
    start_within: float
    no_stall_over: float
    origin: Mapping[str, str]


def written(a: Answers, schema: str | None) -> str:
    """The scenario as YAML; schema: the file of its JSON Schema, for editors."""
    out = Lines([] if schema is None else [modeline(f"./{schema}")])
    top(out, f"{a.profile.profile.name} on {a.cards} x {a.gpu}", HORIZON, "2min")
    _workload(out, a)
    _cluster(out, a)
    _rest(out, a)
    return out.text()


def top(out: Lines, title: str, horizon: str, warmup: str) -> None:
    """What the file is, and how long it plays."""
    out.plain(
        f"# {title}: written by voicesim new.",
        "#",
        "#   voicesim run THIS_FILE          what listeners hear, and what it costs",
        "#   voicesim explain KEY            what a key means, its unit, its default",
        "#   voicesim check THIS_FILE        everything that is wrong, after a change",
        "",
    )
    out.line("schema", current("scenario"), "the newest")
    out.line("title", title, USUAL)
    out.line("horizon", horizon, DEFAULT)
    out.line("warmup", warmup, DEFAULT)
    out.line("seed", 1, DEFAULT)
    out.line("replications", 1, f"{USUAL}; more give intervals: --replications 5")


def arrival_lines(out: Lines, a: Any) -> None:
    """When calls start: steadily, or with a peak."""
    out.part("workload.arrivals")
    calls, peak = f"{a.calls:g}/s", f"{a.peak:g}/s"
    if a.peak == a.calls:
        out.line("workload.arrivals.kind", "poisson", "calls and peak are the same")
        out.line("workload.arrivals.rate", calls, a.origin["calls"])
    else:
        out.line("workload.arrivals.kind", "surge", "there is a peak")
        out.line("workload.arrivals.base", calls, a.origin["calls"])
        out.line("workload.arrivals.peak", peak, a.origin["peak"])
        for key, value in (("at", PEAK_AT), ("rise", RISE), ("hold", HOLD), ("fall", RISE)):
            out.line(f"workload.arrivals.{key}", value, DEFAULT)


def _workload(out: Lines, a: Answers) -> None:
    out.part("workload")
    arrival_lines(out, a)
    out.part("workload.utterance")
    law = f"{{lognormal: {{mean: {in_words(a.reply)}, p99: {in_words(WIDE * a.reply)}}}}}"
    tail = f"that 1 % are over {WIDE:g} times the mean is {ASSUMED}"
    out.line("workload.utterance.audio", law, f"{a.origin['reply']}; {tail}")
    prompt = usual_prompt(a.profile.profile)
    out.line("workload.utterance.prompt_tokens", prompt, DEFAULT)
    out.line("workload.utterances_per_session", "{geometric: {mean: 3}}", ASSUMED)
    out.line("workload.think", "{exponential: {mean: 4s}}", ASSUMED)
    out.line("workload.patience", "{lognormal: {median: 12s, sigma: 0.6}}", ASSUMED)
    if a.limit is None:  # nobody is refused
        return
    out.part("workload.refused")
    out.part("workload.refused.retry")
    retry = {"attempts": 3, "backoff": "1s", "factor": 2, "jitter": "full"}
    for key, value_ in retry.items():
        out.line(f"workload.refused.retry.{key}", value_, ASSUMED)


def _cluster(out: Lines, a: Answers) -> None:
    profile = a.profile.profile
    out.part("cluster")
    out.part("cluster.gpus")
    out.part("cluster.gpus.card")
    out.line("cluster.gpus.card.preset", a.gpu, a.origin["gpu"])
    out.line("cluster.gpus.card.count", a.cards, a.origin["cards"])
    out.part("cluster.pools")
    pool = "cluster.pools.tts"
    out.part(pool)
    out.line(f"{pool}.replicas", a.cards, "one engine on each card")
    out.line(f"{pool}.on", "card", "the name above")
    seqs = max(256, a.limit or 0)
    engine_lines(out, pool, a.profile, a.origin["profile"], seqs)
    chunk_lines(out, pool, profile)


def engine_lines(out: Lines, pool: str, served: Any, origin: str, seqs: int) -> None:
    """The engine of a pool; served: a profile with its ``name`` as the file has it."""
    profile, engine = served.profile, f"{pool}.engine"
    out.part(engine)
    out.line(f"{engine}.profile", served.name, origin)
    out.line(f"{engine}.max_num_seqs", seqs, USUAL)
    out.line(f"{engine}.max_num_batched_tokens", max(2048, seqs), USUAL)
    model = profile.about.model if profile.about else None
    if profile.memory is None and model in WITH_MEMORY:
        out.line(f"{engine}.model", model, "the profile says nothing of memory")
    elif profile.memory is None:
        room = "the profile says nothing of memory: room for all streams at their longest"
        out.line(f"{engine}.kv_blocks", seqs * 4096 // 16, room)


def chunk_lines(out: Lines, pool: str, profile: Any) -> None:
    """How a voice's audio is cut into chunks, and its codec."""
    chunks, cap, origin = CHUNKS, CODEC_CAP, DEFAULT
    if profile.played is not None and profile.played.chunks:
        chunks, origin = tuple(profile.played.chunks), PROFILE
        cap = profile.played.codec_cap or cap
    place = pool if profile.codec is None else f"{pool}.codec"
    if profile.codec is not None:
        out.part(place)
    out.part(f"{place}.chunk")
    out.line(f"{place}.chunk.first", chunks[0], origin)
    out.line(f"{place}.chunk.ramp", str(list(chunks[1:-1])), origin)
    out.line(f"{place}.chunk.steady", chunks[-1], origin)
    if profile.codec is not None:
        out.part(f"{place}.batch")
        out.line(f"{place}.batch.cap", cap, origin)
        out.line(f"{place}.on", "same_gpu", USUAL)


def _rest(out: Lines, a: Answers) -> None:
    out.part("listener")
    network_lines(out)
    out.line("listener.audible", in_words(a.no_stall_over), a.origin["no-stall-over"])
    out.part("policies")
    if a.limit is None:
        out.part("policies.admission")
        out.line("policies.admission.kind", "admit_all", a.origin["limit"])
    else:
        out.part("policies.admission")
        out.line("policies.admission.kind", "cap", a.origin["limit"])
        out.line("policies.admission.streams", a.limit, a.origin["limit"])
    out.part("policies.routing")
    out.line("policies.routing.kind", "least_streams", USUAL)
    slo_lines(out, a)
    if a.limit is not None:
        out.plain("")
        out.part("variants")
        out.plain(
            "  # The limit against none, under the same callers: voicesim compare THIS_FILE.",
            "  limited: {}",
            "  admit_all: {policies.admission: {kind: admit_all}}",
        )


def network_lines(out: Lines) -> None:
    """The way to the listener."""
    out.part("listener.network")
    out.line("listener.network.delay", "40ms", ASSUMED)
    out.line("listener.network.jitter", "10ms", ASSUMED)


def slo_lines(out: Lines, a: Any) -> None:
    """What is good."""
    out.part("slo")
    out.line("slo.start_within", in_words(a.start_within), a.origin["start-within"])
    out.line("slo.no_stall_over", in_words(a.no_stall_over), a.origin["no-stall-over"])


class Lines:
    """Lines of YAML, each under a comment."""

    def __init__(self, begin: list[str]):
        self.lines = begin

    def plain(self, *lines: str) -> None:
        self.lines += lines

    def part(self, path: str, kind: str = "") -> None:
        """The key of a mapping; kind: of the mapping it stands in, where several have it."""
        depth = path.count(".")
        if depth == 0 and self.lines[-1]:
            self.lines.append("")
        self._comment(path, "", depth, kind)
        self.lines.append(f"{'  ' * depth}{path.rsplit('.', 1)[-1]}:")

    def line(self, path: str, value: Any, origin: str, kind: str = "") -> None:
        """A key with its value; kind as in ``part``."""
        depth = path.count(".")
        source = source_of(path, False)
        self._comment(path, f"Here: {origin}" + (f" ({source})" if source else ""), depth,
                      kind)  # fmt: skip
        self.lines.append(f"{'  ' * depth}{path.rsplit('.', 1)[-1]}: {value}")

    def _comment(self, path: str, here: str, depth: int, kind: str) -> None:
        about = found(path, scenario_keys())
        mine = next((k for k in about if k.kind == kind), about[0])
        said = mine.about if not path.endswith(".kind") else "Which kind"
        text = f"{said.rstrip('.')}. {here}".strip().rstrip(".") + "."
        mark = "  " * depth + "# "
        self.lines += textwrap.wrap(text, WIDTH, initial_indent=mark, subsequent_indent=mark,
                                    break_long_words=False, break_on_hyphens=False)  # fmt: skip

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def in_words(seconds: float) -> str:
    """A time as a scenario file has it."""
    return f"{1000 * seconds:g}ms" if seconds < 1 else f"{seconds:g}s"
