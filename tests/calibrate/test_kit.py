"""The measurement kit: its arithmetic, its refusals, and (where torch is installed) a toy run."""

import csv
import dataclasses
import importlib.util
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from voicesim.calibrate import run_calibrate
from voicesim.catalogue import MODELS

SCRIPT = Path(__file__).resolve().parents[2] / "calibration" / "kit" / "measure.py"


@pytest.fixture(scope="module")
def kit():
    spec = importlib.util.spec_from_file_location("measure", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["measure"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["measure"]


@pytest.fixture
def torch(kit):
    """torch on one thread, or the test is skipped."""
    found = pytest.importorskip("torch")
    before = found.get_num_threads()
    found.set_num_threads(1)
    handler = signal.getsignal(signal.SIGTERM)
    yield found
    found.set_num_threads(before)
    found.set_grad_enabled(True)
    signal.signal(signal.SIGTERM, handler)


# --- arithmetic, without torch ----------------------------------------------------------------

PUBLISHED = {
    "qwen3-tts-1.7b": (1.7e9, 1.4e9),  # https://huggingface.co/Qwen/Qwen3-1.7B
    "qwen3-tts-0.6b": (0.6e9, 0.44e9),  # https://huggingface.co/Qwen/Qwen3-0.6B
    "orpheus-3b": (3.21e9, None),  # https://huggingface.co/meta-llama/Llama-3.2-3B
    "llama-3.1-8b": (8.03e9, None),  # https://huggingface.co/meta-llama/Llama-3.1-8B
    "cosyvoice2-0.5b": (0.49e9, 0.36e9),  # https://huggingface.co/Qwen/Qwen2.5-0.5B
}
"""Parameters of the language model that each is made of: all, and all but the embeddings."""


def test_every_named_shape_has_its_published_size(kit):
    assert set(PUBLISHED) == set(kit.SHAPES) - {"toy"}
    for name, (total, without) in PUBLISHED.items():
        shape = kit.SHAPES[name]
        assert shape.published_parameters == pytest.approx(total, rel=0.03), name
        if without is not None:
            layers = shape.layers * shape.layer_parameters
            assert layers == pytest.approx(without, rel=0.03), name


def test_a_layer_by_hand(kit):
    """Hidden 64, 4 + 2 + 2 heads of 16 in, 4 heads out, MLP 3 x 128, two norms."""
    shape = kit.SHAPES["toy"]
    layer = 64 * 8 * 16 + 4 * 16 * 64 + 3 * 64 * 128 + 2 * 64
    assert shape.layer_parameters == layer
    assert shape.step_parameters == 2 * layer + 64 + 96 * 64
    assert shape.kv_bytes() == 2 * 2 * 2 * 16 * 2


def test_kv_bytes_agree_with_the_catalogue(kit):
    """Llama-3.1-8B: 2 x 32 layers x 8 heads x 128 x 2 bytes."""
    assert kit.SHAPES["llama-3.1-8b"].kv_bytes() == 131_072
    shared = [name for name in kit.SHAPES if name in MODELS]
    assert len(shared) >= 4
    for name in shared:
        assert kit.SHAPES[name].kv_bytes() == MODELS[name].kv_bytes_per_token, name


def test_the_codec_makes_1920_samples_a_frame(kit):
    """24 kHz over 12.5 frames a second."""
    samples = 1
    for _, rate in kit.SPEECH_CODEC[1]:
        samples *= rate
    assert samples == 24_000 / 12.5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "qwen3-tts-1.7"], "did you mean 'qwen3-tts-1.7b'?"),
        (["--batches", "1,two"], "argument --batches: found 'two'"),
        (["--contexts", "0"], "argument --contexts: found '0'; whole numbers from 1"),
        (["--runs", "1,2"], "argument --runs: found '1,2'; one whole number"),
        (["--sharing", "both"], "invalid choice: 'both'"),
    ],
)
def test_a_bad_argument_is_one_line(kit, words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        kit.main(words)
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert error.count("\n") == 1
    assert error.startswith("measure.py: ") and message in error


def test_sharing_says_what_it_lacks(kit, tmp_path, monkeypatch):
    """MPS is asked for where its daemon is not, and plain time slicing where it is."""
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))

    def refusal(*words: str) -> str:
        with pytest.raises(kit.Refused) as refused:
            kit.check_sharing(kit.parser().parse_args(words))
        return str(refused.value)

    on_gpu = ("--device", "cuda", "--codec-rows", "4", "--sharing")
    assert "the MPS daemon is not running" in refusal(*on_gpu, "mps")
    assert "needs --codec-rows" in refusal("--sharing", "plain")
    assert "no CUDA device" in refusal("--device", "cpu", "--codec-rows", "4", "--sharing", "mps")
    kit.check_sharing(kit.parser().parse_args([*on_gpu, "plain"]))
    (tmp_path / "control").touch()
    kit.check_sharing(kit.parser().parse_args([*on_gpu, "mps"]))
    assert "an MPS daemon is running" in refusal(*on_gpu, "plain")


