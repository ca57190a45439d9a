"""`hopfed figure` as a user runs it."""

import re
from base64 import b64decode

import numpy as np
import pytest

from hopfed.cli import main
from hopfed.runs import Run

MAGIC = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


@pytest.fixture(scope="module")
def run_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run.h5"
    settings = ["--set", "N=60", "--set", "M=100,200", "--seeds", "3"]
    main(["run", "bbp", *settings, "--out", str(path)])
    return path


@pytest.fixture(scope="module")
def longer(tmp_path_factory):
    """A run with more panels than the first picture shows."""
    path = tmp_path_factory.mktemp("runs") / "run.h5"
    settings = ["--set", "N=60", "--set", "M=100,200,300", "--seeds", "2"]
    main(["run", "bbp", *settings, "--out", str(path)])
    return path


@pytest.mark.parametrize("suffix", MAGIC)
def test_every_format(hopfed, run_file, tmp_path, suffix):
    out = tmp_path / f"figure{suffix}"
    status, text, _ = hopfed("figure", run_file, "--out", out)
    assert status == 0
    assert "wrote" in text
    assert out.read_bytes().startswith(MAGIC[suffix])


def test_the_whole_picture_has_what_the_first_one_leaves_out(hopfed, longer, run_file, tmp_path):
    first, whole = tmp_path / "first.svg", tmp_path / "whole.svg"
    status, text, _ = hopfed("figure", longer, "--out", first)
    assert (status, "--whole draws all panels" in " ".join(text.split())) == (0, True)
    status, text, _ = hopfed("figure", longer, "--out", whole, "--whole")
    assert (status, "--whole" in text) == (0, False)
    # In the title of a spectrum, which the first picture has of some M only, and in a legend.
    assert [path.read_text().count("M = 100") for path in (first, whole)] == [1, 2]
    assert "--whole" not in hopfed("figure", run_file, "--out", first)[1]


def test_the_report_shows_the_whole_picture(hopfed, longer, tmp_path):
    page = tmp_path / "page.html"
    assert hopfed("report", longer, "--out", page)[0] == 0
    (picture,) = set(re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page.read_text()))
    assert b64decode(picture).decode().count("M = 200") == 2


def test_what_cannot_be_drawn(hopfed, run_file, tmp_path):
    out = tmp_path / "figure.png"
    half, strange = tmp_path / "half.h5", tmp_path / "strange.h5"
    Run("bbp", {}, {}, {}, committed=1, planned=2).save(half)
    Run("dance", {}, {"x": np.ones(2)}, {}).save(strange)
    for path, words in (
        (half, "1 of 2 seeds"),
        (strange, "no figure for runs of 'dance'"),
        (tmp_path / "absent.h5", "no such run file"),
    ):
        status, _, errors = hopfed("figure", path, "--out", out)
        assert status == 2
        assert words in errors
        assert not out.exists()


def test_several_runs_that_cannot_be_drawn_together(hopfed, run_file, tmp_path):
    out = tmp_path / "figure.png"
    strange = tmp_path / "strange.h5"
    Run("dance", {}, {"x": np.ones(2)}, {}).save(strange)
    for files, words in (
        ((run_file, "--sections", "k"), "runs of 'bbp' have no sections"),
        ((run_file, "--sections", "k", "--whole"), "with one RUN, and without --whole"),
        ((run_file, strange), "runs of one kind, to be drawn together, got bbp, dance"),
        ((run_file, run_file), "no figure for several runs of 'bbp'"),
        ((), "RUN..."),
    ):
        status, _, errors = hopfed("figure", *files, "--out", out)
        assert status == 2
        assert words in errors
        assert not out.exists()
