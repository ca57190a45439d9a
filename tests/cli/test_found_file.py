"""Files of a federation, given to `export`, `assign` and `complete` as those of a recovery are."""

import numpy as np
import pytest
from helpers import lines_of, written

from hopfed import load
from hopfed._lib.settings import to_plain
from hopfed.archetypes.storage import holding
from hopfed.cli.machines.join import _finish
from hopfed.experiments import serve
from hopfed.federation.engines import LocalEngine
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.stream import Batches
from hopfed.runs import Run, plain
from hopfed.tables.examples import as_examples
from hopfed.tables.reading import read_table

K, N = 3, 40
NAMES = tuple(f"question {j}" for j in range(N))


@pytest.fixture(scope="module")
def rows():
    """Rows of +-1 (1500, N) of three archetypes, and which each is of."""
    rng = np.random.default_rng(0)
    return draw_examples(rademacher(K, N, rng), 1500, 0.8, rng)[:2]


def table(path, x, order=range(N)):
    """Write rows as a table of yes and no, with columns in some order."""
    words = {1: "yes", -1: "no", 0: ""}
    cells = [[words[int(row[j])] for j in order] for row in x]
    return written(path, [NAMES[j] for j in order], cells)


def served(path, x, **settings):
    """The run file of `hopfed serve` for three clients, played in this process."""
    config = serve.Config(columns=N, clients=3, **settings)
    owners = Batches(tuple(as_examples(part, gaps=True) for part in np.split(x, 3)))
    arrays, _ = serve.measure_round(0, config, 0, None, LocalEngine(), config.make(owners))
    arrays = {name: np.asarray(array)[None, None] for name, array in arrays.items()}
    arrays["seeds"] = np.zeros(1, np.int64)
    run = Run("serve", to_plain(config), arrays, plain(serve.summarise(config, arrays)))
    told = serve.announcement(config, arrays)
    holding(run, told.archetypes(columns=config.names or None)).save(path)
    return told


def agreeing(path, labels):
    """Part of the rows in a file of `assign` whose archetypes divide them as the labels do."""
    got = np.array([int(row[1] or 0) for row in lines_of(path)[1:]])
    return sum(np.bincount(labels[got == k]).max() for k in set(got) - {0}) / len(labels)


def sorted_by_name(x):
    return x[:, np.argsort(NAMES)]


@pytest.mark.parametrize("way", ["place", "told names"])
def test_the_file_of_a_server_answers(rows, way, hopfed, tmp_path):
    x, labels = rows
    settings, order = {}, range(N)
    if way == "told names":
        settings, order = {"names": NAMES}, range(N)[::-1]
    told = served(tmp_path / "run.h5", x, **settings)
    assert len(told.patterns) == K
    rows_file = table(tmp_path / "rows.csv", x, order=order)
    _, errors = hopfed.done("assign", tmp_path / "run.h5", rows_file, "--out", tmp_path / "a.csv")
    assert "does not say how many rows" in errors
    assert agreeing(tmp_path / "a.csv", labels) > 0.99
    status, _, errors = hopfed("export", tmp_path / "run.h5", "--out", tmp_path / "e.csv")
    head, *lines = lines_of(tmp_path / "e.csv")
    assert (status, len(lines)) == (0, K), errors
    assert (head[2] == NAMES[0]) == (way == "told names")
    gaps = x * (np.random.default_rng(1).random(x.shape) > 0.1)
    rows_file = table(tmp_path / "gaps.csv", gaps, order=order)
    hopfed.done("complete", tmp_path / "run.h5", rows_file, "--out", tmp_path / "w.csv")
    head, *lines = lines_of(tmp_path / "w.csv")
    whole = np.where(np.array(lines) == "yes", 1, -1)[:, [head.index(name) for name in NAMES]]
    assert (whole == x)[gaps != 0].all()
    assert (whole == x)[gaps == 0].mean() > 0.85


def test_the_page_of_a_server_opens_with_the_archetypes(rows, hopfed, tmp_path):
    x, labels = rows
    served(tmp_path / "run.h5", x, names=NAMES)
    rows_file = table(tmp_path / "rows.csv", x, order=range(N)[::-1])
    asked = "report", tmp_path / "run.h5", "--rows", rows_file, "--out", tmp_path / "rows.html"
    hopfed.done(*asked)
    page = (tmp_path / "rows.html").read_text()
    assert "3 archetypes, in" in page
    for k in range(K):
        assert f"<td>{np.bincount(labels)[k]}</td>" in page


@pytest.mark.parametrize("graded", [False, True])
def test_the_file_of_a_client_answers(rows, graded, hopfed, tmp_path):
    x, labels = rows
    own = read_table(str(table(tmp_path / "own.csv", x)))
    settings = {"graded": True} if graded else {}
    told = served(tmp_path / "run.h5", sorted_by_name(x), **settings)
    assert len(told.patterns) == K
    order = np.argsort(np.argsort(NAMES))
    _finish(told.message(), N, tmp_path / "found.h5", order, NAMES, own.coding)
    assert load(tmp_path / "found.h5").coding == own.coding
    rows_file = table(tmp_path / "rows.csv", x, order=range(N)[::-1])
    given = "assign", tmp_path / "found.h5", rows_file, "--out", tmp_path / "a.csv"
    _, errors = hopfed.done(*given)
    assert ("does not say how many rows" in errors) != graded
    assert agreeing(tmp_path / "a.csv", labels) > 0.98
    error = hopfed.refused(*given, "--overwrite", "--ignore", "question 0")
    assert "--ignore must be left out" in error
    assert hopfed("export", tmp_path / "found.h5", "--out", tmp_path / "e.csv")[0] == 0
    assert lines_of(tmp_path / "e.csv")[0][2:] == list(NAMES)


def test_answers_of_a_poor_fit_say_so(hopfed, tmp_path):
    rng = np.random.default_rng(5)
    x = np.where(rng.random((1500, N)) < rng.random(N), 1, -1)
    served(tmp_path / "run.h5", x)
    rows_file = table(tmp_path / "rows.csv", x)
    _, errors = hopfed.done("assign", tmp_path / "run.h5", rows_file, "--out", tmp_path / "a.csv")
    assert "is a poor fit: The rows of most clients are not noisy copies" in errors
