"""What the page for owners names is there: tests, commands and options."""

import ast
import re
from pathlib import Path

from hopfed.cli.machines.join import join_command
from hopfed.cli.machines.serve import certs_command, serve_command

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "hopfed" / "pages" / "owners.md").read_text()


def test_every_row_of_its_table_names_a_test_that_is_there():
    rows = TEXT[TEXT.index("| other | learns") :].partition("\n\n")[0].splitlines()[2:]
    assert len(rows) >= 10
    for row in rows:
        path, function = re.search(r"`(tests/[\w/]+\.py)::(\w+)`", row).groups()
        tree = ast.parse((ROOT / path).read_text())
        assert function in {node.name for node in tree.body if hasattr(node, "name")}, row


def test_its_options_are_those_of_the_commands():
    commands = (certs_command, join_command, serve_command)
    known = {o for c in commands for p in c.params for o in p.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT)) <= known
    for option in ("--epsilon", "--trust-server", "--dry-run"):
        assert f"| `{option}" in TEXT
