"""The version that a file states: which are read, and what is said of the others."""

import json

import pytest
from typer.testing import CliRunner

from voicesim import schemas
from voicesim.cli import app
from voicesim.engine.profile import ProfileError, load_profile
from voicesim.experiment import folders
from voicesim.experiment.metrics import ExperimentError

from .conftest import PLAIN, PROFILE


@pytest.mark.parametrize("kind", schemas.VERSIONS)
def test_every_major_says_how_to_come_from_the_one_before(kind):
    """And nothing is said of a major that there is not."""
    major, _ = schemas.VERSIONS[kind]
    steps = schemas.MIGRATIONS.get(kind, {})
    assert sorted(steps) == list(range(2, major + 1))
    assert all(steps.values())
    assert schemas.parsed(schemas.current(kind)) == schemas.Schema(kind, *schemas.VERSIONS[kind])
    assert schemas.understood(schemas.current(kind), kind) is None


@pytest.mark.parametrize(
    "text", [None, 3, 1.0, True, [], {}, "", "voicesim-plan", "voicesim-plan/", "voicesim-plan/x",
             "voicesim-plan/1.", "voicesim-plan/1.2.3", "voicesim-plan/-1", "voicesim-plan/1\n",
             "voicesim-plan/٣", "voicesim-plan/" + "9" * 5000, "plan/1"],
)  # fmt: skip
def test_what_is_no_schema(text):
    assert schemas.parsed(text) is None
    with pytest.raises(schemas.SchemaError, match=r"^found .*; allowed: voicesim-plan/1$"):
        schemas.understood(text, "plan")


def test_a_kind_that_is_not_known_is_left_to_the_reader():
    assert schemas.understood("voicesim-weather/3") is None
    with pytest.raises(schemas.SchemaError, match="found 'voicesim-weather/3'; allowed: voicesim-"):
        schemas.understood("voicesim-weather/3", "plan")


# --- scenarios --------------------------------------------------------------------------------


@pytest.mark.parametrize("stated", ["", "schema: voicesim-scenario/1\n",
                                    "schema: voicesim-scenario/1.0\n"])  # fmt: skip
def test_a_file_of_this_version_is_read(read, stated, recwarn):
    assert read(stated + PLAIN).variants == read(PLAIN).variants
    assert not recwarn


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("1", "found 1; allowed: voicesim-scenario/1"),
        ("1.0", "found 1.0; allowed: voicesim-scenario/1"),
        ("[1]", "found a list; allowed: voicesim-scenario/1"),
        ("yes", "found true; allowed: voicesim-scenario/1"),
        ("", "found nothing; allowed: voicesim-scenario/1"),
        ("voicesim-scenario/one", "found 'voicesim-scenario/one'; allowed: voicesim-scenario/1"),
        ("voicesim-profile/1", "found 'voicesim-profile/1'; allowed: voicesim-scenario/1"),
        ("voicesim-scenario/0", "voicesim-scenario/0 is of no version of voicesim; this voicesim"),
        ("voicesim-scenario/2", "voicesim-scenario/2 was made by a newer voicesim; this voicesim"),
        ("voicesim-scenario/2.1", "voicesim-scenario/2.1 was made by a newer voicesim; this"),
    ],
)
def test_a_file_of_another_version_is_refused_in_one_line(write, stated, said):
    """Also if nothing else of it can be read here."""
    path = write(f"{PLAIN}novel: 3\nschema: {stated}\n")
    done = CliRunner().invoke(app, ["check", str(path)])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"case.yaml:12: schema: {said}")
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_older_file_is_told_every_step_to_here(refused, monkeypatch):
    monkeypatch.setitem(schemas.VERSIONS, "scenario", (3, 1))
    monkeypatch.setitem(schemas.MIGRATIONS, "scenario", {
        2: ("`workload.rate` is now `workload.arrivals.rate`", "`gpu` is now `cluster.gpus`"),
        3: ("`slo.start` is now `slo.start_within`",),
    })  # fmt: skip
    [line] = refused("schema: voicesim-scenario/1.4\n" + PLAIN)
    assert line.startswith("case.yaml:1: schema: voicesim-scenario/1.4 is older than what can be ")
    assert line.endswith(
        "this voicesim (0.1.0) reads voicesim-scenario/3.1. To migrate, by the major that changed "
        "it: 2: `workload.rate` is now `workload.arrivals.rate`; 2: `gpu` is now `cluster.gpus`; "
        "3: `slo.start` is now `slo.start_within`. Then write voicesim-scenario/3.1"
    )
    [line] = refused("schema: voicesim-scenario/2\n" + PLAIN)
    assert "slo.start_within" in line and "cluster.gpus" not in line


