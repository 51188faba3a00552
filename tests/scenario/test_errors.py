"""Bad files: each kind of problem, on its line, in plain words, all at once."""

import math
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from voicesim.calibrate import CalibrationError
from voicesim.calibrate.readers import read as read_measurement
from voicesim.engine.profile import ProfileError, load_profile
from voicesim.scenario import ScenarioErrors, ScenarioFile, load, loads
from voicesim.scenario.checks import HOLE, UNREAD

from .conftest import PLAIN, SKETCH

HOME = Path(__file__).resolve().parents[2]


def test_everything_is_listed_at_once(refused):
    found = refused(
        """\
        horizon: -3s
        workload:
          arrivals: {kind: surg}
          utterance: {audio: {lognormal: {mean: 4q, p99: x}}}
          utterances_per_session: {geometrc: {mean: 3}}
        cluster:
          gpus: {h100: {preset: h100-sx, count: 2}}
          pools:
            tts:
              replicas: 3
              on: h10
              engine: {profile: profil.yaml, block_siz: 8, memory: 35}
              codec:
                chunk: {first: 0}
                on: same
        policies:
          admission: {policy: foo}
        variants:
          a: {policies.admision: {kind: cap, streams: 40}}
          b: {listener.player: {prebuffer: 2s, max_queue: 1s}}
        """
    )
    expected = [
        "case.yaml:1: horizon: a duration cannot be negative; found '-3s'",
        "case.yaml:3: workload.arrivals.kind: unknown kind 'surg'; did you mean 'surge'?",
        "case.yaml:4: workload.utterance.audio.lognormal.mean: expected a duration",
        "case.yaml:4: workload.utterance.audio.lognormal.p99: expected a duration",
        "case.yaml:5: workload.utterances_per_session.geometrc: unknown distribution; did you "
        "mean 'geometric'?",
        "case.yaml:7: cluster.gpus.h100.preset: unknown GPU preset 'h100-sx'; did you mean "
        "'h100-sxm'?",
        "case.yaml:11: cluster.pools.tts.on: unknown GPU 'h10'; did you mean 'h100'?",
        "case.yaml:12: cluster.pools.tts.engine.profile: no such file: 'profil.yaml'; did you "
        "mean 'profile.yaml'?",
        "case.yaml:12: cluster.pools.tts.engine.memory: must lie between 0 and 1; found 35",
        "case.yaml:12: cluster.pools.tts.engine.block_siz: unknown key; did you mean "
        "'block_size'? allowed: kind, profile,",
        "case.yaml:14: cluster.pools.tts.codec.chunk.first: expected a whole number of at least 1",
        "case.yaml:14: cluster.pools.tts.codec.chunk.steady: missing",
        "case.yaml:15: cluster.pools.tts.codec.on: unknown name 'same'; did you mean 'same_gpu'?",
        "case.yaml:17: policies.admission.policy: expected package.module:ClassName; found 'foo'",
        "case.yaml:19: variants.a.policies.admision: unknown key 'admision'; did you mean "
        "'admission'?",
        "case.yaml:20: variants.b.listener.player.max_queue: must hold at least prebuffer and "
        "rebuffer (2s)",
    ]
    assert len(found) == len(expected), "\n".join(found)
    for line, start in zip(found, expected, strict=True):
        assert line.startswith(start)
    assert not any(word in line for line in found for word in ("Input", "Field", "valid "))


