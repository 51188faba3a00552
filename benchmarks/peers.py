"""The same text requests in voicesim and in its peers: answers, speed and memory side by side.

    pip install --no-deps ai-dynamo ai-dynamo-runtime && pip install typing_extensions
    pip install --pre vllm-sr-sim
    pip install aiconfigurator
    python benchmarks/peers.py [--json FILE] [--requests 20000] [--rate 40]

20,000 Poisson requests at 40 a second, 50 prompt tokens and 100 to 400 tokens to write each, on one
engine whose step takes 4 ms and 0.06 ms for every stream in it, about 100 of them live; from 53 a
second on it cannot keep up (peering/work.py).  Every peer gets these requests and this law: NVIDIA
Dynamo's offline replay and vllm-sr-sim; AIConfigurator, which knows no queue, single points against
voicesim's roofline; BLIS, for which no binary could be had, a recorded run of its own
(peering/blis.py).  Opt-in: what is not installed gets a line.  Each runs in a process of its own;
CPU seconds are those of all threads, the best and the median of its runs (25 of ours, 5 of theirs)
after a warm-up.  Dynamo's include reading its trace file, vllm-sr-sim's making its request objects,
ours neither the tape nor the report.  docs/concepts/peers.md says what differs and why.
"""

import argparse
import json
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context

from peering import blis, dynamo, ours, points, sr_sim
from peering.table import Column, ms, table
from peering.work import RATE, shared


@dataclass(frozen=True)
class Peer:
    """A simulator: name in keys and in the table, package, function from work to figures, law."""

    key: str
    title: str
    package: str
    run: Callable
    law: str = "shared"
    needs: str = ""  #: what pip is told


OURS = (
    Peer("voicesim", "voicesim", "voicesim", ours.text),
    Peer("voice", "voicesim, voice", "voicesim", ours.voice),
)
PEERS = (
    Peer(
        "dynamo", "Dynamo replay", "ai-dynamo-runtime", dynamo.run, "shared",
        "--no-deps ai-dynamo ai-dynamo-runtime",
    ),
    Peer(
        "sr_sim", "vllm-sr-sim", "vllm-sr-sim", sr_sim.run, "shared, of streams as it counts them",
        "--pre vllm-sr-sim",
    ),
)  # fmt: skip
COLUMNS = [
    Column("simulator", "title"),
    Column("version", "version"),
    Column("step law", "law"),
    Column("requests/s", "requests_per_s", "{:.2f}".format),
    Column("tokens/s", "tokens_per_s", "{:,.0f}".format),
    Column("TTFT p50 ms", "ttft_p50_s", ms),
    Column("p99", "ttft_p99_s", ms),
    Column("TPOT ms", "tpot_s", ms),
    Column("E2E p50 ms", "e2e_p50_s", ms),
    Column("p99", "e2e_p99_s", ms),
    Column("in flight", "live_streams", "{:.1f}".format),
    Column("CPU s best", "cpu_s", "{:.4f}".format),
    Column("median", "cpu_median_s", "{:.4f}".format),
    Column("x voicesim", "cpu_ratio", "{:.3g}".format),
    Column("peak MB", "peak_mb", "{:.0f}".format),
]


def installed(package: str) -> str | None:
    """The version of a package, voicesim's own from its source; None where there is none."""
    if package == "voicesim":
        import voicesim

        return voicesim.__version__
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def apart(call: Callable, *arguments):
    """The call in a process of its own: imports, threads and memory of each are its own."""
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        return pool.submit(call, *arguments).result()


def failed(what: str, error: Exception) -> str:
    """One line of a peer that is there and does not answer as it did when this was written."""
    return f"skipped: {what} failed: {type(error).__name__}: {error}".splitlines()[0][:300]


