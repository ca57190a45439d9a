"""The folder of a sweep: what else is in it stays, and no link in it is followed."""

import csv
import os
import shutil
from dataclasses import replace

import pytest

from hopfed.runs import Run

EVIL = "open('ran', 'w').close()\nfrom torch import nn\nclass Net(nn.Module): pass\n"


SWEEP = ("sweep", "mp", "--preset", "quick", "--set", "seeds=1", "--grid")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(EVIL)
    return tmp_path


@pytest.mark.parametrize("name", ["table.csv", "figure.png"])
@pytest.mark.parametrize("link", [False, True])
def test_a_sweep_takes_the_place_of_no_other_file(hopfed, folder, name, link):
    """Its table and its figure have names that nobody gave."""
    (folder / "out").mkdir()
    mine = folder / "mine" if link else folder / "out" / name
    mine.write_text("my own,1\n")
    if link:
        (folder / "out" / name).symlink_to(mine)
    status, _, words = hopfed(*SWEEP, "N=40", "--out", "out")
    assert (status, words.count("\n")) == (2, 1)
    assert mine.read_text() == "my own,1\n"
    assert os.listdir(folder / "out") == [name]


def test_a_sweep_goes_on_in_its_own_folder_and_follows_no_link(hopfed, folder):
    assert hopfed(*SWEEP, "N=40", "--out", "out")[0] == 0
    shutil.copy("out/N=40.h5", "mine.h5")
    (folder / "out" / "N=50.h5").symlink_to(folder / "mine.h5")
    before = (folder / "mine.h5").read_bytes()
    status, _, words = hopfed(*SWEEP, "N=40,50", "--seeds", 2, "--out", "out")
    assert status == 1
    assert "a link" in words
    assert (folder / "mine.h5").read_bytes() == before


def test_no_reason_in_the_table_of_a_sweep_is_a_formula(hopfed, folder):
    assert hopfed(*SWEEP, "N=40,50", "--out", "out")[0] == 0
    run = Run.load("out/N=50.h5")
    replace(run, config=run.config | {"N_test": "1;=HYPERLINK(1)"}).save("out/N=50.h5")
    assert hopfed(*SWEEP, "N=40,50", "--out", "out")[0] == 1
    with open("out/table.csv", newline="", encoding="utf-8") as file:
        reason = list(csv.DictReader(file))[1]["status"]
    assert "HYPERLINK" in reason
    assert ";=" not in reason
