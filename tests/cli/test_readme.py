"""What the pages of the repository say can be done, can be done."""

import re
import shlex
from pathlib import Path

import click
import numpy as np
import pytest
from commands import parsed
from helpers import DATA

from hopfed.experiments.worked import owners_files, spreadsheet
from hopfed.hopfield.channel import draw_examples, rademacher

ROOT = Path(__file__).parents[2]
FOLDERS = ["recovery", "federation", "hopfield", "memory", "neural"]
NAMES_OF_PAGES = ["README.md", *(f"hopfed/{name}/README.md" for name in FOLDERS)]
NAMES_OF_PAGES += ["hopfed/recovery/clusters.md"]
NAMES_OF_PAGES += [f"{name}/README.md" for name in ("theory", "experiments", "kernels")]
PAGES = {name: (ROOT / name).read_text() for name in NAMES_OF_PAGES}
TEXT = PAGES["README.md"]
RECOVERY = PAGES["hopfed/recovery/README.md"]
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
    if "distributed" in block:
        pytest.importorskip("distributed", reason="distributed is not installed")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, page, "exec"), {})
    assert capsys.readouterr().out


def test_the_first_page_is_short():
    assert len(TEXT.splitlines()) <= 150
    assert len(TEXT.split()) <= 1200


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


def test_a_transcript_is_what_the_command_prints(hopfed):
    lines = PAGES["theory/README.md"].splitlines()
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
    lines = RECOVERY.splitlines()
    start = next(i for i, line in enumerate(lines) if "$ python -c" in line)
    exec(shlex.split(lines[start].strip())[3], {})
    status, text, _ = hopfed(*shlex.split(lines[start + 1].strip())[2:])
    verdict = next(line.strip() for line in lines[start:] if "not classes:" in line)
    assert status == 0
    assert verdict in text.splitlines()


def rounded(word):
    """A word; a number to three digits, of which sums on another machine have as many alike."""
    try:
        return f"{float(word):.3g}"
    except ValueError:
        return word


def test_the_recovery_of_three_owners_is_what_the_command_prints(hopfed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    owners_files.main()
    lines = RECOVERY.splitlines()
    start = next(i for i, line in enumerate(lines) if "$ hopfed recover museum.npy" in line)
    end = next(i for i, line in enumerate(lines) if line.startswith("![spectrum"))
    status, text, _ = hopfed(*shlex.split(lines[start].strip())[2:])
    text = re.sub(r"; \d+\.\d+ s\n", "; ...\n", text.partition("archetype ")[2])  # seconds vary
    shown = "\n".join(lines[start + 1 : end]).partition("archetype ")[2]
    assert status == 0
    assert [rounded(word) for word in text.split()] == [rounded(word) for word in shown.split()]


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
        status, _, errors = hopfed(*shlex.split(line.strip(), comments=True)[2:])
        assert status == 0, errors


def of_section(title):
    """The commands of a section of the first page."""
    section = TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^    \$ hopfed (.*)$", section, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


def test_one_machine_is_enough_to_try_what_more_of_them_do(hopfed, tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="distributed is not installed")
    monkeypatch.chdir(tmp_path)
    xi, rng = rademacher(3, 60, np.random.default_rng(0)), np.random.default_rng(1)
    Path("parts").mkdir()
    for i in range(3):
        np.save(f"parts/{i}.npy", draw_examples(xi, 300, 0.8, rng)[0])
    recover, sweep = of_section("When one machine is not enough")
    status, text, errors = hopfed(*recover)
    assert status == 0, errors
    assert "ok: All 3 archetypes" in text
    assert sweep[0] == "sweep"


@pytest.mark.slow
def test_a_sweep_on_workers_of_dask(hopfed, tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="distributed is not installed")
    monkeypatch.chdir(tmp_path)
    status, _, errors = hopfed(*of_section("When one machine is not enough")[1])
    assert status == 0, errors
    assert len(list(Path("swept").glob("*.h5"))) == 2
    assert Path("swept/figure.png").exists()


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_what_a_page_links_to_is_there(page, link):
    if "://" not in link:
        assert (ROOT / page).parent.joinpath(link).exists()


@pytest.mark.parametrize("name", [n for n, page in PAGES.items() if "## In this folder" in page])
def test_what_a_page_says_is_in_its_folder_is_there(name):
    listed = re.findall(r"`([\w/.]+(?:\.py|/))`", PAGES[name].partition("## In this folder")[2])
    assert len(listed) >= 3
    for entry in listed:
        assert (ROOT / name).parent.joinpath(entry).exists(), entry
