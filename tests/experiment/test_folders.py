"""``voicesim runs``: what is listed, what is unreadable and why, two folders side by side; and
every folder's tables through pandas and DuckDB."""

import json
import shutil

import duckdb
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

from tests import small
from voicesim.cli import app
from voicesim.experiment import folders

RUNNER = CliRunner()
LEVELS = ["--levels", "1,4", "--seeds", "2"]


def run(*arguments):
    return RUNNER.invoke(app, [*map(str, arguments)], env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder of each kind."""
    base = tmp_path_factory.mktemp("folders")
    path, root = small.write(base), base / "runs"
    quiet = ["--workers", 1, "--quiet", "--set", "horizon=20s", "--set",
             "workload.arrivals.rate=30/s"]  # fmt: skip
    slo = ["--slo", "clean>=1%", "--vary", "pools.tts.replicas=1..2", "--max-replications", 8,
           "--variant", "cap"]  # fmt: skip
    old = root / "played"
    for arguments in (
        ["run", path, "--out", old, "--replications", 5, *quiet],
        ["run", path, "--out", root / "other", "--replications", 5, "--seed", 9, *quiet],
        ["compare", path, "--out", root / "compared", "--max-replications", 8, *quiet],
        ["plan", path, "--out", root / "planned", *slo, *quiet],
        ["ladder", base / "small-profile.yaml", "--out", root / "climbed", *LEVELS, "--quiet"],
        ["gate", "--baseline", old, "--candidate", old, "--out", root / "gated", "--quiet"],
    ):
        result = run(*arguments)
        assert result.exit_code == 0, (arguments, result.output)
    return root


KINDS = {
    "played": "run", "other": "run", "compared": "compare", "planned": "plan",
    "climbed": "ladder", "gated": "gate",
}  # fmt: skip


def test_every_kind_is_listed_with_its_headline(root):
    rows = {r["folder"]: r for r in json.loads(run("runs", root, "--json").output)}
    assert {name: rows[name]["kind"] for name in KINDS} == KINDS
    played = rows["played"]
    assert played["variants"] == ["admit_all", "cap"]
    assert (played["replications"], played["title"]) == (5, "Small")
    summary = json.loads((root / "played" / "summary.json").read_text())["variants"]
    best = max(summary, key=lambda v: summary[v]["clean_share"]["mean"])
    share = summary[best]["clean_share"]["mean"]
    assert played["headline"].startswith(f"CLEAN {100 * share:.1f}% ±")
    assert played["headline"].endswith(f"({best})")
    assert rows["planned"]["headline"].endswith("tts.replicas=1 meets")
    assert rows["climbed"]["headline"].startswith("ceiling ")
    assert rows["gated"]["headline"] == "pass"
    text = run("runs", root).output
    assert all(name in text for name in KINDS) and "unreadable" not in text


def test_a_new_kind_needs_no_entry(root, tmp_path):
    (tmp_path / "new").mkdir()
    data = {"schema": "voicesim-weather/3", "headline": "rain", "scenario": "a.yaml"}
    (tmp_path / "new" / "weather.json").write_text(json.dumps(data))
    (row,) = json.loads(run("runs", tmp_path, "--json").output)
    assert (row["kind"], row["headline"], row["title"]) == ("weather", "rain", "a.yaml")


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda p: (p / "summary.json").unlink(), "holds no JSON with a schema of voicesim"),
        (lambda p: (p / "summary.json").write_text('{"schema": '), "cannot be read as JSON"),
        (lambda p: (p / "summary.json").write_bytes(b"\xff\xfe\x00"), "cannot be read as JSON"),
        (lambda p: (p / "summary.json").write_text('{"schema": "voicesim-summary/9"}'), "newer"),
        (lambda p: (p / "summary.json").write_text('{"schema": "voicesim-summary/1"}'),
         "lacks 'variants'"),
        (lambda p: (p / "summary.json").write_text(
            '{"schema": "voicesim-summary/1", "variants": {"a": 3}}'), "is no voicesim-summary/1"),
        (lambda p: (p / "series.parquet").write_bytes(b"PAR1"), "series.parquet: cannot be read"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_listed_with_the_reason(root, tmp_path, prepare, words):
    shutil.copytree(root / "played", tmp_path / "broken")
    (tmp_path / ".hidden").mkdir()
    prepare(tmp_path / "broken")
    result = run("runs", tmp_path)
    assert result.exit_code == 0
    assert "broken: unreadable: " in result.output and words in result.output


def test_two_folders_side_by_side(root):
    found = json.loads(run("runs", root / "played", root / "other", "--json").output)
    (row,) = [r for r in found["metrics"] if (r["variant"], r["metric"]) == ("cap", "clean_share")]
    a, b = (
        (t := pd.read_parquet(root / name / "replications.parquet"))[t["variant"] == "cap"]
        for name in ("played", "other")
    )
    test = stats.ttest_ind(b["clean_share"], a["clean_share"], equal_var=False)
    low, high = test.confidence_interval()
    assert (row["low"], row["high"]) == pytest.approx((low, high))
    assert (row["a"], row["b"]) == pytest.approx((a["clean_share"].mean(), b["clean_share"].mean()))
    paired = run("runs", root / "played", root / "compared", "--variant", "cap").output
    assert "5 and 8 replications, paired t" in paired and "CLEAN share" in paired


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["played", "climbed"], "lacks replications.parquet"),
        (["played", "playd"], "playd: is no folder; did you mean 'played'?"),
        (["played", "other", "gated"], "3 folders"),
        (["nowhere"], "is no folder"),
    ],
)
def test_runs_refuses_in_a_line(root, names, words):
    result = run("runs", *(root / name for name in names))
    assert result.exit_code == 2 and words in result.output
    assert len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize("name", KINDS)
def test_a_folder_is_a_schema_and_tables_that_pandas_and_duckdb_read(root, name):
    folder = root / name
    schemas = [json.loads(p.read_text()).get("schema", "") for p in folder.glob("*.json")]
    assert any(s.startswith("voicesim-") and s[-2:] == "/1" for s in schemas)
    tables = sorted(folder.rglob("*.parquet"))
    assert tables
    for path in tables:
        frame = pd.read_parquet(path)
        rows = duckdb.sql(f"select * from '{path}'")
        assert rows.columns == list(frame.columns) and len(rows.fetchall()) == len(frame)


def test_duckdb_finds_the_mean_of_the_summary(root):
    table = root / "played" / "replications.parquet"
    found = duckdb.sql(f"select variant, avg(clean_share) from '{table}' group by 1").fetchall()
    summary = json.loads((root / "played" / "summary.json").read_text())["variants"]
    expected = {v: of["clean_share"]["mean"] for v, of in summary.items()}
    assert dict(found) == pytest.approx(expected)


def test_replications_are_the_same_numbers_in_a_run_and_a_comparison(root):
    played, compared = (
        pd.read_parquet(root / name / "replications.parquet").set_index(["variant", "replication"])
        for name in ("played", "compared")
    )
    # a comparison does not ask why a stall was heard
    known = [c for c in played.columns if not c.startswith("stall_cause")]
    assert len(known) < len(played.columns)
    both = compared.loc[played.index]
    pd.testing.assert_frame_equal(played[known], both[known], check_exact=True)


def test_one_folder_may_be_listed_itself(root, tmp_path, monkeypatch):
    (row,) = json.loads(run("runs", root / "played", "--json").output)
    assert row["kind"] == "run"
    monkeypatch.chdir(root.parent)
    assert "played" in run("runs").output


def test_headlines_of_the_studies_of_many_settings():
    def share(x):
        return {"metrics": {"clean_share": {"mean": x, "low": None, "high": None}}}

    said = {
        "sweep": ({"settings": [share(0.5), share(0.75), share(None)]}, "3 settings, CLEAN 50.0%"),
        "tornado": ({"metric": "clean_share", "decided_by": "memory_s"}, "decided by memory_s"),
        "alarms": (
            {"variants": {"cap": {"rules": [{"rule": "Gap"}, {"rule": "Waiting"}]}}},
            "best rule Gap (cap)",
        ),
    }
    for kind, (data, text) in said.items():
        assert text in folders.KINDS[kind].headline(data)
