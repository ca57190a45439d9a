"""`hopfed recover` and `demo` as a user runs them."""

import json

import h5py
import numpy as np
import pytest
from helpers import sample

from hopfed.archetypes.overlap import retrieval


@pytest.fixture(scope="module")
def three_files(tmp_path_factory):
    """Three owners' files in three formats, and the truth behind them."""
    folder, (xi, eta) = tmp_path_factory.mktemp("owners"), sample(5, 256, 1500, 0.7, 0)
    a, b, c = np.array_split(eta, 3)
    np.save(folder / "a.npy", a > 0)
    np.savetxt(folder / "b.csv", b, delimiter=",", fmt="%d")
    with h5py.File(folder / "c.h5", "w") as file:
        file["examples"] = (c > 0).astype(np.uint8)
    return xi, [folder / n for n in ("a.npy", "b.csv", "c.h5")]


def test_three_owners_three_formats(hopfed, three_files, tmp_path):
    xi, files = three_files
    out, figure = tmp_path / "run.h5", tmp_path / "f.png"
    text, _ = hopfed.done(
        "recover", *files, "--out", out, "--figure", figure, "--shape", "16x16", "--json"
    )
    report = json.loads(text)
    keys = "n_archetypes n_detected quality scores exposures explained status seconds"
    assert set(f"{keys} bytes_sent".split()) <= set(report)
    assert report["n_archetypes"] == report["n_detected"] == len(report["scores"]) == 5
    assert (report["status"], len(report["bytes_sent"])) == ("ok", 3)
    assert report["quality"] == pytest.approx(0.7, abs=0.02)
    with h5py.File(out) as file:
        patterns = file["/archetypes/patterns"][()]
    assert patterns.dtype == np.int8
    assert retrieval(patterns, xi).found() == 5
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_a_single_file_is_split_over_clients(hopfed, three_files):
    text, _ = hopfed.done("recover", three_files[1][0], "--clients", 4, "--quality", "0.7")
    assert "4 client(s)" in text
    assert "quality r = 0.700" in text


@pytest.mark.slow
def test_demo(hopfed, tmp_path):
    text, _ = hopfed.done("demo", "--figure", tmp_path / "d.png")
    assert "26 of 26 letters at |m| >= 0.99, 0 false discoveries" in text
    assert (tmp_path / "d.png").stat().st_size > 10_000