def rows(requests: int, rate: float) -> list[dict]:
    """A row of figures for each simulator that is there; a line for each that is not."""
    work = shared(requests, rate=rate)
    found = []
    for peer in OURS + PEERS:
        has = installed(peer.package)
        if has is None:
            print(f"skipped: {peer.title} is not installed (pip install {peer.needs})")
            continue
        try:
            figures = apart(peer.run, work)
        except Exception as error:  # another version of it may say anything
            if peer in OURS:
                raise
            print(failed(f"{peer.title} {has}", error))
            continue
        head = {"key": peer.key, "title": peer.title, "version": has, "law": peer.law}
        found.append(head | figures)
    for row in found:
        row["cpu_ratio"] = row["cpu_median_s"] / found[0]["cpu_median_s"]
    return found


def flat(found: list[dict], requests: int) -> dict:
    """Keys of --json: KEY_FIGURE of every row, and speeds and ratios of the best runs."""
    out: dict = {}
    tokens = float(shared(requests).tokens.sum())
    by_key = {row["key"]: row for row in found}
    for key, row in by_key.items():
        numbers = {name: value for name, value in row.items() if name not in ("key", "title")}
        out |= {f"{key}_{name}": value for name, value in numbers.items()}
        prefix = "" if key == "voicesim" else f"{key}_"
        out[f"{prefix}tokens_per_core_second"] = tokens / row["cpu_s"]
        out[f"{prefix}live_streams"] = row["live_streams"]
        if key in {peer.key for peer in PEERS}:
            out[f"{key}_ratio"] = row["cpu_s"] / by_key["voicesim"]["cpu_s"]
            out[f"voice_{key}_ratio"] = row["cpu_s"] / by_key["voice"]["cpu_s"]
    return out


def single_points() -> list[dict]:
    """AIConfigurator's decode steps beside the roofline's; alone where it is not installed."""
    has = installed("aiconfigurator")
    if has is None:
        print("skipped: AIConfigurator is not installed (pip install aiconfigurator)")
    try:
        found = apart(points.run, has is not None)
    except Exception as error:
        print(failed(f"AIConfigurator {has}", error))
        has, found = None, apart(points.run, False)
    print(f"\nms a decode step of Llama-3.1-8B, bf16; AIConfigurator {has or 'not installed'}\n")
    names = [name for name in found[0] if name not in ("card", "batch")]
    columns = [Column("card", "card"), Column("batch", "batch")]
    columns += [Column(name, name, "{:.2f}".format) for name in names]
    print("\n".join(table(found, columns)))
    return found


def recorded() -> dict[str, list[float]]:
    """BLIS's recorded run beside voicesim's of the same settings."""
    where = "is on the PATH, but" if shutil.which("blis") else "is not on the PATH, and"
    print(f"\nskipped: BLIS {where} no adapter to it could be tried; a recorded run of it instead")
    found = apart(blis.run)
    print(f"ms, where not a rate; voicesim: {blis.SEEDS} runs with other draws\n")
    heads = ("recorded", "mean", "least", "most")
    lines = []
    for name, values in found.items():
        show = ms if name.endswith("_s") and "_per_" not in name else "{:,.4g}".format
        line = {head: show(value) for head, value in zip(heads, values, strict=True)}
        lines.append({"figure": name if show is not ms else name.removesuffix("_s")} | line)
    columns = [Column("figure", "figure"), Column("BLIS", "recorded"), Column("voicesim", "mean")]
    print("\n".join(table(lines, [*columns, Column("least", "least"), Column("most", "most")])))
    return found


def main() -> None:
    """Play, print, and write flat keys to --json."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--requests", type=int, default=20_000, metavar="N")
    parser.add_argument("--rate", type=float, default=RATE, help="requests per second (40)")
    options = parser.parse_args()
    found = rows(options.requests, options.rate)
    print("\n" + "\n".join(table(found, COLUMNS)))
    figures = flat(found, options.requests)
    for point in single_points():
        for name in set(point) - {"card", "batch"}:
            figures[f"{name}_{point['card']}_batch_{point['batch']}_ms"] = point[name]
    for name, (theirs, mean, least, most) in recorded().items():
        figures |= {f"blis_{name}": theirs, f"blis_voicesim_{name}": mean}
        figures |= {f"blis_voicesim_least_{name}": least, f"blis_voicesim_most_{name}": most}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=2)


if __name__ == "__main__":
    main()
