"""Whatever the format, a broken file is refused with its file and line."""

import gzip
import json
import re
from pathlib import Path

import pytest
from composed import FORMS, Form
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from voicesim.calibrate import CalibrationError
from voicesim.calibrate.readers import FORMATS, read


def module_name(form) -> str:
    return form.__name__.rsplit(".", 1)[1]


def refusal(tmp_path, form: Form, content: bytes | str) -> CalibrationError:
    path = tmp_path / form.file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CalibrationError, match=rf"^{re.escape(form.file)}|{path}") as error:
        read(path)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)
    return error.value


def a_value(form: Form, value: str, string: str) -> str:
    """The text with a bad value: as JSON text where the format quotes its numbers."""
    if form.file.endswith(".csv"):
        return form.with_value(value)
    return form.with_value(value if form.quoted else string)


each = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


ELSEWHERE = {
    "azure", "burstgpt", "vidur", "mooncake", "tracev2", "servegen",  # test_request_traces.py
    "aiperf", "perf_summary", "perf_analyzer", "guidellm", "llmperf", "k6", "locust",
    "livekit", "pipecat",  # test_summaries.py, test_dialogues.py
    "run_folder", "calls_csv",  # tests/experiment/test_replay.py
    "measure_folder",  # tests/calibrate/test_measure_folder.py
}  # fmt: skip
"""Readers whose files, whole and broken, are in other tests."""


def test_every_reader_is_here():
    assert {module_name(form) for form in FORMATS} - ELSEWHERE == set(FORMS)


@each
def test_recognised_by_one_reader_only_whatever_its_name(tmp_path, form):
    path = tmp_path / "some.thing"
    path.write_text(form.text)
    from voicesim.calibrate.readers.source import head_of

    head = head_of(path)
    found = [module_name(f) for f in FORMATS if f.sniff(head)]
    assert FORMS[found[0]] is form
    assert len(found) == 1 or form is FORMS["chunk_csv"]  # which has columns of a token trace
    assert read(path).file == "some.thing"


@each
def test_gzip_reads_as_plain(tmp_path, form):
    (tmp_path / form.file).write_text(form.text)
    plain = read(tmp_path / form.file)
    (tmp_path / form.file).write_bytes(gzip.compress(form.text.encode()))
    packed = read(tmp_path / form.file)
    assert packed.rows == plain.rows > 0
    assert packed.format == plain.format


@each
def test_truncated(tmp_path, form):
    text = form.text.rstrip()
    error = refusal(tmp_path, form, text[: -len(text.splitlines()[-1]) // 2 - 1])
    if form.file.endswith(".csv"):
        assert error.line == len(text.splitlines())
    assert "truncated" in error.message or "empty" in error.message


@each
def test_empty(tmp_path, form):
    assert refusal(tmp_path, form, "").message == "is empty"
    assert refusal(tmp_path, form, "\n\n").message == "is empty"


@each
@pytest.mark.parametrize(
    ("value", "string", "said"),
    [
        ("-3", "-3", "negative|must be at least"),
        ("fast", '"fast"', "not a number|must be a number"),
        ('"1,234.5"', '"1,234.5"', "thousands commas"),
        ("[]", "[]", "not a number|must be a number"),
    ],
)
def test_a_bad_number(tmp_path, form, value, string, said):
    if form.quoted:
        value, said = value.strip('"'), f"{said}|is not a number"
    error = refusal(tmp_path, form, a_value(form, value, string))
    assert error.line == form.line
    assert re.search(said, error.message), error.message


@each
@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_not_finite(tmp_path, form, value):
    if form.quoted:
        broken = form.text.replace("1795940120,", f"{value},", 1)
        assert "is not a number that JSON has" in refusal(tmp_path, form, broken).message
        return
    error = refusal(tmp_path, form, form.with_value(value))
    assert error.line == form.line
    words = "not a number|not finite|must be finite|negative"
    assert re.search(words, error.message), error.message


@each
def test_wrong_key(tmp_path, form):
    broken = form.text.replace(form.key, form.key[:-1] + "x")
    error = refusal(tmp_path, form, broken)
    if form.named:
        assert f"{form.key}" in error.message
        assert "missing" in error.message
        assert form.key[:-1] + "x" in error.message  # the nearest that is there
    else:
        assert "no file that is recognised" in error.message


@each
def test_wrong_encoding(tmp_path, form):
    last = form.text.rstrip().count("\n") + 1
    text = form.text.rstrip()
    bad = text[:-1].encode() + b"\xe9" + text[-1:].encode()
    error = refusal(tmp_path, form, bad)
    assert (error.line, error.message) == (last, "is not UTF-8 text")
    assert "UTF-8" in refusal(tmp_path, form, form.text.encode("utf-16")).message


def test_unknown_content_says_what_is_recognised(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"a": 1}')
    with pytest.raises(CalibrationError, match="no file that is recognised") as error:
        read(path)
    assert all(form.NAME in str(error.value) for form in FORMATS)
    with pytest.raises(CalibrationError, match="no folder that is recognised"):
        read(tmp_path)


@pytest.mark.parametrize("text", ["[1, 2]", '{"a": [', "[[[[", '"x"', "\x00\x01", "{}{}", "null"])
def test_stray_content(tmp_path, text):
    (tmp_path / "x").write_text(text)
    with pytest.raises(CalibrationError):
        read(tmp_path / "x")


def test_every_format_is_in_the_docs():
    page = Path(__file__).parents[2] / "docs" / "reference" / "files.md"
    text = page.read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")}
    assert {form.NAME for form in FORMATS} <= rows


ODD = st.sampled_from([None, True, "x", [], {}, -1, 0, 1e300, 1e-320, "1,2", [None], [[]], ""])


def places(value: object, before: tuple = ()) -> list[tuple]:
    """Paths to everything inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value) if isinstance(value, list) else inside
    return [p for k, v in inside for p in [(*before, k), *places(v, (*before, k))]]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_one_value_wrong_is_read_or_refused_on_one_line(tmp_path, data):
    form = data.draw(st.sampled_from([f for f in FORMS.values() if not f.file.endswith(".csv")]))
    whole = form.text.count("\n{") == 0
    objects = [json.loads(t) for t in ([form.text] if whole else form.text.splitlines())]
    at = data.draw(st.sampled_from(places(objects)))
    if len(at) > 1:
        holder: object = objects
        for step in at[:-1]:
            holder = holder[step]
        holder[at[-1]] = data.draw(ODD)
    (tmp_path / "x").write_text("".join(json.dumps(o) + "\n" for o in objects))
    try:
        read(tmp_path / "x")
    except CalibrationError as error:
        assert "\n" not in str(error)
