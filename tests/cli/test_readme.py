"""What the README says can be done, can be done."""

import re
import shlex
from pathlib import Path

import click
import pytest
from commands import parsed
from helpers import DATA

from hopfed.experiments import NAMES
from hopfed.experiments.worked import owners_files

TEXT = (Path(__file__).parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
JOINED = TEXT.replace("\\\n", " ")
COMMANDS = re.findall(r"^    \$ (hopfed .*)$", JOINED, re.MULTILINE)
COMMANDS += re.findall(r"`(hopfed [a-z]+ [^`]*)`", JOINED)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_its_python_runs(number, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(BLOCKS[number], "README.md", "exec"), {})
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


def test_its_table_names_experiments():
    rows = re.findall(r"\| `hopfed run (\w+)[^`]*` \|", TEXT)
    assert rows
    assert set(rows) <= set(NAMES)


def test_a_transcript_is_what_the_command_prints(hopfed):
    lines = TEXT.splitlines()
    start = next(i for i, line in enumerate(lines) if "$ hopfed theory plan --r 0.6" in line)
    status, text, _ = hopfed(*shlex.split(lines[start].strip())[2:])
    printed = [line.split() for line in text.splitlines()]
    assert status == 0
    assert printed == [line.split() for line in lines[start + 1 : start + 1 + len(printed)]]


@pytest.mark.slow
def test_raw_digits_are_judged_in_the_words_that_it_shows(hopfed, tmp_path, monkeypatch):
    if not (DATA / "mnist.npz").is_file():
        pytest.skip("MNIST not at hand; set HOPFED_DATA to its folder")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mnist.npz").symlink_to(DATA / "mnist.npz")
    lines = TEXT.splitlines()
    start = next(i for i, line in enumerate(lines) if "$ python -c" in line)
    exec(shlex.split(lines[start].strip())[3], {})
    status, text, _ = hopfed(*shlex.split(lines[start + 1].strip())[2:])
    verdict = next(line.strip() for line in lines[start:] if "not classes:" in line)
    assert status == 0
    assert verdict in text.splitlines()


def test_the_recovery_of_three_owners_is_what_the_command_prints(hopfed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    owners_files.main()
    lines = TEXT.splitlines()
    start = next(i for i, line in enumerate(lines) if "$ hopfed recover museum.npy" in line)
    end = next(i for i, line in enumerate(lines) if line.startswith("![spectrum"))
    status, text, _ = hopfed(*shlex.split(lines[start].strip())[2:])
    text = re.sub(r"; \d+\.\d+ s\n", "; ...\n", text.partition("archetype ")[2])  # seconds vary
    shown = "\n".join(lines[start + 1 : end]).partition("archetype ")[2]
    assert status == 0
    assert text.split() == shown.split()


@pytest.mark.parametrize("path", re.findall(r"\]\((figures/gallery/[^)]+)\)", TEXT))
def test_its_pictures_are_there(path):
    assert (Path(__file__).parents[2] / path).is_file()
