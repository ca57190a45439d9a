"""What the pages of the repository say can be done, can be done."""

import re
import shlex
from pathlib import Path

import click
import pytest
from commands import parsed

from hopfed.experiments.worked import owners_files, spreadsheet

ROOT = Path(__file__).parents[2]
NEEDS = {
    "hopfed/pages/devices.md": ["distributed"],
    "hopfed/pages/networks.md": ["torch", "pandas"],
}
JOBS = ("tables", "owners", "physics", "networks", "devices")
NAMES_OF_PAGES = ["README.md", "CONTRIBUTING.md", "experiments/README.md"]
NAMES_OF_PAGES += [f"hopfed/pages/{job}.md" for job in JOBS]
PAGES = {name: (ROOT / name).read_text() for name in NAMES_OF_PAGES}
BLOCKS = [
    (name, block)
    for name, text in PAGES.items()
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
]
JOINED = "\n".join(PAGES.values()).replace("\\\n", " ")
COMMANDS = re.findall(r"^    \$ (hopfed .*)$", JOINED, re.MULTILINE)
COMMANDS += re.findall(r"`(hopfed [a-z]+ [^`]*)`", JOINED)


@pytest.mark.parametrize(("page", "block"), BLOCKS)
def test_python_in_a_page_runs(page, block, tmp_path, monkeypatch, capsys):
    for library in NEEDS.get(page, ()):
        pytest.importorskip(library, reason=f"{library} is not installed")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, page, "exec"), {})
    assert capsys.readouterr().out


@pytest.mark.parametrize("line", sorted(set(COMMANDS)))
def test_its_commands_exist_with_their_options(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("FILE").touch()  # stands for one of the reader's
    if re.search(r"[A-Z]{2,}|\||\.\.\.|\[", line):  # a pattern, not a command
        line = re.sub(r"\[[^]]*\]|\.\.\.", "", line)
        line = re.sub(r"(\w+)(\|[\w.]+)+", r"\1", line)
    words = shlex.split(line, comments=True)[1:]
    try:
        assert parsed(words)
    except click.MissingParameter:
        assert not any(word.startswith("-") for word in words)  # only named, not shown


def rounded(line):
    """A line without its seconds; numbers to three digits, as other machines have them alike."""
    words = re.sub(r"; \d+\.\d+ s$", "; ", line.removesuffix("...")).split()
    return " ".join(f"{float(w):.3g}" if re.fullmatch(r"\d*\.\d+", w) else w for w in words)


@pytest.mark.parametrize(
    ("page", "command", "end"),
    [("hopfed/pages/physics.md", "theory plan --r 0.6", "    ..."),
     ("hopfed/pages/tables.md", "recover museum.npy", "![spectrum"),
     ("README.md", "recover wines.csv", "    $ hopfed assign")],
)  # fmt: skip
def test_a_transcript_is_what_the_command_prints(hopfed, tmp_path, monkeypatch, page, command, end):
    monkeypatch.chdir(tmp_path)
    owners_files.main()
    spreadsheet.write_table()
    lines = PAGES[page].splitlines()
    start = next(i for i, line in enumerate(lines) if f"$ hopfed {command}" in line)
    last = next(i for i in range(start, len(lines)) if lines[i].startswith(end))
    text, _ = hopfed.done(*shlex.split(lines[start].strip())[2:])
    printed = [rounded(line) for line in text.splitlines()]
    assert last > start + 4
    for line in lines[start + 1 : last]:
        assert any(said.startswith(rounded(line)) for said in printed), line
    for line in lines[last:]:
        if not line.startswith("    $ hopfed"):
            break
        hopfed.done(*shlex.split(line.strip(), comments=True)[2:])


def test_files_that_contributing_names_are_there():
    folder = ROOT  # of the last file that was named with its folder
    for name in re.findall(r"`([\w/]+\.(?:py|toml))`", PAGES["CONTRIBUTING.md"]):
        folder = (ROOT / name).parent if "/" in name else folder
        assert (folder / Path(name).name).is_file() or (ROOT / name).is_file(), name
