"""Times a decoder of a speech model's shape, with random weights, on the GPU of this machine.

Needs torch 2.5 or newer and nothing else; copy this file to the machine.  Writes a step CSV that
``voicesim calibrate`` reads, and a manifest beside it.  README.md tells what is measured and what
is not.  What a step costs depends on its shapes, hardly on its weights, so nothing is downloaded.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import json
import math
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

try:
    import torch
    import torch.nn.functional as F
except ModuleNotFoundError:  # shapes and arithmetic can be read without it
    torch = None

COLUMNS = [
    "batch", "seconds", "stage", "context_tokens", "prefill_tokens", "frames", "run_id", "source",
    "note",
]  # fmt: skip


# --- what is timed ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """A decoder.  vocab: rows of the output head, which every step multiplies.

    text_vocab: rows of the named language model's own embedding, and tied: whether its output head
    is the same table.  A speech model looks rows up there and multiplies by none of it; it counts
    for the published size only and is not allocated.
    """

    layers: int
    hidden: int
    q_heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    text_vocab: int
    tied: bool

    @property
    def layer_parameters(self) -> int:
        """One layer: attention, gated MLP, two norms (biases and head norms left out)."""
        heads = 2 * self.q_heads + 2 * self.kv_heads
        return self.hidden * (heads * self.head_dim + 3 * self.intermediate + 2)

    @property
    def step_parameters(self) -> int:
        """Weights that a decode step reads whole: the layers, the last norm, the output head."""
        return self.layers * self.layer_parameters + self.hidden * (1 + self.vocab)

    @property
    def published_parameters(self) -> int:
        """Weights of the language model by whose size the model is called."""
        tables = self.text_vocab * self.hidden * (1 if self.tied else 2)
        return self.layers * self.layer_parameters + self.hidden + tables

    def kv_bytes(self, item: int = 2) -> int:
        """KV cache of one token, all layers, ``item`` bytes a number."""
        return 2 * self.layers * self.kv_heads * self.head_dim * item


SHAPES = {
    # Qwen3-TTS-12Hz config.json, talker_config; the talker is Qwen3 of the same size, its head has
    # the 3072 codes of the first codebook.  The code predictor is not part of it.
    "qwen3-tts-1.7b": Shape(28, 2048, 16, 8, 128, 6144, 3072, 151936, True),
    "qwen3-tts-0.6b": Shape(28, 1024, 16, 8, 128, 3072, 3072, 151936, True),
    # orpheus-3b-0.1 config.json: Llama-3.2-3B with audio tokens added to its vocabulary
    "orpheus-3b": Shape(28, 3072, 24, 8, 128, 8192, 156940, 128256, True),
    # https://huggingface.co/meta-llama/Llama-3.1-8B config.json
    "llama-3.1-8b": Shape(32, 4096, 32, 8, 128, 14336, 128256, 128256, False),
    # CosyVoice2-0.5B cosyvoice2.yaml: Qwen2.5-0.5B, 6561 speech tokens and 3 others
    "cosyvoice2-0.5b": Shape(24, 896, 14, 2, 64, 4864, 6564, 151936, True),
    "toy": Shape(2, 64, 4, 2, 16, 128, 96, 96, True),
}

# (channels, upsampling) of each stage after ``first`` channels, as in the decoder of the Qwen3-TTS
# tokenizer: 1920 samples of 24 kHz a frame, 12.5 frames a second.
SPEECH_CODEC = (1024, ((1024, 2), (1024, 2), (768, 8), (384, 5), (192, 4), (96, 3)))
TOY_CODEC = (8, ((8, 2), (4, 2)))


class Decoder:
    """The decoder with its weights, and a KV cache of ``batch`` streams of ``context`` tokens."""

    def __init__(self, shape: Shape, device: str, dtype=None):
        self.shape, self.device = shape, device
        self.dtype = dtype or torch.bfloat16
        s = shape
        wide = (s.q_heads + 2 * s.kv_heads) * s.head_dim
        self.layers = [
            {
                "norm1": torch.ones(s.hidden, device=device, dtype=self.dtype),
                "qkv": self._random(s.hidden, wide),
                "out": self._random(s.q_heads * s.head_dim, s.hidden),
                "norm2": torch.ones(s.hidden, device=device, dtype=self.dtype),
                "gate_up": self._random(s.hidden, 2 * s.intermediate),
                "down": self._random(s.intermediate, s.hidden),
            }
            for _ in range(s.layers)
        ]
        self.norm = torch.ones(s.hidden, device=device, dtype=self.dtype)
        self.embedding = self._random(s.vocab, s.hidden)
        self.head = self._random(s.vocab, s.hidden)

    def _random(self, rows: int, columns: int):
        empty = torch.empty(rows, columns, device=self.device, dtype=self.dtype)
        return empty.normal_(0.0, 1.0 / math.sqrt(columns))

    def make_room(self, batch: int, context: int) -> None:
        """A new cache, filled with noise: a chip's power, and so its clock, depends on the data."""
        s = self.shape
        self.cache = None  # before the next one is allocated
        sizes = (s.layers, 2, batch, s.kv_heads, context, s.head_dim)
        self.cache = torch.empty(sizes, device=self.device, dtype=self.dtype).normal_()
        rates = 1e6 ** -(torch.arange(0, s.head_dim, 2, device=self.device) / s.head_dim)
        angles = torch.arange(context, device=self.device)[:, None] * rates
        self.cos, self.sin = angles.cos().to(self.dtype), angles.sin().to(self.dtype)

    def forward(self, ids, start: int):
        """Logits after the last of the tokens ids[batch, n], which stand at ``start`` and on.

        Either one token each after a full cache, or whole prompts from position 0.
        """
        s, (batch, n) = self.shape, ids.shape
        x = self.embedding[ids]
        for layer, cache in zip(self.layers, self.cache, strict=True):
            qkv = F.rms_norm(x, (s.hidden,), layer["norm1"]) @ layer["qkv"]
            heads = qkv.view(batch, n, -1, s.head_dim).transpose(1, 2)
            q, k, v = heads.split([s.q_heads, s.kv_heads, s.kv_heads], dim=1)
            q, k = self._turned(q, start), self._turned(k, start)
            cache[0][:, :, start : start + n] = k
            cache[1][:, :, start : start + n] = v
            x = x + self._attend(q, cache[:, :, :, : start + n], n) @ layer["out"]
            gate_up = F.rms_norm(x, (s.hidden,), layer["norm2"]) @ layer["gate_up"]
            gate, up = gate_up.chunk(2, dim=-1)
            x = x + (F.silu(gate) * up) @ layer["down"]
        return F.rms_norm(x[:, -1], (s.hidden,), self.norm) @ self.head.T

    def _attend(self, q, cache, n: int):
        """[batch, n, all heads] from q[batch, q_heads, n, head_dim]."""
        s, batch = self.shape, q.shape[0]
        keys, values = cache
        if n == 1:  # the query heads that share a KV head stand as its queries: KV is read once
            grouped = q.reshape(batch, s.kv_heads, s.q_heads // s.kv_heads, s.head_dim)
            mixed = F.scaled_dot_product_attention(grouped, keys, values)
            return mixed.reshape(batch, 1, -1)
        mixed = F.scaled_dot_product_attention(q, keys, values, is_causal=True, enable_gqa=True)
        return mixed.transpose(1, 2).reshape(batch, n, -1)

    def _turned(self, x, start: int):
        """Rotary position embedding of x[batch, heads, n, head_dim]."""
        n = x.shape[2]
        cos, sin = self.cos[start : start + n], self.sin[start : start + n]
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

    def decode_step(self, batch: int, context: int):
        """One token for each stream, the last of its ``context``; greedy, fed back."""
        self.make_room(batch, context)
        ids = torch.zeros(batch, 1, device=self.device, dtype=torch.long)

        def step():
            ids.copy_(self.forward(ids, context - 1).argmax(-1, keepdim=True))

        return step

    def prefill_step(self, tokens: int):
        """One fresh prompt of ``tokens`` tokens, and its first output token."""
        self.make_room(1, tokens)
        ids = torch.randint(self.shape.vocab, (1, tokens), device=self.device)
        out = torch.zeros(1, device=self.device, dtype=torch.long)

        def step():
            out.copy_(self.forward(ids, 0).argmax(-1))

        return step


def codec_step(toy: bool, rows: int, frames: int, device: str):
    """A codec-like batch: transposed convolutions, each with two residual convolutions after it."""
    first, stages = TOY_CODEC if toy else SPEECH_CODEC
    modules, before = [], first
    for channels, rate in stages:
        up = torch.nn.ConvTranspose1d(before, channels, 2 * rate, rate, padding=rate // 2)
        residuals = [torch.nn.Conv1d(channels, channels, 7, padding=3) for _ in range(2)]
        modules.append((up.to(device, torch.bfloat16), residuals))
        for conv in residuals:
            conv.to(device, torch.bfloat16)
        before = channels
    x = torch.randn(rows, first, frames, device=device, dtype=torch.bfloat16)

    def step():
        y = x
        for up, residuals in modules:
            y = F.silu(up(y))
            for conv in residuals:
                y = y + F.silu(conv(y))
        return y

    return step


# --- how it is timed --------------------------------------------------------------------------


def ready(step, device: str):
    """The step as one CUDA graph, warmed up; on a CPU as it is."""
    if device != "cuda":
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def times(step, repeats: int, device: str) -> list[float]:
    """Seconds of each repeat: CUDA events, or the monotone clock on a CPU."""
    found = []
    for _ in range(repeats):
        if device == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            step()
            end.record()
            end.synchronize()
            found.append(begin.elapsed_time(end) / 1e3)
        else:
            begin = time.perf_counter()
            step()
            found.append(time.perf_counter() - begin)
    return found


class Load:
    """Codec batches without pause in a second process, until the block ends."""

    def __init__(self, args: argparse.Namespace, rows: int, frames: int):
        self.rows, self.frames = rows, frames
        self.folder = tempfile.TemporaryDirectory()
        self.log = Path(self.folder.name) / "batches"
        self.command = [
            sys.executable, __file__, "--model", args.model, "--device", args.device,
            "--load", str(self.log), str(os.getpid()),
            "--codec-rows", str(rows), "--codec-frames", str(frames),
        ]  # fmt: skip

    def __enter__(self) -> Load:
        self.process = subprocess.Popen(self.command, start_new_session=True)  # no Ctrl-C for it
        try:
            while len(self.between(0.0, math.inf)) < 3:
                time.sleep(0.05)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    def between(self, start: float, end: float) -> list[float]:
        """Seconds of the batches that began and ended between two times of the monotone clock."""
        if self.process.poll() is not None:
            raise Refused("--sharing: the codec process has ended; its last words are above")
        text = self.log.read_text() if self.log.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()
        batches = [tuple(map(float, line.split())) for line in lines]
        return [seconds for begun, seconds in batches if begun >= start and begun + seconds <= end]


def run_load(args: argparse.Namespace) -> int:
    """The second process: one line a batch, its start and its seconds, until the first is gone."""
    log_path, parent = args.load
    rows, frames = args.codec_rows[0], args.codec_frames[0]
    step = ready(codec_step(args.model == "toy", rows, frames, args.device), args.device)
    with open(log_path, "w", buffering=1) as log:
        while os.getppid() == int(parent):
            begun = time.monotonic()
            (seconds,) = times(step, 1, args.device)
            log.write(f"{begun!r} {seconds!r}\n")
    return 0


# --- the grid ---------------------------------------------------------------------------------


class Refused(Exception):
    """Something that the user must change; one line."""


class Table:
    """The step CSV: every row is on disk once it is measured; the name is final at the end."""

    def __init__(self, path: Path, source: str):
        self.path, self.source, self.rows = path, source, 0
        self.part = path.with_name(path.name + ".part")
        for there in (self.part, path):
            if there.exists():
                raise Refused(f"--out: {there} is there already; give another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = open(self.part, "w", newline="")  # noqa: SIM115
        self.writer = csv.DictWriter(self.file, COLUMNS, restval="")
        self.writer.writeheader()

    def add(
        self, run: int, stage: str, seconds: list[float], beside: str = "", **cells: int
    ) -> None:
        """One row, the median; the note has how many there were and their extremes."""
        median, low, high = statistics.median(seconds), min(seconds), max(seconds)
        note = f"median of {len(seconds)}; {low * 1e3:.4g} to {high * 1e3:.4g} ms"
        named = "-".join(f"{name[0]}{value}" for name, value in cells.items() if value)
        row = {
            "stage": stage, "seconds": repr(median), "run_id": f"{stage}-{beside}{named}-r{run}",
            "source": self.source, "note": note, **cells,
        }  # fmt: skip
        self.writer.writerow(row)
        self.file.flush()
        self.rows += 1
        print(f"{row['run_id']}: {median * 1e3:.4g} ms", file=sys.stderr)

    def close(self) -> None:
        self.file.close()
        self.part.rename(self.path)


def measure(args: argparse.Namespace, table: Table, skipped: list[str]) -> None:
    """The whole grid, ``runs`` times over, so that a drift of the clock shows between runs."""
    bench = Bench(args, table, skipped, Decoder(SHAPES[args.model], args.device), set())
    grid = [(batch, context) for context in args.contexts for batch in args.batches]
    codec = [(rows, frames) for frames in args.codec_frames for rows in args.codec_rows]
    for run in range(1, args.runs + 1):
        for point in grid:
            bench.attempt(bench.decode, "decode", point, run)
        for tokens in args.prefill:
            bench.attempt(bench.prefill, "prefill", (tokens,), run)
        for point in codec:
            bench.attempt(bench.codec, "codec", point, run)
        if args.sharing != "none":
            rows, frames = max(args.codec_rows), max(args.codec_frames)
            with Load(args, rows, frames) as bench.load:
                for point in grid:
                    bench.attempt(bench.shared, "decode beside codec", point, run)


@dataclass
class Bench:
    """One measurement: ``without`` are the points that did not fit in memory."""

    args: argparse.Namespace
    table: Table
    skipped: list[str]
    decoder: Decoder
    without: set[tuple]
    load: Load | None = None

    def attempt(self, what, kind: str, point: tuple[int, ...], run: int) -> None:
        """Measure a point; one that does not fit in memory is noted and not tried again."""
        if (kind, *point) in self.without:
            return
        try:
            what(*point, run)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            self.without.add((kind, *point))
            self.skip(f"{kind} {' x '.join(map(str, point))}: out of memory")
        self.decoder.cache = None
        if self.args.device == "cuda":
            torch.cuda.empty_cache()

    def skip(self, why: str) -> None:
        self.skipped.append(why)
        print(why, file=sys.stderr)

    def timed(self, step) -> list[float]:
        step = ready(step, self.args.device)
        times(step, self.args.warmup, self.args.device)
        return times(step, self.args.repeats, self.args.device)

    def decode(self, batch: int, context: int, run: int) -> None:
        seconds = self.timed(self.decoder.decode_step(batch, context))
        self.table.add(run, "decode", seconds, batch=batch, context_tokens=context)

    def prefill(self, tokens: int, run: int) -> None:
        seconds = self.timed(self.decoder.prefill_step(tokens))
        self.table.add(run, "prefill", seconds, batch=0, prefill_tokens=tokens)

    def codec(self, rows: int, frames: int, run: int) -> None:
        step = codec_step(self.args.model == "toy", rows, frames, self.args.device)
        self.table.add(run, "codec", self.timed(step), batch=rows, frames=rows * frames)

    def shared(self, batch: int, context: int, run: int) -> None:
        """Decode beside the codec load, until three of its batches fell into the time."""
        args, load = self.args, self.load
        step = ready(self.decoder.decode_step(batch, context), args.device)
        times(step, args.warmup, args.device)
        begun, steps, batches = time.monotonic(), [], []
        for _ in range(50):
            steps += times(step, args.repeats, args.device)
            batches = load.between(begun, time.monotonic())
            if len(batches) >= 3:
                break
        cells = {"batch": load.rows, "frames": load.rows * load.frames}
        self.table.add(run, "decode_with_codec", steps, batch=batch, context_tokens=context)
        if batches:
            beside = f"b{batch}-c{context}-"
            self.table.add(run, "codec_with_decode", batches, beside, **cells)
        else:
            self.skip(f"codec beside decode {batch} x {context}: no whole batch in the time")


def out_of_memory(error: BaseException | None) -> bool:
    """Also where it broke off a graph's capture, which then fails with an error of its own."""
    while error is not None:
        if isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error):
            return True
        error = error.__context__
    return False


# --- the machine ------------------------------------------------------------------------------


def mps_running() -> bool:
    """Whether the control daemon of CUDA's Multi-Process Service has its pipe open here."""
    folder = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")
    return (Path(folder) / "control").exists()


def check_sharing(args: argparse.Namespace) -> None:
    if args.sharing == "none":
        return
    if not args.codec_rows:
        raise Refused("--sharing: needs --codec-rows (streams in the codec batch beside decode)")
    if args.sharing == "mps" and args.device != "cuda":
        raise Refused("--sharing mps: no CUDA device here; allowed: none, plain")
    if args.sharing == "mps" and not mps_running():
        tool = "nvidia-cuda-mps-control"
        hint = f"start it: {tool} -d" if shutil.which(tool) else f"{tool} is not installed"
        raise Refused(f"--sharing mps: the MPS daemon is not running ({hint})")
    if args.sharing == "plain" and args.device == "cuda" and mps_running():
        raise Refused(
            "--sharing plain: an MPS daemon is running and both processes would use it; stop it: "
            "echo quit | nvidia-cuda-mps-control"
        )


SMI = "driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit,temperature.gpu"


def nvidia_smi() -> dict[str, str] | None:
    """What nvidia-smi says of the first GPU, or None where it does not answer."""
    query = ["nvidia-smi", "--id=0", f"--query-gpu={SMI}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return dict(zip(SMI.split(","), (v.strip() for v in answer.stdout.split(",")), strict=False))


def device_name(device: str) -> str:
    return torch.cuda.get_device_name() if device == "cuda" else f"CPU {platform.machine()}"


def manifest(args: argparse.Namespace) -> dict[str, object]:
    """What a reader needs to judge the numbers, as it stands before the first of them."""
    shape = SHAPES[args.model]
    return {
        "schema": "voicesim-kit/1",
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),  # noqa: UP017
        "device": device_name(args.device),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "timed_with": "CUDA events, CUDA graphs" if args.device == "cuda" else "monotone clock",
        "mps_running": mps_running(),
        "mps_thread_percentage": os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
        "gpu_before": nvidia_smi(),
        "arguments": {name: str(v) if name == "out" else v for name, v in vars(args).items()},
        "shape": asdict(shape),
        "step_parameters": shape.step_parameters,
        "kv_bytes_per_token": shape.kv_bytes(),
    }


# --- the command ------------------------------------------------------------------------------


def sizes(text: str) -> list[int]:
    """Whole numbers from 1, comma-separated, each once."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    bad = [word for word in words if not word.isascii() or not word.isdigit() or int(word) < 1]
    if bad:
        raise argparse.ArgumentTypeError(f"found {bad[0]!r}; whole numbers from 1, as in 1,2,4")
    return list(dict.fromkeys(map(int, words)))


def model(text: str) -> str:
    if text not in SHAPES:
        near = difflib.get_close_matches(text, SHAPES, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise argparse.ArgumentTypeError(f"found {text!r}; {hint}allowed: {', '.join(SHAPES)}")
    return text


def count(text: str) -> int:
    found = sizes(text)
    if len(found) != 1:
        raise argparse.ArgumentTypeError(f"found {text!r}; one whole number from 1")
    return found[0]


class OneLine(argparse.ArgumentParser):
    """An error is one line, without the usage before it."""

    def error(self, message: str):
        self.exit(2, f"measure.py: {message}\n")


def parser() -> argparse.ArgumentParser:
    p = OneLine(prog="measure.py", description=(__doc__ or "").split("\n")[0])
    p.add_argument("--model", type=model, default="qwen3-tts-1.7b", help=", ".join(SHAPES))
    p.add_argument("--out", type=Path, default=Path("steps.csv"), help="step CSV to write")
    p.add_argument("--batches", type=sizes, default=sizes("1,2,4,8,16,32,48,64,96,128,192,256"))
    p.add_argument("--contexts", type=sizes, default=sizes("128,1024"), help="tokens per stream")
    p.add_argument("--prefill", type=sizes, default=sizes("32,128,512,2048"), help="prompt tokens")
    p.add_argument("--codec-rows", type=sizes, default=[], help="streams per codec batch")
    p.add_argument("--codec-frames", type=sizes, default=sizes("97"), help="frames per stream")
    p.add_argument("--sharing", choices=("none", "plain", "mps"), default="none")
    p.add_argument("--runs", type=count, default=5, help="times over the grid")
    p.add_argument("--repeats", type=count, default=30, help="timed steps per row")
    p.add_argument("--warmup", type=count, default=10, help="untimed steps before them")
    p.add_argument("--device", choices=("cuda", "cpu"), default=None)
    p.add_argument("--load", nargs=2, help=argparse.SUPPRESS)
    return p


def main(argv: list[str] | None = None) -> int:
    args = parser().parse_args(argv)
    try:
        return command(args)
    except Refused as refused:
        print(f"measure.py: {refused}", file=sys.stderr)
        return 2


def command(args: argparse.Namespace) -> int:
    if torch is None:
        raise Refused("torch is not installed (pip install torch)")
    there = torch.cuda.is_available()
    args.device = args.device or ("cuda" if there else "cpu")
    if args.device == "cuda" and not there:
        raise Refused("--device cuda: torch finds no CUDA device; allowed: cpu")
    torch.set_grad_enabled(False)
    if args.load:
        return run_load(args)
    check_sharing(args)
    about, skipped = manifest(args), []
    table = Table(args.out, f"measure.py {args.model}, random weights, {about['device']}")
    interrupted = False
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        measure(args, table, skipped)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        finish(table, about, skipped, interrupted)
    return 130 if interrupted else 0


def finish(table: Table, about: dict[str, object], skipped: list[str], interrupted: bool) -> None:
    """Give both files their names; what was measured is kept whatever came after it."""
    table.close()
    rest = {"rows": table.rows, "skipped": skipped, "interrupted": interrupted}
    path = table.path.with_suffix(".json")
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps({**about, "gpu_after": nvidia_smi(), **rest}, indent=1) + "\n")
    part.rename(path)
    print(f"{table.path}: {table.rows} rows; {path}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
