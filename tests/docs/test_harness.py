"""What reads and runs the pages: it finds every kind of block, and fails where it should."""

import pytest

from tests.docs import commands
from tests.docs.blocks import Block, parse
from tests.docs.test_pages import merged, read, shell, shows
from voicesim.engine.profile import ProfileError
from voicesim.scenario import ScenarioErrors

PAGE = """\
# A page

    voicesim check scenarios/tutorial.yaml   # indented

<!-- test: skip: needs a server -->
<!-- test: exit: 2 -->
```sh
voicesim measure http://localhost:8000/v1/completions \\
    --levels 1,2
```

- a list

    goes on here

<!-- test: at: workload -->

```yaml
think: 2s
```

    import voicesim
"""


def test_blocks_are_found_with_kind_line_and_orders():
    found = parse("page.md", PAGE)
    assert [(b.kind, b.line) for b in found] == [("sh", 3), ("sh", 8), ("yaml", 19), ("python", 22)]
    assert found[1].orders == {"skip": "needs a server", "exit": "2"}
    assert found[2].orders == {"at": "workload"} and found[3].orders == {}
    assert commands.split(found[0].text) == [["voicesim", "check", "scenarios/tutorial.yaml"]]
    assert len(commands.split(found[1].text)) == 1


@pytest.mark.parametrize(
    "text",
    ["<!-- test: skpi: why -->\n```sh\nvoicesim runs\n```\n", "```bash\nvoicesim runs\n```\n",
     "<!-- test skip -->\n"],
)  # fmt: skip
def test_what_it_does_not_know_is_refused(text):
    with pytest.raises(ValueError, match=r"page.md:1: "):
        parse("page.md", text)


@pytest.mark.parametrize(
    "line",
    ["voicesim compare x.yaml --base-line a", "voicesim compair x.yaml", "voicesim compare",
     "voicesim compare x.yaml --first many", "make no_such_target", "pip install -e '.[nothing]'",
     "python benchmarks/nothing.py", "curl example.org"],
)  # fmt: skip
def test_a_command_that_cannot_be_right_fails_also_where_it_is_not_run(line):
    (words,) = commands.split(line)
    with pytest.raises(ValueError):
        commands.looked_at(words)


def test_options_are_added_to_the_commands_that_have_them():
    more = ["--replications", "2", "--set", "horizon=9s"]
    assert commands.with_options(["check", "x.yaml"], more) == ["check", "x.yaml", *more[2:]]
    assert commands.with_options(["run", "x.yaml"], more) == ["run", "x.yaml", *more]


def block(kind, text, **orders):
    return Block("page.md", 1, kind, text, orders)


def test_output_that_is_not_printed_fails():
    printed = "a  table\n\nrow 1   2\nrow 2   3\n"
    shows(block("text", "a table\nrow 1 2\nrow 2\n"), printed)
    with pytest.raises(AssertionError, match="not printed"):
        shows(block("text", "row 1 3\n"), printed)
    with pytest.raises(AssertionError, match="not printed"):
        shows(block("text", "row 2\nrow 1\n"), printed)


def test_a_wrong_exit_code_and_a_wrong_key_fail(copy):
    folder = copy("README.md")
    wrong = "voicesim check scenarios/tutorial.yaml --set horizn=9s\n"
    assert "did you mean 'horizon'" in shell(block("sh", wrong, exit="2"), folder, [])
    with pytest.raises(AssertionError, match="did you mean 'horizon'"):
        shell(block("sh", wrong), folder, [])
    read(block("yaml", "think: 2s\n", at="workload"), folder)
    with pytest.raises(ScenarioErrors, match="did you mean 'think'"):
        read(block("yaml", "thnik: 2s\n", at="workload"), folder)
    with pytest.raises(ProfileError, match="schema"):
        read(block("yaml", "decode: {}\n", form="profile"), folder)


def test_a_law_and_what_has_a_kind_are_replaced_as_one():
    whole = {
        "a": {"exponential": {"mean": 4}},
        "b": {"kind": "x", "rate": 1},
        "c": {"d": 1, "e": 2},
    }
    part = {"a": {"gamma": {}}, "b": {"kind": "y"}, "c": {"d": 3}}
    assert merged(whole, part) == {"a": {"gamma": {}}, "b": {"kind": "y"}, "c": {"d": 3, "e": 2}}