@pytest.mark.parametrize(
    ("sets", "start"),
    [
        ("warmup=10min", "warmup: must be less than horizon (600s)"),
        ("workload.utterance={}", "workload.utterance: give exactly one of audio and tokens"),
        ("workload.utterance={audio: 1, tokens: 3}", "workload.utterance: give exactly one"),
        ("workload.think=3s", "workload.think: never used: utterances_per_session is 1"),
        (
            "workload={arrivals: {kind: closed, callers: 2}, utterance: {audio: 1s}, "
            "utterances_per_session: 3}",
            "workload.utterances_per_session: never used",
        ),
        ("workload.refused={then: leave}", "workload.refused: never used"),
        ("workload.patience=0s", "workload.patience: must be more than 0"),
        ("workload.utterance.audio={geometric: {mean: 3}}", "workload.utterance.audio.geometric"),
        (
            "workload.utterance.audio={lognormal: {mean: 3, p99: 2}}",
            "workload.utterance.audio.lognormal.p99: must be more than the mean",
        ),
        (
            "workload.utterance.audio={lognormal: {mean: 3}}",
            "workload.utterance.audio.lognormal: expected {mean, p99} or {median, sigma}",
        ),
        (
            "workload.utterance.audio={empirical: {values: [1, -2]}}",
            "workload.utterance.audio.empirical.values.1: a duration cannot be negative",
        ),
        (
            "workload.utterance.audio={empirical: {file: bad.csv, column: lenght}}",
            "workload.utterance.audio.empirical.column: bad.csv has no column 'lenght'; did you "
            "mean 'length'?",
        ),
        (
            "workload.utterance.audio={empirical: {file: bad.csv, column: length}}",
            "workload.utterance.audio.empirical.column: bad.csv:3: length: expected a number",
        ),
        (
            "workload.arrivals={kind: trace, file: late.csv}",
            "workload.arrivals.file: line 3 goes back in time",
        ),
        (
            "workload.arrivals={kind: trace, file: full.csv}",
            "workload.utterance.audio: never used: the trace gives tokens",
        ),
        (
            "workload.arrivals={kind: surge, base: 3/s, peak: 2/s, at: 0, rise: 0, hold: 1, "
            "fall: 0}",
            "workload.arrivals.peak: is less than base",
        ),
        (
            "workload.arrivals={kind: gamma, rate: 1/s, dispersion: 1}",
            "workload.arrivals.dispersion: must be more than 1",
        ),
        ("workload.arrivals={kind: burst, size: 3, at: 1h}", "workload.arrivals.at: comes after"),
        ("workload.arrivals={rate: 2/s}", "workload.arrivals.kind: missing; allowed: poisson,"),
        ("workload.arrivals.rate=0/s", "workload.arrivals.rate: must be more than 0"),
        ("cluster.pools.tts.replicas=3", "cluster.pools.tts.replicas: 3 replicas need 3 cards"),
        (
            "cluster.pools.tts={on: card, replicas: 2, engine: {profile: profile.yaml}, "
            "codec: {chunk: {first: 1, steady: 1}, on: other_gpu}}",
            "cluster.pools.tts.replicas: 2 replicas with a second card each for the codec need 4",
        ),
        ("cluster.pools={}", "cluster.pools: needs at least one pool"),
        ("cluster.gpus={card: {count: 2}}", "cluster.pools.tts.engine: the memory of 'card'"),
        ("cluster.pools.tts.engine.max_num_seqs=4096", "cluster.pools.tts.engine.max_num_batched"),
        (
            "cluster.pools.tts.engine={profile: profile.yaml, kv_blocks: 3, memory: 0.5}",
            "cluster.pools.tts.engine.memory: never used: kv_blocks is given",
        ),
        (
            "cluster.pools.tts.engine.capture_sizes=[4, 2]",
            "cluster.pools.tts.engine.capture_sizes: sizes must rise",
        ),
        (
            "listener.player={prebuffer: 2s, max_queue: 1s}",
            "listener.player.max_queue: must hold at least prebuffer",
        ),
        (
            "cluster.pools.tts.engine.pacing={reserve_slots: 256}",
            "cluster.pools.tts.engine.pacing.reserve_slots: 256 is not less than max_num_seqs",
        ),
        ("alarms=[{metric: waiting, over: 1s, above: 1x_chunk}]", "alarms.0.above: x_chunk is for"),
        ("alarms.3.above=1", "alarms.3.above: unknown position '3'"),
        ("horizon.x=1", "horizon.x: horizon is '10min', so it has no 'x'"),
        ("variants.a=1", "variants.a: unknown key 'variants'"),
        ("seed=-1", "seed: expected a whole number of at least 0"),
        ("cluster.pools.tts.engine.noise=3", "cluster.pools.tts.engine.noise: expected true or"),
        ("workload=", "workload: expected a mapping (key: value); found nothing"),
        ("horizon=1: 2", "the value is not YAML"),
        ("horizon", "expected dotted.path=value"),
    ],
)
def test_each_contradiction(refused, tmp_path, sets, start):
    (tmp_path / "bad.csv").write_text("length\n3\nx\n")
    (tmp_path / "late.csv").write_text("t_s\n3\n2\n")
    (tmp_path / "full.csv").write_text("t_s,tokens\n3,2\n")
    lines = refused(PLAIN, sets)
    found = [line.removeprefix(f"--set {sets[:77]}").lstrip(".: ") for line in lines]
    found += [line.split(": ", 1)[1] for line in lines]
    assert any(start in line for line in found), lines


