"""What the pages for owners name is there: tests, commands and options."""

import ast
import re
import shlex
from pathlib import Path

import pytest
from commands import parsed

from hopfed.cli.machines.join import join_command

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "hopfed" / "federation" / "README.md").read_text()
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", TEXT)))
COMMANDS = re.findall(r"^    \$ (hopfed .*)$", TEXT, re.MULTILINE)
OPTIONS = sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT)))


def functions(path):
    return {node.name for node in ast.parse(path.read_text()).body if hasattr(node, "name")}


@pytest.mark.parametrize("name", TESTS)
def test_every_test_that_it_names_is_there(name):
    path, _, function = name.partition("::")
    assert function in functions(ROOT / path)


def test_every_row_of_its_table_names_a_test():
    start = TEXT.index("| who | can learn")
    rows = TEXT[start:].partition("\n\n")[0].splitlines()[2:]
    assert len(rows) >= 10
    for row in rows:
        assert re.search(r"`tests/[\w/]+\.py::\w+`", row), row
        assert row.count("|") == 5, row
    assert TEXT.count("tests/") == TEXT.count("`tests/")


@pytest.mark.parametrize("line", COMMANDS)
def test_its_commands_parse(line):
    assert parsed(shlex.split(line)[1:]) == "join"


def test_its_options_are_those_of_the_commands():
    from hopfed.cli.machines.serve import serve_command
    from hopfed.cli.networks import run_command

    commands = (join_command, serve_command, run_command)  # the last for files that others send
    known = {o for c in commands for p in c.params for o in p.opts}
    assert set(OPTIONS) <= known
    for option in ("--epsilon", "--trust-server", "--dry-run"):
        assert f"| `{option}" in TEXT
