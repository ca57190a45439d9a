"""What the page for owners names is there: tests, commands and options."""

import ast
import re
from pathlib import Path

import pytest

from hopfed.cli.machines.join import join_command
from hopfed.cli.machines.serve import certs_command, serve_command

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "hopfed" / "pages" / "owners.md").read_text()
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", TEXT)))


@pytest.mark.parametrize("name", TESTS)
def test_every_test_that_it_names_is_there(name):
    path, _, function = name.partition("::")
    tree = ast.parse((ROOT / path).read_text())
    assert function in {node.name for node in tree.body if hasattr(node, "name")}


def test_every_row_of_its_table_names_a_test():
    start = TEXT.index("| other | learns")
    rows = TEXT[start:].partition("\n\n")[0].splitlines()[2:]
    assert len(rows) >= 10
    for row in rows:
        assert re.search(r"`tests/[\w/]+\.py::\w+`", row), row


def test_its_options_are_those_of_the_commands():
    commands = (certs_command, join_command, serve_command)
    known = {o for c in commands for p in c.params for o in p.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT)) <= known
    for option in ("--epsilon", "--trust-server", "--dry-run"):
        assert f"| `{option}" in TEXT