# --- with torch -------------------------------------------------------------------------------

TINY = [
    "--model", "toy", "--device", "cpu", "--contexts", "8,64", "--repeats", "2", "--warmup", "1",
]  # fmt: skip


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("change", [{}, {"hidden": 48}, {"kv_heads": 1}])
def test_a_token_decoded_is_a_token_prefilled(kit, torch, change):
    """The last token after a cache of the others gives the logits that the whole prompt gives;
    so positions, causality and the grouping of heads are right, also where the heads together are
    wider than the model (as in qwen3-tts-0.6b)."""
    torch.manual_seed(1)
    shape = dataclasses.replace(kit.SHAPES["toy"], **change)
    decoder = kit.Decoder(shape, "cpu", torch.float32)
    with torch.no_grad():
        ids = torch.randint(96, (3, 12))
        decoder.make_room(3, 12)
        whole = decoder.forward(ids, 0)
        decoder.make_room(3, 12)
        decoder.forward(ids[:, :11], 0)
        last = decoder.forward(ids[:, 11:], 11)
    assert whole.shape == (3, 96)
    torch.testing.assert_close(last, whole, rtol=1e-4, atol=1e-4)
    assert float(whole.std()) > 0.1


def test_what_is_allocated_is_what_is_counted(kit, torch):
    shape = kit.SHAPES["toy"]
    decoder = kit.Decoder(shape, "cpu")
    weights = [w for layer in decoder.layers for w in layer.values()]
    weights += [decoder.norm, decoder.head]
    assert sum(w.numel() for w in weights) == shape.step_parameters
    decoder.make_room(5, 7)
    assert decoder.cache.numel() * decoder.cache.element_size() == 35 * shape.kv_bytes()


def test_a_toy_run_becomes_a_profile(kit, torch, tmp_path):
    """Grid, prompts and codec, two runs; every row once, with its own run; then calibrate."""
    out = tmp_path / "new" / "toy.csv"
    words = ["--batches", "1,2,4,8", "--prefill", "16,128,256", "--codec-rows", "1,4"]
    assert kit.main([*TINY, *words, "--codec-frames", "8", "--runs", "2", "--out", str(out)]) == 0
    rows = rows_of(out)
    assert list(rows[0]) == kit.COLUMNS
    assert len(rows) == 2 * (4 * 2 + 3 + 2) == len({row["run_id"] for row in rows})
    assert [r["frames"] for r in rows if r["stage"] == "codec"] == ["8", "32"] * 2
    assert {p.name for p in out.parent.iterdir()} == {"toy.csv", "toy.json"}
    about = json.loads(out.with_suffix(".json").read_text())
    assert (about["rows"], about["skipped"], about["interrupted"]) == (len(rows), [], False)
    assert about["torch"] == torch.__version__
    assert about["arguments"]["batches"] == [1, 2, 4, 8]

    profile = run_calibrate([out], tmp_path / "toy.yaml")
    assert profile.range.batch == (1, 8)
    assert profile.range.context_tokens == (8, 64)
    assert profile.range.prefill_tokens == (0, 256)
    assert profile.sources[0].rows == len(rows)
    assert profile.codec is not None
    assert profile.predict(8, 64) > 0


