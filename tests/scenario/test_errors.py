"""Bad files: each kind of problem, on its line, in plain words, all at once."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from voicesim.scenario import ScenarioErrors, ScenarioFile, load, loads

from .conftest import PLAIN, SKETCH


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
              engine: {profile: profil.yaml, max_num_seq: 8, memory: 35}
              codec:
                chunk: {first: 0}
                on: same
        policies:
          admission: {policy: foo}
        variants:
          a: {policies.admision: {kind: cap, streams: 40}}
          b: {policies.admission: {kind: cap, streams: 400}}
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
        "case.yaml:12: cluster.pools.tts.engine.max_num_seq: unknown key; did you mean "
        "'max_num_seqs'? allowed: kind, profile,",
        "case.yaml:14: cluster.pools.tts.codec.chunk.first: expected a whole number of at least 1",
        "case.yaml:14: cluster.pools.tts.codec.chunk.steady: missing",
        "case.yaml:15: cluster.pools.tts.codec.on: unknown name 'same'; did you mean 'same_gpu'?",
        "case.yaml:17: policies.admission.policy: expected package.module:ClassName; found 'foo'",
        "case.yaml:19: variants.a.policies.admision: unknown key 'admision'; did you mean "
        "'admission'?",
        "case.yaml:20: variants.b.policies.admission.streams: 400 is more than the engine's "
        "max_num_seqs (256)",
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
        ("cluster.pools={}", "cluster.pools: exactly one pool for now; found 0"),
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
            "policies.admission={kind: cap, streams: 300}",
            "policies.admission.streams: 300 is more than the engine's max_num_seqs",
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
                     "are 7"]  # fmt: skip


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


def test_a_missing_file(tmp_path):
    with pytest.raises(ScenarioErrors, match="cannot be read"):
        load(tmp_path / "none.yaml")


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
