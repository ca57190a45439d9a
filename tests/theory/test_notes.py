"""The page of formulas names tests and commands that exist, and code that cites it sections."""

import re
import shlex
from pathlib import Path

import pytest
from commands import parsed

from hopfed.bench import PAIRS as BENCHES
from hopfed.experiments import NAMES as EXPERIMENTS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "theory" / "NOTES.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```math\n.*?\n```$", "", TEXT, flags=re.DOTALL | re.MULTILINE)
TITLES = re.findall(r"^#{2,3} (.+)$", TEXT, re.MULTILINE)
CODE = re.findall(r"`([^`\n]+)`", PROSE)
CHECKS = sorted({c for c in CODE if "::" in c or c.startswith("tests/")})
COMMANDS = sorted({c for c in CODE if c.startswith("hopfed ")})
OPEN = ("not checked yet", "not built yet")

# A section from its heading to the next: (title, text), for those that hold formulas.
SECTIONS = re.findall(r"^### (.+)\n((?:(?!^##).*\n)*)", TEXT, re.MULTILINE)


def test_every_test_that_is_named_exists():
    assert len(CHECKS) > 60
    for check in CHECKS:
        path, _, function = check.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not function or f"\ndef {function}(" in text, check


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_that_is_named_exists(line):
    words = shlex.split(line)[1:]
    known = {"run": EXPERIMENTS, "bench": BENCHES}.get(parsed(words))
    assert known is None or words[1] in known


def test_every_section_has_a_source_and_a_check():
    assert len(SECTIONS) > 40
    assert len(set(TITLES)) == len(TITLES)
    for title, text in SECTIONS:
        source = re.findall(r"^\*\*Source:\*\* (.+)$", text, re.MULTILINE)
        check = re.findall(r"^\*\*Check:\*\* (.+)$", text, re.MULTILINE)
        assert len(source) == len(check) == 1, title
        named = set(re.findall(r"`([^`]+)`", check[0])) & {*CHECKS, *COMMANDS}
        assert named or check[0].lower().startswith((*OPEN, "the table")), title


def test_formulas_survive_markdown():
    """GitHub reads emphasis and escapes first, inside of $...$ as well; ```math it leaves alone."""
    for line in re.sub(r"`[^`\n]*`", "", PROSE).splitlines():
        assert line.count("$") % 2 == 0, line
        for formula in re.findall(r"\$([^$]*)\$", line):
            assert not re.search(r"\\[^a-zA-Z ]|[})|\]]_|\*|<\w", formula), formula
    for formula in re.findall(r"```math\n(.*?)\n```", TEXT, re.DOTALL):
        assert formula.count("{") == formula.count("}"), formula


def test_sections_that_the_code_cites_exist_and_nothing_cites_by_code():
    for folder in ("hopfed", "kernels", "theory", "experiments", "figures"):
        for path in (ROOT / folder).rglob("*.py"):
            text = re.sub(r"\s*\n\s*#?\s*", " ", path.read_text())
            for cited in re.finditer(r'theory/NOTES\.md,? ((?:"[^"]+"(?:,? and |, )?)+)', text):
                assert set(re.findall(r'"([^"]+)"', cited[1])) <= {*TITLES}, path
            assert not re.search(r"\([AB]\d{1,2}[;,)]", text), path