def test_a_shared_card_gives_both_slowdowns(kit, torch, tmp_path):
    """Two processes: rows of decode beside the codec, and of the codec beside decode."""
    out = tmp_path / "s.csv"
    words = ["--batches", "2", "--contexts", "8", "--prefill", "8", "--codec-rows", "1,3"]
    words += ["--codec-frames", "4", "--sharing", "plain", "--runs", "1", "--out", str(out)]
    assert kit.main([*TINY, *words]) == 0
    both = [row for row in rows_of(out) if "_with_" in row["stage"]]
    assert [(r["stage"], r["batch"], r["frames"]) for r in both] == [
        ("decode_with_codec", "2", ""),
        ("codec_with_decode", "3", "12"),  # the largest codec batch
    ]
    assert run_calibrate([out], tmp_path / "s.yaml").sharing.decode_slowdown.origin != "assumed"


def test_what_does_not_fit_is_noted_and_skipped(kit, torch, tmp_path, monkeypatch, capsys):
    """Batch 4 at context 64 finds no memory: tried in the first run only, all else is there."""
    plain, tried = kit.Decoder.decode_step, []

    def step(self, batch, context):
        if batch * context >= 256:
            tried.append(batch)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return plain(self, batch, context)

    monkeypatch.setattr(kit.Decoder, "decode_step", step)
    out = tmp_path / "s.csv"
    words = ["--batches", "1,4", "--prefill", "8", "--runs", "2", "--out", str(out)]
    assert kit.main([*TINY, *words]) == 0
    about = json.loads(out.with_suffix(".json").read_text())
    assert about["skipped"] == ["decode 4 x 64: out of memory"]
    assert tried == [4]
    assert len(rows_of(out)) == 2 * (3 + 1)


def test_an_error_of_another_kind_is_not_taken_for_one_of_memory(kit, torch):
    assert kit.out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: 1 byte"))
    assert not kit.out_of_memory(RuntimeError("shape mismatch"))
    try:
        try:
            raise torch.OutOfMemoryError("no room")
        finally:
            raise RuntimeError("capture failed")
    except RuntimeError as error:
        assert kit.out_of_memory(error)


def test_an_interrupt_keeps_the_finished_rows(kit, torch, tmp_path, monkeypatch):
    plain = kit.Decoder.prefill_step

    def step(self, tokens):
        if tokens == 9:
            os.kill(os.getpid(), signal.SIGTERM)  # taken as Ctrl-C is
        return plain(self, tokens)

    monkeypatch.setattr(kit.Decoder, "prefill_step", step)
    out = tmp_path / "s.csv"
    words = ["--batches", "1", "--prefill", "8,9,10", "--runs", "2", "--out", str(out)]
    assert kit.main([*TINY, *words]) == 130
    assert len(rows_of(out)) == 2 + 1
    assert json.loads(out.with_suffix(".json").read_text())["interrupted"] is True
    assert {p.name for p in tmp_path.iterdir()} == {"s.csv", "s.json"}
    run_calibrate([out], tmp_path / "s.yaml")


def test_measured_rows_are_not_written_over(kit, torch, tmp_path, capsys):
    out = tmp_path / "s.csv"
    out.write_text("mine")
    assert kit.main([*TINY, "--out", str(out)]) == 2
    assert "s.csv is there already; give another name" in capsys.readouterr().err
    assert out.read_text() == "mine"
