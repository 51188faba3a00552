"""What is varied and how: ranges and lists, the grid, the Latin hypercube, files of settings."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import small
from voicesim.experiment.design import GRID, LHS, LISTED, design, grid, latin_hypercube
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.space import Space
from voicesim.experiment.vary import Axis, axis_of
from voicesim.scenario import load


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    return Space(load(small.write(tmp_path_factory.mktemp("design"))), "cap")


def texts(found):
    return [tuple(setting.values.values()) for setting in found.settings]


# --- one key ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("pools.tts.replicas=4..16:4", "cluster.pools.tts.replicas", ("4", "8", "12", "16")),
        ("gpus.card.count=3..5", "cluster.gpus.card.count", ("3", "4", "5")),
        ("a.b=1..6:2", "a.b", ("1", "3", "5")),
        ("a=5..3", "a", ("5", "4", "3")),
        ("a=0.1..0.4:0.1", "a", ("0.1", "0.2", "0.3", "0.4")),
        ("a=10ms..30ms:10ms", "a", ("10ms", "20ms", "30ms")),
        ("a=2.5/s..5/s:2.5/s", "a", ("2.5/s", "5/s")),
        ("a=1e-3..2e-3:0.0005", "a", ("0.001", "0.0015", "0.002")),
        ("a=-1..1", "a", ("-1", "0", "1")),
        ("a=100..300:100", "a", ("100", "200", "300")),
        ("a= fifo, edf", "a", ("fifo", "edf")),
        ("a=10ms,1s", "a", ("10ms", "1s")),
    ],
)
def test_values_of_a_key(text, key, values):
    axis = axis_of(text)
    assert (axis.key, axis.values) == (key, values)


def test_a_real_range_has_ends_but_no_list():
    axis = axis_of("a=10ms..40ms")
    assert (axis.values, axis.ends) == (None, ("10ms", "40ms"))
    assert [axis.at(u) for u in (0.0, 0.5, 0.999)] == ["10ms", "25ms", "39.97ms"]
    assert axis_of("a=0.5..2").ends == ("0.5", "2")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("replicas", "expected KEY=LOW..HIGH"),
        ("a=", "expected KEY=LOW..HIGH"),
        ("a=1..", "all numbers of one unit"),
        ("a=one..two", "all numbers of one unit"),
        ("a=1ms..2s", "in one unit; found ms and s"),
        ("a=1..5ms", "in one unit; found a bare number and ms"),
        ("a=1..5:0", "from 1 to 100,000 values"),
        ("a=1..9999999", "from 1 to 100,000 values"),
        ("a=1,,2", "nothing between two commas"),
        ("a=1,2,1", "1 is given twice"),
    ],
)
def test_a_key_that_is_refused(text, says):
    with pytest.raises(ExperimentError) as refused:
        axis_of(text)
    assert says in str(refused.value) and f"--vary {text}" in str(refused.value)


# --- the grid ---------------------------------------------------------------------------------


def test_a_grid_is_every_combination_in_order(space):
    asked = ["pools.tts.replicas=1..3:2", "policies.admission.streams=4,8"]
    found = design(space, asked, None, None, 0)
    assert found.kind == GRID
    assert found.keys == ("cluster.pools.tts.replicas", "policies.admission.streams")
    assert texts(found) == [("1", "4"), ("1", "8"), ("3", "4"), ("3", "8")]
    assert found.settings[1].name == "tts.replicas=1, policies.admission.streams=8"


def test_a_grid_too_large():
    axes = [axis_of(f"{key}=1..101") for key in "ab"]
    with pytest.raises(ExperimentError, match="10,201 settings; at most 10,000"):
        grid(axes)


# --- the Latin hypercube ----------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 60), st.integers(0, 2**63 - 1), st.integers(1, 3))
def test_each_stratum_of_each_key_is_drawn_once(points, seed, repeat):
    """A real range: one value in each of N equal parts.  n values of a list with N a multiple of
    n: each N / n times."""
    real = axis_of("x=-3.5..12")
    listed = Axis("y", tuple(map(str, range(points))))
    found = latin_hypercube([real, listed], points * repeat, seed)
    assert found.kind == LHS and len(found.settings) == points * repeat
    x = [float(setting.values["x"]) for setting in found.settings]
    strata = sorted(int((v + 3.5) / 15.5 * points * repeat) for v in x)
    assert strata == list(range(points * repeat))
    y = [setting.values["y"] for setting in found.settings]
    assert sorted(y, key=int) == [str(v) for v in range(points) for _ in range(repeat)]


def test_the_hypercube_follows_the_seed_and_pairs_at_random():
    axes = [axis_of("x=0.0..1"), axis_of("y=0.0..1")]
    one, again, other = (texts(latin_hypercube(axes, 50, seed)) for seed in (1, 1, 2))
    assert one == again != other
    ranks = [sorted(range(50), key=lambda i, k=k: float(one[i][k])) for k in (0, 1)]
    assert ranks[0] != ranks[1]


def test_points_that_coincide_are_one():
    found = latin_hypercube([axis_of("x=1..3")], 9, 0)
    assert sorted(texts(found)) == [("1",), ("2",), ("3",)]


def test_a_value_stays_inside_its_range():
    axis = axis_of("x=0.1..0.3")
    assert Decimal("0.1") <= Decimal(axis.at(0.0)) < Decimal(axis.at(1 - 1e-9)) <= Decimal("0.3")


# --- what a design refuses --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vary", "points", "says"),
    [
        ([], None, "nothing is varied"),
        (["pools.tts.replicas=1..2", "pools.tts.replicas=4..8"], None, "given twice"),
        (["pools.tts.replicas=8..4"], None, "the range is empty"),
        (["listener.network.delay=10ms..40ms"], None, "a grid needs a step"),
        (["listener.network.delay=10ms..10ms"], 5, "the range is empty"),
        (["pools.tts.replcas=1..4"], None, "did you mean 'replicas'?"),
        (["title=a,b"], None, "no run depends on it"),
        (["replications=1..4"], None, "no run depends on it"),
        (["pools.tts.replicas=1..4"], 1, "from 2 to 10,000 settings"),
    ],
)
def test_what_a_design_refuses(space, vary, points, says):
    with pytest.raises(ExperimentError) as refused:
        design(space, vary, points, None, 0)
    assert says in str(refused.value)


# --- files of settings ------------------------------------------------------------------------


def listed(space, folder, content):
    path = folder / "settings.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return design(space, (), None, path, 0)


def test_a_file_of_settings(space, tmp_path):
    found = listed(
        space,
        tmp_path,
        "\ufeffpools.tts.replicas, listener.network.delay\n1, 10ms\n\n3,40ms\n",
    )
    assert found.kind == LISTED
    assert found.keys == ("cluster.pools.tts.replicas", "listener.network.delay")
    assert texts(found) == [("1", "10ms"), ("3", "40ms")]
    assert found.settings[1].source.endswith("settings.csv:4")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is empty"),
        ("pools.tts.replicas\n", "0 settings below the header"),
        ("pools.tts.replicas,\n1,2\n", ":1: column 2: has no name"),
        ("seed,pools.tts.replicas,seed\n1,2,3\n", ":1: column 3: seed: given twice"),
        ("seed,pools.tts.replcas\n1,2\n", ":1: column 2: cluster.pools.tts.replcas: unknown key"),
        ("seed,replications\n1,2\n", ":1: column 2: replications: no run depends on it"),
        ("seed,horizon\n1,60s\n2\n", ":3: 1 cells; the header has 2"),
        ("seed,horizon\n1,60s\n2,\n", ":3: column horizon: is empty"),
        ("seed,horizon\n1,60s\n2,60s\n1,60s\n", ":4: the same setting as line 2"),
        (b"seed\n\xff\xfe\n", "is not UTF-8 text"),
        ('seed\n"1\n', "cannot be read as CSV"),
    ],
)
def test_a_file_that_is_refused(space, tmp_path, content, says):
    with pytest.raises(ExperimentError) as refused:
        listed(space, tmp_path, content)
    text = str(refused.value)
    assert says in text and "settings.csv" in text and "\n" not in text


def test_a_file_that_is_not_there_or_not_alone(space, tmp_path):
    with pytest.raises(ExperimentError, match="cannot be read: No such file"):
        design(space, (), None, tmp_path / "none.csv", 0)
    with pytest.raises(ExperimentError, match="stands alone"):
        design(space, ["seed=1..2"], None, tmp_path / "none.csv", 0)


# --- from a setting to a scenario -------------------------------------------------------------


@pytest.mark.parametrize("name", ["holiday_peak", "vllm_cpu_replay", "studies/first_chunk"])
def test_a_variant_alone_is_what_it_was_in_its_file(name):
    """Nothing overridden: the same scenario, with what only its siblings use still accepted."""
    file = load(f"scenarios/{name}.yaml")
    for variant, scenario in file.variants.items():
        assert Space(file, variant).scenario({}).resolved() == scenario.resolved()


def test_what_other_settings_use_is_not_unused(tmp_path):
    """The file gives a backoff; without attempts, or without a cap, nobody waits for it."""
    file = load(small.write(tmp_path))
    for variant in file.variants:
        made = Space(file, variant).scenario({"workload.refused.retry.attempts": "0"})
        assert made.workload.refused.retry.attempts == 0
