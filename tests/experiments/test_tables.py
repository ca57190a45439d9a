"""The experiment on real tables, and the methods that it compares."""

import sys

import numpy as np
import pytest
from graded_tables import classes
from helpers import DATA

from hopfed.errors import ArgumentError, HopfedError
from hopfed.experiments import tables
from hopfed.experiments.runner import execute
from hopfed.experiments.shared.baselines import METHODS, Classes
from hopfed.experiments.shared.real_tables import load_tables
from hopfed.figures import drawer
from hopfed.report.tables import tables_of

SMALL = tables.Config(names=("wine",), methods=("one class", "k-means", "nmf"), most=6, seeds=2)


def method(name):
    if name in ("stepmix", "k-modes"):
        pytest.importorskip(
            {"stepmix": "stepmix", "k-modes": "kmodes"}[name], reason="not installed"
        )
    return METHODS[name]


def test_it_repeats_and_is_drawn():
    run = execute(tables, SMALL)
    again = tables.run(SMALL, 1)
    for name in ("classes", "likelihood", "masked", "rand", "bytes_over_bits"):
        np.testing.assert_array_equal(run.arrays[name][1], again[name])
    assert run.summary["tables"] == ["wine"]
    assert {"owners", "masked", "rand", "bytes"} <= set(run.summary)
    assert [len(table.columns) for table in tables_of(run)] == [5] * 5
    figure = drawer("tables")(run)
    figure.canvas.draw()
    assert len(figure.axes) == 3


def test_archetypes_of_wine_say_more_than_columns_do():
    arrays = tables.run(SMALL, 0)
    likelihood = dict(zip(tables.row_names(SMALL), arrays["likelihood"][0], strict=True))
    assert likelihood["hopfed"] > likelihood["one class"] + 0.1
    assert likelihood["hopfed, 5 owners"] == pytest.approx(likelihood["hopfed"], abs=0.02)
    assert np.isnan(likelihood["nmf"])
    assert arrays["rand"][0, 0] > 0.5


@pytest.mark.parametrize("name", METHODS)
def test_every_method_finds_planted_classes_through_gaps(name):
    T, labels, x = classes(3, 40, 800, 5, missing=0.2)
    model = method(name)(x[:600], seed=0, most=6)
    # The package's own starts, which differ from machine to machine, may halve a class.
    sizes = {"one class": (1,), "k-modes": (3, 4)}.get(name, (3,))
    assert model.size in sizes
    asked = (x[600:] != 0) & (np.random.default_rng(0).random((200, 40)) < 0.2)
    right = (model.completed(np.where(asked, 0, x[600:])) >= 0) == (x[600:] > 0)
    truth = Classes.of(T, np.bincount(labels) / 800, 10**6)
    best = ((truth.completed(np.where(asked, 0, x[600:])) >= 0) == (x[600:] > 0))[asked].mean()
    assert right[asked].mean() > best - ({"one class": 0.25, "nmf": 0.04}.get(name, 0.02))
    if name not in ("one class", "nmf"):
        assert model.log_likelihood(x[600:]) == pytest.approx(
            truth.log_likelihood(x[600:]), abs=0.02
        )
        assert len(np.unique(model.labels(x))) in sizes


def test_a_package_that_is_not_installed_is_named(monkeypatch):
    for name in ("stepmix", "kmodes"):
        monkeypatch.setitem(sys.modules, f"{name}.{name}", None)
    for name in ("stepmix", "k-modes"):
        with pytest.raises(HopfedError, match=r"not installed: pip install 'hopfed\[compare\]'"):
            METHODS[name](np.ones((4, 3)), seed=0, most=2)


def test_tables_without_labels_have_no_index_of_agreement():
    config = tables.Config(methods=("k-means",))
    assert tables._by_method(config, np.full((2, 3), np.nan)) == ""
    scores = np.array([[0.5, 0.25, 1.0], [np.nan] * 3])
    found = tables._by_method(config, scores)
    assert found == "hopfed 0.500; hopfed, 5 owners 0.250; k-means 1.000"


def test_a_folder_of_tables_with_labels(tmp_path):
    (tmp_path / "zoo.csv").write_text(
        "name,hair,legs,type\nbear,1,4,mammal\nbee,1,6,insect\nhen,0,2,bird\nowl,0,2,bird\n"
    )
    np.savez(tmp_path / "marks.npz", X=np.eye(4), y=[1, 2, 1, 1])
    found = {t.name: t for t in load_tables(str(tmp_path), ("marks", "zoo"))}
    assert found["zoo"].rows.tolist() == [
        [1, -1, 1, -1], [1, -1, -1, 1], [-1, 1, -1, -1], [-1, 1, -1, -1]
    ]  # hair, and 2, 4 and 6 legs  # fmt: skip
    assert len(set(found["zoo"].labels[[0, 1, 2]])) == 3
    assert found["zoo"].labels[2] == found["zoo"].labels[3]
    assert found["marks"].labels.tolist() == [1, 2, 1, 1]


@pytest.mark.skipif(not (DATA / "tables").is_dir(), reason="tables are not at hand")
def test_the_tables_at_hand_are_read():
    found = {t.name: t for t in load_tables(str(DATA / "tables"), ())}
    assert len(found) == 19
    assert found["votes"].rows.shape == (435, 16)
    assert found["soybean"].labels.max() == 18
    assert 0.04 < (found["ability"].rows == 0).mean() < 0.06


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mushroom.csv", "nltcs.npz", "semeion.npz"])
def test_large_tables_are_described_better_than_by_their_columns(name):
    if not (DATA / "tables" / name).is_file():
        pytest.skip(f"{name} is not at hand; set HOPFED_DATA to its folder")
    table = name.partition(".")[0]
    config = tables.Config(str(DATA / "tables"), (table,), ("one class",), seeds=1)
    arrays = tables.run(config, 0)
    one, several, columns = arrays["likelihood"][0]
    assert one > columns + 0.1
    assert several > columns + 0.1


def test_scikit_learns_own_tables():
    found = load_tables("", ())
    assert [t.name for t in found] == ["breast cancer", "digits", "iris", "wine"]
    for table in found:
        assert set(np.unique(table.rows)) == {-1, 1}
        assert len(table.labels) == len(table.rows)
    with pytest.raises(ArgumentError, match="names must be of breast cancer"):
        load_tables("", ("roses",))


@pytest.mark.parametrize(
    ("bad", "argument"),
    [
        ({"methods": ("magic",)}, "methods"),
        ({"owners": 1}, "owners"),
        ({"held_out": 1.0}, "held_out"),
        ({"masked": 0.0}, "masked"),
        ({"most": 0}, "most"),
    ],
)
def test_bad_settings_name_themselves(bad, argument):
    with pytest.raises(ArgumentError) as error:
        tables.Config(**bad)
    assert argument in str(error.value)
