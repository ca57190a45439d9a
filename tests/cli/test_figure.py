"""`hopfed figure`: formats, the whole picture, what cannot be drawn."""

import re
from base64 import b64decode

import pytest

from hopfed.cli import main

MAGIC = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


@pytest.fixture(scope="module")
def run_file(tmp_path_factory):
    """A run with more panels than the first picture shows."""
    path = tmp_path_factory.mktemp("runs") / "run.h5"
    settings = ("N=20", "M=50,100", "qualities=0.1,0.2,0.3,0.4,0.5,0.6,0.7")
    main(["run", "concentration", *(w for s in settings for w in ("--set", s)), "--out", str(path)])
    return path


@pytest.mark.parametrize("suffix", MAGIC)
def test_every_format(hopfed, run_file, tmp_path, suffix):
    out = tmp_path / f"figure{suffix}"
    status, text, _ = hopfed("figure", run_file, "--out", out)
    assert status == 0
    assert "wrote" in text
    assert out.read_bytes().startswith(MAGIC[suffix])


def test_the_whole_picture_has_what_the_first_one_leaves_out(hopfed, run_file, tmp_path):
    first, whole, page = (tmp_path / name for name in ("first.svg", "whole.svg", "page.html"))
    status, text, _ = hopfed("figure", run_file, "--out", first)
    assert (status, "--whole draws all panels" in " ".join(text.split())) == (0, True)
    status, text, _ = hopfed("figure", run_file, "--out", whole, "--whole")
    assert (status, "--whole" in text) == (0, False)
    assert [path.read_text().count("r = 0.7") for path in (first, whole)] == [0, 1]
    assert hopfed("report", run_file, "--out", page)[0] == 0
    (picture,) = set(re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page.read_text()))
    assert b64decode(picture).decode().count("r = 0.7") == 1
