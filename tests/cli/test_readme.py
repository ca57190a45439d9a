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
TEXT = PAGES["README.md"]
BLOCKS = [
    (name, block)
    for name, text in PAGES.items()
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
]
JOINED = "\n".join(PAGES.values()).replace("\\\n", " ")
COMMANDS = re.findall(r"^    \$ (hopfed .*)$", JOINED, re.MULTILINE)
COMMANDS += re.findall(r"`(hopfed [a-z]+ [^`]*)`", JOINED)
LINKS = [(name, link) for name in PAGES for link in re.findall(r"\]\(([^)#]+)\)", PAGES[name])]


@pytest.mark.parametrize(("page", "block"), BLOCKS)
def test_python_in_a_page_runs(page, block, tmp_path, monkeypatch, capsys):
    for library in NEEDS.get(page, ()):
        pytest.importorskip(library, reason=f"{library} is not installed")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, page, "exec"), {})
    assert capsys.readouterr().out


def test_the_first_page_is_short():
    assert len(TEXT.splitlines()) <= 130
    assert len(TEXT.split()) < 900


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


def transcript(page, command, end):
    """The words of a command that a page shows, and the lines printed, to one that begins so."""
    lines = PAGES[f"hopfed/pages/{page}.md"].splitlines()
    start = next(i for i, line in enumerate(lines) if f"$ hopfed {command}" in line)
    last = next(i for i in range(start, len(lines)) if lines[i].startswith(end))
    return shlex.split(lines[start].strip())[2:], lines[start + 1 : last]


def rounded(text):
    """The words of a text; numbers to three digits, as sums on other machines have them alike."""
    words = text.split()
    return [f"{float(w):.3g}" if re.fullmatch(r"\d*\.\d+", w) else w for w in words]


@pytest.mark.parametrize(
    ("page", "command", "end"),
    [("physics", "theory plan --r 0.6", "    ..."), ("tables", "recover museum.npy", "![spectrum")],
)
def test_a_transcript_is_what_the_command_prints(hopfed, tmp_path, monkeypatch, page, command, end):
    monkeypatch.chdir(tmp_path)
    owners_files.main()
    words, lines = transcript(page, command, end)
    shown = rounded("\n".join(lines))
    text = re.sub(r"; \d+\.\d+ s\n", "; ...\n", hopfed.done(*words)[0])  # seconds vary
    start = rounded(text).index(shown[0])
    assert len(shown) > 20
    assert rounded(text)[start : start + len(shown)] == shown


def test_the_wines_are_what_the_command_prints(hopfed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spreadsheet.write_table()
    lines = TEXT.splitlines()
    start = next(i for i, line in enumerate(lines) if "$ hopfed recover wines.csv" in line)
    end = next(i for i, line in enumerate(lines) if "$ hopfed assign" in line)
    status, text, _ = hopfed(*shlex.split(lines[start].strip())[2:])
    printed = text.splitlines()
    assert status == 0
    for line in lines[start + 1 : end]:
        told = line.removeprefix("    ").removesuffix("...")
        assert any(said.startswith(told) for said in printed), told
    for line in lines[end:]:
        if not line.startswith("    $ hopfed"):
            break
        hopfed.done(*shlex.split(line.strip(), comments=True)[2:])


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_what_a_page_links_to_is_there(page, link):
    if "://" not in link:
        assert (ROOT / page).parent.joinpath(link).exists()


def test_files_that_contributing_names_are_there():
    folder = ROOT  # of the last file that was named with its folder
    for name in re.findall(r"`([\w/]+\.(?:py|toml))`", PAGES["CONTRIBUTING.md"]):
        folder = (ROOT / name).parent if "/" in name else folder
        assert (folder / Path(name).name).is_file() or (ROOT / name).is_file(), name