def test_a_problem_of_the_base_is_said_once(refused):
    found = refused(SKETCH.replace("count: 8", "count: 7"))
    assert found == ["case.yaml:17: cluster.pools.tts.replicas: 8 replicas need 8 cards; there "
                     "are 7 (cluster.gpus.h100.count)"]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "case.yaml:1: the file is empty"),
        (b"- a\n- b\n", "case.yaml:1: expected a mapping"),
        (b"horizon: 3\n\tseed: 4\n", "case.yaml:2: a tab; YAML is indented with spaces"),
        (b"horizon: 3\ntitle: \xff\n", "case.yaml:2: the file is not UTF-8"),
        (b"horizon: 3\ntitle: \x07\n", "case.yaml:2: the character '\\x07' is not allowed"),
        (b"horizon: [3\n", "case.yaml:2: not YAML"),
        (b"a: 1\n---\nb: 2\n", "case.yaml:2: a second document"),
        (b"a: " + b"[" * 500 + b"]" * 500, "case.yaml:1: not YAML: nested too deep"),
        (b"a: &a [*a]\n", "case.yaml:1: a.0: an alias to the mapping that it stands in"),
        (b"a: *b\n", "case.yaml:1: not YAML: found undefined alias"),
        (b"title: !!python/object:os.system x\n", "case.yaml:1: title: the tag"),
        (b"horizon: 1\nhorizon: 2\n", "case.yaml:2: horizon: given twice; first on line 1"),
        (b"? [1]\n: 3\n", "case.yaml:1: a key must be plain text"),
    ],
)
def test_broken_yaml(tmp_path, content, line):
    path = tmp_path / "case.yaml"
    path.write_bytes(content)
    with pytest.raises(ScenarioErrors) as caught:
        load(path)
    assert any(str(problem).startswith(line) for problem in caught.value.problems), caught.value


def test_a_billion_laughs_is_refused():
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for i in range(1, 9):
        text += f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n"
    with pytest.raises(ScenarioErrors, match="too many values"):
        loads(text)


