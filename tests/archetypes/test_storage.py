"""Archetypes in files: what is saved is read again, older files too, damaged ones in one line."""

import csv
import json
from dataclasses import fields, replace

import numpy as np
import pytest

import hopfed
from hopfed.archetypes import run_file
from hopfed.archetypes.run_file import export_columns, load, report_of
from hopfed.errors import ArgumentError, RunFileError
from hopfed.hopfield.channel import draw_examples, rademacher

HOSTILE = ("plain", "=1+1", "a,b\n\x1b[2J", "<b>ü</b>", "$x$", "-3", "share")


@pytest.fixture(scope="module")
def graded():
    """Three classes of 40 columns with gaps, of two owners, some names hostile."""
    rng = np.random.default_rng(0)
    T = rng.uniform(-1, 1, (3, 40))
    x = np.where(rng.random((900, 40)) < (1 + T[rng.integers(3, size=900)]) / 2, 1.0, -1.0)
    x[rng.random(x.shape) < 0.1] = np.nan
    names = (*HOSTILE, *(f"c{j}" for j in range(40 - len(HOSTILE))))
    return replace(hopfed.recover([x[:500], x[500:]], seed=0), columns=names)


@pytest.fixture(scope="module")
def symmetric():
    rng = np.random.default_rng(1)
    return hopfed.recover(draw_examples(rademacher(3, 60, rng), 900, 0.8, rng)[0], seed=0)


@pytest.mark.parametrize("name", ["graded", "symmetric"])
def test_what_is_saved_is_read_again(name, request, tmp_path):
    found = request.getfixturevalue(name)
    found.save(tmp_path / "a.h5")
    back = hopfed.load(tmp_path / "a.h5")
    for field in fields(found):
        if field.name != "matches":  # of one round of a federation
            np.testing.assert_equal(getattr(back, field.name), getattr(found, field.name))
    x = np.random.default_rng(2).choice([-1, 1], (20, found.patterns.shape[1])).astype(np.int8)
    np.testing.assert_array_equal(back.assign(x).probability, found.assign(x).probability)


def test_what_the_command_writes_is_read(hopfed, graded, tmp_path):
    x = np.random.default_rng(3).choice([-1, 1], (300, 9))
    x[:, 1:] = np.where(np.random.default_rng(4).random((300, 8)) < 0.9, x[:, :1], -x[:, :1])
    np.save(tmp_path / "x.npy", x)
    status, text, _ = hopfed("recover", tmp_path / "x.npy", "--json", "--out", tmp_path / "r.h5")
    said = json.loads(text)
    found = load(tmp_path / "r.h5")
    assert (status, found.status, len(found)) == (0, said["status"], said["n_archetypes"])
    assert found.columns == found.coding.columns == tuple(f"column {j}" for j in range(1, 10))
    assert len(found.assign(x).archetype) == 300


def test_files_of_before_there_were_graded_means_are_read(symmetric, tmp_path):
    kept = ("patterns", "scores", "predicted_scores", "exposures")
    run = run_file.as_run(symmetric)
    arrays = {f"archetypes/{name}": run.arrays[f"archetypes/{name}"] for name in kept}
    words = {k: run.summary[k] for k in ("quality", "n_detected", "status", "advice")}
    old = replace(run, arrays=arrays, summary=words | {"explained": 0.5})
    old.save(tmp_path / "old.h5")
    back = hopfed.load(tmp_path / "old.h5")
    assert (back.channel, back.explained, back.graded_means) == ("symmetric", 0.5, None)
    np.testing.assert_array_equal(back.patterns, symmetric.patterns)
    np.testing.assert_allclose(back.means, symmetric.means)


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("archetypes/patterns", np.zeros((3, 60), np.int8), "patterns must be a table of"),
        ("archetypes/patterns", np.ones((2, 60), np.int8), "of shape"),
        ("archetypes/exposures", np.ones(7), "exposures must be of shape"),
        ("archetypes/means", np.full((3, 60), 7.0), "means must be in"),
        ("archetypes/scores", np.ones(3, np.int64), "scores must be real numbers"),
        ("columns/names", np.array([b"a"]), "names must be of 60 columns"),
        ("columns/names", np.ones(60), "names must be words"),
        ("columns/names", np.array([b"\xff"] * 60), "decode"),
    ],
)
def test_files_whose_arrays_do_not_fit_are_refused(symmetric, tmp_path, name, array, words):
    run = run_file.as_run(symmetric)
    replace(run, arrays=run.arrays | {name: array}).save(tmp_path / "a.h5")
    with pytest.raises(RunFileError, match=words) as caught:
        hopfed.load(tmp_path / "a.h5")
    assert "\n" not in str(caught.value)


