"""Playing the runs of a plan, one after another, in one event loop."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from voicesim.live.completions import Completions
from voicesim.live.errors import EndpointError
from voicesim.live.exchange import Clock, Exchange
from voicesim.live.http import new_client
from voicesim.live.lag import Lag, bottleneck, bunched
from voicesim.live.load import Outcome, Steady, closed_loop, instants, one, poisson
from voicesim.live.pcm import AudioFormat
from voicesim.live.plan import Plan
from voicesim.live.server import describe
from voicesim.live.speech import Speech
from voicesim.live.target import COMPLETIONS, SPEECH
from voicesim.live.websocket import TextToAudio
from voicesim.live.work import Job

SHOW_EVERY_S = 0.5


@dataclass
class Played:
    """A run, its requests' figures and the client's own.

    firsts: send to first chunk (s).  gaps: between chunks (s).  paces: audio of a chunk / the gap
    before it.  units: seconds of audio, or tokens.  late: of each request behind its instant (s).
    bunched: share of tokens that came together (None for audio).
    """

    name: str
    places: int | None
    rate: float | None
    clock: Clock
    steady: Steady | None = None
    outcome: Outcome = field(default_factory=Outcome)
    streams: int = 0
    firsts: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    paces: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    units: float = 0.0
    miscounted: int = 0
    seconds: float = 0.0
    lag_p50: float = 0.0
    lag_p99: float = 0.0
    lag_max: float = 0.0
    busy: float = 0.0
    bunched: float | None = None
    warning: str | None = None
    ended: bool = False

    def hear(self, exchange: Exchange, token_audio: float | None) -> None:
        """Take in a request that ended well."""
        self.streams += 1
        self.firsts.append(exchange.first)
        self.units += exchange.units
        if exchange.due is not None:
            self.late.append(exchange.sent - exchange.due)
        said = exchange.said_tokens
        if exchange.chunks[0].audio is None and said is not None and said != exchange.units:
            self.miscounted += 1
        for before, chunk in zip(exchange.chunks, exchange.chunks[1:], strict=False):
            gap = chunk.t - before.t
            audio = chunk.tokens * token_audio if token_audio else chunk.audio
            self.gaps += [gap] + [0.0] * (chunk.tokens - 1)
            if audio is not None and gap > 0:
                self.paces.append(audio / gap)


@dataclass
class Measurement:
    """All runs, and what the endpoint said of itself.  failed: how, if it did."""

    server: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    format: AudioFormat | None = None
    runs: list[Played] = field(default_factory=list)
    failed: str | None = None
    interrupted: bool = False

    def hear(self, exchange: Exchange) -> None:
        """What the latest good answer said of itself."""
        if exchange.error is None:
            self.headers, self.format = exchange.headers, exchange.format


Record = Callable[[str, Exchange], None]
Show = Callable[[Played], None]


async def measure(plan: Plan, record: Record, show: Show) -> Measurement:
    """Play the plan.  Ctrl-C (SIGINT, SIGTERM) ends it; finished requests were recorded."""
    found = Measurement()
    with _stoppable():
        try:
            async with new_client(plan.timeout, plan.key) as client:
                await _play(plan, client, found, record, show)
        except asyncio.CancelledError:
            found.interrupted = True
        except EndpointError as error:
            found.failed = str(error)
    return found


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """SIGINT and SIGTERM cancel this task; nothing is cut in the middle of a row."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    signals = (signal.SIGINT, signal.SIGTERM)
    with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
        for number in signals:
            loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
            for number in signals:
                loop.remove_signal_handler(number)


async def _play(plan: Plan, client: Any, found: Measurement, record: Record, show: Show) -> None:
    found.server = await describe(client, plan.target)
    model = plan.model or found.server["model"]
    body = {**({"model": model} if model else {}), **plan.body}
    protocol = _protocol(plan, client, body)
    await _warm_up(plan, protocol.ask, found)
    settings: list[tuple[int | None, float | None]] = [(level, None) for level in plan.levels]
    settings = settings or [(None, plan.rate)] * plan.repeats
    for index, (places, rate) in enumerate(settings):
        name = f"closed-{places}" if places else f"poisson-{rate:g}-r{index + 1}"
        played = Played(name, places, rate, Clock())
        found.runs.append(played)
        await _run(plan, index + 1, protocol.ask, played, found, record, show)
        failed = played.outcome.failed
        if failed and (played.outcome.stopped == "failed" or not played.streams):
            raise EndpointError(str(failed[-1].error))


def _protocol(plan: Plan, client: Any, body: dict[str, Any]) -> Any:
    url = plan.target.url
    if plan.target.protocol == COMPLETIONS:
        return Completions(client, url, body)
    if plan.target.protocol == SPEECH:
        return Speech(client, url, body, plan.audio)
    return TextToAudio(url, body, plan.audio, plan.timeout, plan.key)


async def _warm_up(plan: Plan, ask: Any, found: Measurement) -> None:
    """One at a time, unrecorded; the first failure ends the measurement before it begins."""
    for number in range(plan.warmup):
        exchange = Exchange(number, Clock())
        await one(number, exchange, partial(_warm, plan, ask), found.hear)
        if exchange.error is not None:
            raise EndpointError(exchange.error)


async def _warm(plan: Plan, ask: Any, number: int, exchange: Exchange) -> None:
    await ask(_job(plan, 0, number), exchange)


def _job(plan: Plan, run: int, number: int) -> Job:
    return (plan.work.completion if plan.tokens else plan.work.speech)(run, number)


async def _run(
    plan: Plan,
    index: int,
    ask: Any,
    played: Played,
    found: Measurement,
    record: Record,
    show: Show,
) -> None:
    jobs: dict[int, Job] = {}

    def new(number: int) -> Exchange:
        jobs[number] = job = _job(plan, index, number)
        gather = 0.0 if plan.tokens else plan.gather
        return Exchange(
            number, played.clock, gather, characters=len(job.text) if job.text else None
        )

    async def asked(number: int, exchange: Exchange) -> None:
        await ask(jobs.pop(number), exchange)

    def done(exchange: Exchange) -> None:
        if exchange.error is None:
            played.hear(exchange, plan.token_audio)
            record(played.name, exchange)
            found.hear(exchange)

    if played.places:
        played.steady = Steady(played.places, plan.precision)
        load = partial(closed_loop, played.places, plan.seconds, steady=played.steady)
    else:
        assert played.rate is not None
        due = instants(played.rate, plan.seconds, plan.work.seed)
        load = partial(poisson, due, plan.most)
    lag = Lag()
    beside = [asyncio.create_task(lag.watch()), asyncio.create_task(_show(played, lag, show))]
    try:
        await load(clock=played.clock, new=new, ask=asked, done=done, outcome=played.outcome)
    except asyncio.CancelledError:
        played.outcome.stopped = "interrupted"
        raise
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    finally:
        for task in beside:
            task.cancel()
        _finish(played, lag, plan.tokens)
        show(played)


async def _show(played: Played, lag: Lag, show: Show) -> None:
    while True:
        await asyncio.sleep(SHOW_EVERY_S)
        played.lag_p99 = lag.quantile(0.99)
        show(played)


def _finish(played: Played, lag: Lag, tokens: bool) -> None:
    played.seconds, played.busy, played.ended = played.clock.now(), lag.busy(), True
    played.lag_p50, played.lag_p99 = lag.quantile(0.5), lag.quantile(0.99)
    played.lag_max = lag.quantile(1.0)
    played.bunched = bunched(played.gaps) if tokens else None
    played.warning = bottleneck(played.lag_p99, played.busy, played.gaps)