def test_a_billion_laughs_in_a_profile_is_refused(tmp_path):
    text = "schema: voicesim-profile/1\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for i in range(1, 9):
        text += f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n"
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(ProfileError, match=r"p\.yaml:") as refused:
        load_profile(tmp_path / "p.yaml")
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("text", ["[" * 20_000, "{a: " * 5_000, "- " * 20_000, "? " * 20_000])
def test_a_file_too_deep_is_refused(tmp_path, text):
    (tmp_path / "deep.yaml").write_text(text)
    for load_it, refusal in ((load, ScenarioErrors), (load_profile, ProfileError)):
        with pytest.raises(refusal) as refused:
            load_it(tmp_path / "deep.yaml")
        assert len(str(refused.value)) < 500


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_device_or_a_pipe_is_not_waited_for(tmp_path):
    """Nothing that never ends, or waits for a writer, is read."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(ScenarioErrors, match=r"is no file \(a device or a pipe\)"):
            load(path)
        with pytest.raises(CalibrationError, match=r"is no file \(a device or a pipe\)"):
            read_measurement(path)
        with pytest.raises(ProfileError):
            load_profile(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(ScenarioErrors, match=r"cannot be read: No such file or directory$"):
        load(tmp_path / "none.yaml")
    (tmp_path / "holiday.yaml").touch()
    (tmp_path / "holidays").mkdir()
    with pytest.raises(ScenarioErrors, match=r"did you mean '.*holiday\.yaml'\?$"):
        load(tmp_path / "holliday.yaml")
    with pytest.raises(ScenarioErrors, match=r"cannot be read: Is a directory$"):
        load(tmp_path / "holidays")


@pytest.mark.parametrize(
    "name", ["../out", "a/b", "/etc/x", ".hidden", "a..b", "a b", "-x", "é", "x" * 65, "a\\b"]
)
def test_a_variant_name_that_is_no_file_name(refused, name):
    [line] = refused(PLAIN + f"variants:\n  good: {{}}\n  '{name}': {{}}\n")
    assert line.startswith("case.yaml:13: variants: the name ")
    assert "cannot name a file: use letters, digits" in line


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "0.5", "x" * 64])
def test_a_variant_name_that_is_one(read, name):
    assert list(read(PLAIN + f"variants:\n  '{name}': {{}}\n").variants) == [name]


POISSON = "workload.arrivals={kind: poisson, rate: %s}"
CLOSED = "workload.arrivals={kind: closed, callers: %s}"


@pytest.mark.parametrize(
    ("sets", "line"),
    [
        (
            [POISSON % "1e6/s"],
            "workload.arrivals: makes 600,000,000 utterances in the 600s of the horizon "
            "(600,000,000 sessions of 1 each); 120,000,000 at most",
        ),
        (
            [POISSON % "100/s", "workload.utterances_per_session={geometric: {mean: 1e6}}"],
            "workload.arrivals: makes 60,000,000,000 utterances",
        ),
        ([CLOSED % 1_000_000], "workload.arrivals: makes 150,000,000 utterances"),
        (
            [CLOSED % 1_000_000, "workload.utterance={tokens: 10}"],
            "workload.arrivals: makes 6,000,000,000 utterances",
        ),
        ([CLOSED % 1_000_001], "workload.arrivals.callers: expected a whole number of at most"),
        (
            ["workload.arrivals={kind: closed, callers: 2, stagger: 1h}"],
            "workload.arrivals.stagger: must be less than horizon (600s)",
        ),
        (
            ["workload.arrivals={kind: burst, size: 1000001}"],
            "workload.arrivals.size: expected a whole number of at most 1000000; found 1000001",
        ),
        (
            ["workload.arrivals={kind: gamma, rate: 1/s, dispersion: 2, dispersion_window: 1us}"],
            "workload.arrivals.dispersion_window: makes 600,000,000 windows",
        ),
        (
            ["series.resolution=1ms"],
            "series.resolution: makes 1,200,000 points from the start to the end of drain; "
            "1,000,000 at most",
        ),
        (["horizon=1000d"], "series.resolution: makes 86,400,600 points"),
        (["cluster.gpus.card.count=10001"], "cluster.gpus.card.count: expected"),
        (["cluster.pools.tts.replicas=2000000000"], "cluster.pools.tts.replicas: expected"),
        (["replications=2000000000"], "replications: expected a whole number of at most 10000"),
        (["cluster.pools.tts.engine.max_num_seqs=65537"], "cluster.pools.tts.engine.max_num_seqs"),
        (
            ["cluster.pools.tts.engine.max_num_batched_tokens=1048577"],
            "cluster.pools.tts.engine.max_num_batched_tokens: expected",
        ),
        (["cluster.pools.tts.engine.block_size=10001"], "cluster.pools.tts.engine.block_size"),
        (["cluster.pools.tts.engine.max_tokens=2000000"], "cluster.pools.tts.engine.max_tokens"),
        (
            ["workload.refused={retry: {attempts: 101}}", "policies.admission={kind: slack}"],
            "workload.refused.retry.attempts: expected a whole number of at most 100; found 101",
        ),
        (
            ["cluster.pools.tts.chunk={first: 100001, ramp: [2, 100001], steady: 100001}"],
            "cluster.pools.tts.chunk.ramp.1: expected a whole number of at most 100000",
        ),
        (
            [
                "cluster.pools.tts.codec={chunk: {first: 1, steady: 1}, workers: 1000, "
                "batch: {cap: 65536}}"
            ],
            "cluster.pools.tts.codec.batch.cap: replicas x workers x batch.cap is 65,536,000; "
            "10,000,000 at most",
        ),
    ],
)
def test_what_would_not_fit_into_memory(refused, sets, line):
    found = refused(PLAIN, *sets)
    assert any(f": {line}" in each for each in found), found


def test_the_largest_that_still_run(read):
    found = read(PLAIN, POISSON % "83000/s", "series.resolution=2ms", "cluster.gpus.card.count=1e4")
    assert found.variants["base"].workload.arrivals.expected(600) == 49_800_000


@pytest.mark.parametrize(
    ("header", "near"),
    [
        ("t_s,audioo_s", "'audioo_s'; did you mean 'audio_s'"),
        ("t_s, tokens", "' tokens'; did you mean 'tokens'"),
        ("t_s,tokens,prompt_token", "'prompt_token'; did you mean 'prompt_tokens'"),
        ("t_s,AUDIO_S", "'AUDIO_S'; did you mean 'audio_s'"),
    ],
)
def test_a_misspelt_column_of_a_trace(refused, tmp_path, header, near):
    (tmp_path / "t.csv").write_text(f"{header}\n0,1,1\n")
    line = PLAIN.replace("{kind: poisson, rate: 2/s}", "{kind: trace, file: t.csv}")
    [found] = refused(line)
    expected = f"case.yaml:3: workload.arrivals.file: t.csv:1: unknown column {near}?"
    assert found == expected


@pytest.mark.parametrize("header", ["t_s,who,city", "t_s,tokens,n_tokens", "t_s,audio_s,audio2_s"])
def test_other_columns_of_a_trace(read, tmp_path, header):
    (tmp_path / "t.csv").write_text(f"{header}\n0,1,1\n")
    own = ", utterance: {audio: 4s}" if "who" in header else ""
    found = read(PLAIN, f"workload={{arrivals: {{kind: trace, file: t.csv}}{own}}}")
    assert found.variants["base"].workload.arrivals.expected(600) == 1


def test_plain_words(refused, tmp_path):
    (tmp_path / "adir").mkdir()
    (tmp_path / "nohdr.csv").touch()
    profile = "cluster.pools.tts.engine.profile"
    [line] = refused(PLAIN, f"{profile}=adir")
    assert line.endswith(f"{profile}: expected a file; 'adir' is a directory")
    [line] = refused(PLAIN, "workload.arrivals={kind: trace, file: adir}", "workload.think=0")
    assert line.endswith("workload.arrivals.file: expected a file; 'adir' is a directory")
    [line] = refused(PLAIN, "workload.arrivals={kind: trace, file: nope.csv}")
    assert "no such file: 'nope.csv' (looked" in line
    [line] = refused(PLAIN, f"{profile}=profile.yml")
    assert "no such file: 'profile.yml'; did you mean 'profile.yaml'? (looked" in line
    for ending in ("", ".yaml"):
        [line] = refused(PLAIN, f"{profile}=llama-3.1-8b-h100-nim-1.8.0{ending}")
        assert "; did you mean 'shipped:llama-3.1-8b-h100-nim-1.8.0'? (looked" in line
    [line] = refused(PLAIN + "variants: {}\n")
    assert line == (
        "case.yaml:11: variants: is empty; name at least one variant or leave the key out"
    )
    [line] = refused(PLAIN + "variantz: {a: {}}\n")
    assert line.startswith("case.yaml:11: variantz: unknown key; did you mean 'variants'? allowed:")
    assert line.endswith("series, schema, variants")
    [line] = refused(PLAIN, "workload.arrivals.raet=1")
    assert line.endswith("unknown key 'raet'; did you mean 'rate'? allowed: kind, rate")
    [line] = refused(PLAIN, "policies.admission={policy: 'a:B'}", "policies.admission.option={}")
    assert line.endswith("did you mean 'options'? allowed: kind, policy, options")


@pytest.mark.parametrize("key", ["arrivals", "utterance", "horizon", "cluster", "engine", "gpus"])
def test_a_misspelt_key_is_said_once(refused, key):
    slip = key[:-2] + key[-1]
    [line] = refused(PLAIN.replace(f"{key}:", f"{slip}:"))
    assert f"{slip}: unknown key; did you mean '{key}'?" in line


def test_the_keys_of_another_kind_may_be_set_first(read):
    sets = ("workload.arrivals.callers=3", "workload.arrivals.kind=closed")
    with pytest.raises(ScenarioErrors, match=r"rate: unknown key; allowed: kind, callers, stagger"):
        read(PLAIN, *sets)
    text = PLAIN.replace("kind: poisson, rate: 2/s", "kind: trace")
    assert read(text, *sets).variants["base"].workload.arrivals.callers == 3


TOKENS = ["", "-1", "0", "3", "1e400", "nan", ".inf", "~", "{}", "[]", "x", "true", "*a", "&a b",
          "[", "}", ":", "\t", "\n", "'", "kind", "cap", "{kind: closed, callers: 3}", "4s", "\x00",
          "? ", "<<: ", "é", "9" * 5000, "!!set", "0x1F", "12:30", "2024-01-01", "- "]  # fmt: skip


@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_nothing_but_scenario_errors(tmp_path, data):
    (tmp_path / "profile.yaml").touch()
    text = data.draw(st.sampled_from([SKETCH, PLAIN]))
    for _ in range(data.draw(st.integers(1, 4))):
        cuts = [i for i, c in enumerate(text) if not c.isalnum()]
        start = data.draw(st.sampled_from(cuts)) + 1
        end = start + data.draw(st.integers(0, 25))
        text = text[:start] + data.draw(st.sampled_from(TOKENS) | st.text(max_size=3)) + text[end:]
    try:
        found = loads(text, tmp_path / "case.yaml")
    except ScenarioErrors as errors:
        assert errors.problems
        assert all(problem.message for problem in errors.problems)
    else:
        assert isinstance(found, ScenarioFile)
        assert found.resolved()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("canary", "    old: old\n", "    old: {a: 1}\n"),
        ("canary", "share: 0.25", "share: x"),
        ("degradation", "horizon: 15min", "horizon: 15mni"),
        ("region_overflow", "eu: 0.5,", "eu: half,"),
        ("region_overflow", "region: us,", "region: [us],"),
    ],
)
def test_what_cannot_be_read_is_said_once(name, old, new):
    """The rules between fields ask what is left, and say nothing of what is not."""
    text = (HOME / "scenarios" / f"{name}.yaml").read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(ScenarioErrors) as errors:
        loads(text.replace(old, new), HOME / "scenarios" / "case.yaml")
    (problem,) = errors.value.problems
    assert UNREAD not in str(problem)


def test_a_hole_answers_no_to_all():
    assert not HOLE > 1 and HOLE not in (1, "") and HOLE not in {"a": 1}
    assert not abs(sum([0.5, HOLE, 1.0]) - 1.0) > 1e-9 and not -HOLE % 3 < 1
    assert math.isnan(float(HOLE)) and list(HOLE) == [] and len(HOLE) == 0
    assert f"{HOLE:,.0f}" == repr([HOLE])[1:-1] == UNREAD