def test_a_csv_has_a_row_for_each_archetype_and_no_formula(graded, tmp_path):
    graded.to_csv(tmp_path / "a.csv")
    head, *body = csv.reader((tmp_path / "a.csv").read_text().splitlines(keepends=True))
    assert head[:2] == ["archetype", "share"]
    assert head[2:9] == ["plain", "'=1+1", *HOSTILE[2:]]
    values = np.array(body, float)
    np.testing.assert_array_equal(values[:, 0], [1, 2, 3])
    np.testing.assert_array_equal(values[:, 2:], graded.means)
    with pytest.raises(ArgumentError, match=r"must be a \.csv or \.tsv file"):
        graded.to_csv(tmp_path / "a.xlsx")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv"]


def test_a_frame_has_the_same_rows(graded, monkeypatch):
    pd = pytest.importorskip("pandas")
    frame = graded.to_frame()
    assert frame.shape == (3, 40)
    assert tuple(frame.columns) == graded.columns
    assert isinstance(frame, pd.DataFrame)
    np.testing.assert_array_equal(frame.to_numpy(), graded.means)
    np.testing.assert_array_equal(frame.index.get_level_values("share"), graded.shares)


def test_the_report_is_json(graded, symmetric):
    for found in (graded, symmetric):
        made = json.loads(json.dumps(report_of(found), allow_nan=False))
        assert made["columns"] == [name for name, _ in export_columns(found)][2:]
        assert np.array(made["means"]).shape == found.means.shape
        assert made["status"] == "ok"


@pytest.mark.parametrize("name", ["rows.csv", "rows.json", "rows", "rows.png"])
def test_archetypes_take_no_name_of_another_kind_of_file(symmetric, tmp_path, name):
    """A table became an HDF5 file without a word."""
    path = tmp_path / name
    path.write_text("tea,cake\n1,0\n")
    with pytest.raises(ArgumentError, match=r"path must be a \.h5 or \.hdf5 file"):
        symmetric.save(path)
    assert path.read_text() == "tea,cake\n1,0\n"


def test_the_errors_of_rates_by_column_are_those_of_their_columns():
    """A pattern is known for sure from 300 rows; how often rows agree with it is not."""
    rng = np.random.default_rng(0)
    xi, r = rademacher(3, 60, rng), rng.uniform(0.5, 0.95, 60)
    kinds = rng.integers(3, size=900)
    x = xi[kinds] * np.where(rng.random((900, 60)) < (1 + r) / 2, 1, -1)
    found = hopfed.recover(x, seed=0)
    assert found.channel == "by column"
    truth = r * xi[np.abs(found.means @ xi.T).argmax(axis=1)]
    off = (found.means - truth)[0] / found.errors[0]  # the rates are those of all three
    assert 0.7 < np.sqrt((off**2).mean()) < 1.4


def test_where_no_error_is_known_none_is_exported(graded):
    by_column = replace(graded, channel="by column", own_errors=np.zeros_like(graded.means))
    assert np.isnan(by_column.errors).all()
    assert report_of(by_column)["errors"][0][0] is None
