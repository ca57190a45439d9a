"""The page of formulas names tests and commands that exist, and its links lead somewhere."""

import re
import shlex
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from hopfed.bench import PAIRS as BENCHES
from hopfed.cli import cli
from hopfed.experiments import NAMES as EXPERIMENTS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "theory" / "NOTES.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```math\n.*?\n```$", "", TEXT, flags=re.DOTALL | re.MULTILINE)
HEADINGS = re.findall(r"^(#{2,3}) (.+)$", TEXT, re.MULTILINE)
TITLES = [title for _, title in HEADINGS]
CODE = re.findall(r"`([^`\n]+)`", PROSE)
CHECKS = sorted({c for c in CODE if "::" in c or c.startswith("tests/")})
COMMANDS = sorted({c for c in CODE if c.startswith("hopfed ")})
OPEN = ("not checked yet", "not built yet")

# A section from its heading to the next: (title, text), for those that hold formulas.
SECTIONS = re.findall(r"^### (.+)\n((?:(?!^##).*\n)*)", TEXT, re.MULTILINE)


def anchor(title):
    """Name under which GitHub links to a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@cache
def functions(path):
    """Names of the functions in a file of this repository."""
    return set(re.findall(r"^def (\w+)\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE))


def missing(check):
    """Say what is wrong with `tests/FILE.py::FUNCTION`, nothing if it is there."""
    path, _, function = check.partition("::")
    if not (ROOT / path).is_file():
        return f"no file {path}"
    if function and function not in functions(path):
        return f"no {function} in {path}"
    return ""


def parse(line):
    """Parse a command line down to the command that would run, and do not run it."""
    words = shlex.split(line)[1:]
    group, context = cli, cli.make_context("hopfed", words)
    while hasattr(group, "resolve_command"):
        left = [*context._protected_args, *context.args]
        name, group, rest = group.resolve_command(context, left)
        context = group.make_context(name, rest, parent=context)
    return group.name, context.params


def test_every_test_that_is_named_exists():
    assert len(CHECKS) > 60
    assert [wrong for wrong in map(missing, CHECKS) if wrong] == []


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_that_is_named_exists(line):
    name, settings = parse(line)
    known = {"run": EXPERIMENTS, "bench": BENCHES}.get(name)
    assert known is None or settings["name"] in known


def test_every_section_has_a_source_and_a_check():
    assert len(SECTIONS) == sum(level == "###" for level, _ in HEADINGS)
    for title, text in SECTIONS:
        source = re.findall(r"^\*\*Source:\*\* (.+)$", text, re.MULTILINE)
        check = re.findall(r"^\*\*Check:\*\* (.+)$", text, re.MULTILINE)
        assert len(source) == len(check) == 1, title
        named = set(re.findall(r"`([^`]+)`", check[0])) & {*CHECKS, *COMMANDS}
        assert named or check[0].lower().startswith((*OPEN, "the table")), title


def test_headings_are_unique_and_links_lead_to_them():
    assert [title for title, n in Counter(TITLES).items() if n > 1] == []
    targets = {anchor(title): title for title in TITLES}
    assert len(targets) == len(TITLES)
    links = re.findall(r"\[([^]]+)\]\(#([^)]+)\)", PROSE)
    assert [target for _, target in links if target not in targets] == []


def test_formulas_survive_markdown():
    """GitHub reads emphasis and escapes first, inside of $...$ as well; ```math it leaves alone."""
    for line in re.sub(r"`[^`\n]*`", "", PROSE).splitlines():
        assert line.count("$") % 2 == 0, line
        for formula in re.findall(r"\$([^$]*)\$", line):
            assert not re.search(r"\\[^a-zA-Z ]|[})|\]]_|\*|<\w", formula), formula
    for formula in re.findall(r"```math\n(.*?)\n```", TEXT, re.DOTALL):
        assert formula.count("{") == formula.count("}"), formula


def test_sections_that_the_code_cites_exist_and_nothing_cites_by_code():
    titles = {
        m[1].strip() for m in re.finditer(r"(?m)^#+ (.*)$", (ROOT / "theory/NOTES.md").read_text())
    }
    folders = ("hopfed", "kernels", "theory", "experiments", "figures")
    for path in (p for folder in folders for p in (ROOT / folder).rglob("*.py")):
        text = re.sub(r"\s*\n\s*#?\s*", " ", path.read_text())
        for cited in re.finditer(r'theory/NOTES\.md,? ((?:"[^"]+"(?:,? and |, )?)+)', text):
            assert set(re.findall(r'"([^"]+)"', cited[1])) <= titles, path
        assert not re.search(r"\([AB]\d{1,2}[;,)]", text), path