def test_a_newer_minor_is_read_with_a_note(write):
    path = write("schema: voicesim-scenario/1.7\n" + PLAIN)
    done = CliRunner().invoke(app, ["check", str(path), "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["baseline"] == "base"
    assert done.stderr == (
        "case.yaml: voicesim-scenario/1.7 is of a newer voicesim; this voicesim (0.1.0) reads "
        "voicesim-scenario/1: what was added since is not known here\n"
    )


def test_a_key_of_a_newer_minor_is_unknown_and_said_why(refused):
    first, second = refused("schema: voicesim-scenario/1.7\n" + PLAIN + "weather: rain\n")
    assert first.startswith("case.yaml:1: schema: voicesim-scenario/1.7 is of a newer voicesim;")
    assert second.startswith("case.yaml:12: weather: unknown key")


def test_neither_a_variant_nor_set_changes_the_version(refused):
    [line] = refused(PLAIN, "schema=voicesim-scenario/1")
    assert "unknown key 'schema'" in line
    [line] = refused(PLAIN + "variants: {a: {schema: voicesim-scenario/1}}\n")
    assert "variants.a.schema: unknown key 'schema'" in line


# --- profiles ---------------------------------------------------------------------------------


def test_profiles(tmp_path):
    path = tmp_path / "profile.yaml"
    for stated in ("voicesim-profile/1.0", "voicesim-profile/1.3"):
        path.write_text(PROFILE.replace("voicesim-profile/1", stated))
        assert load_profile(path).schema_ == "voicesim-profile/1"
    path.write_text(path.read_text() + "weather: rain\n")
    with pytest.raises(ProfileError, match=r"weather: unknown key.*\(voicesim-profile/1.3 is of a"):
        load_profile(path)
    for stated in ("voicesim-profile/2", "voicesim-scenario/1", "7"):
        path.write_text(PROFILE.replace("voicesim-profile/1", stated))
        with pytest.raises(ProfileError, match=r"schema: .*voicesim-profile/1"):
            load_profile(path)


# --- folders of results (tests/faults has what the commands say) ------------------------------


@pytest.mark.parametrize("kind", sorted(folders.KINDS))
def test_every_kind_of_folder_is_held_to_its_version(tmp_path, kind, monkeypatch):
    assert kind in schemas.VERSIONS
    (tmp_path / "a.json").write_text(json.dumps({"schema": f"voicesim-{kind}/9"}))
    with pytest.raises(ExperimentError, match=f"a.json: schema: voicesim-{kind}/9 was made by a"):
        folders.studies(tmp_path)
    monkeypatch.setitem(schemas.VERSIONS, kind, (9, 2))
    (tmp_path / "a.json").write_text(json.dumps({"schema": f"voicesim-{kind}/9.3"}))
    with pytest.warns(schemas.NewerWarning, match=f"a.json: voicesim-{kind}/9.3 is of a newer"):
        [study] = folders.studies(tmp_path)
    assert study.schema == f"voicesim-{kind}/9.3"


@pytest.mark.parametrize("schema", [3, [], {"a": 1}, None])
def test_a_json_of_others_is_no_study(tmp_path, schema):
    (tmp_path / "a.json").write_text(json.dumps({"schema": schema}))
    with pytest.raises(ExperimentError, match="holds no JSON with a schema of voicesim"):
        folders.studies(tmp_path)
