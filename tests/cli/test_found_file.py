"""Files of a federation, given to `export`, `assign` and `complete` as those of a recovery are."""

import numpy as np
import pytest
from helpers import lines_of, written

from hopfed import load
from hopfed._lib.settings import to_plain
from hopfed.archetypes.run_file import put_into_run
from hopfed.cli.machines.join import _finish
from hopfed.experiments import serve
from hopfed.federation.engines import LocalEngine
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.example_sources import BatchSource
from hopfed.kernels.examples import as_examples
from hopfed.runs import Run, to_json_values
from hopfed.tables.reading import read_table

K, N = 3, 40
NAMES = tuple(f"question {j}" for j in range(N))
rng = np.random.default_rng


@pytest.fixture(scope="module")
def rows():
    """Rows of +-1 (1500, N) of three archetypes, and which each is of."""
    return draw_examples(rademacher(K, N, rng(0)), 1500, 0.8, rng(1))[:2]


def table(path, x, order=range(N)):
    """Write rows as a table of yes and no, with columns in some order."""
    words = {1: "yes", -1: "no", 0: ""}
    cells = [[words[int(row[j])] for j in order] for row in x]
    return written(path, [NAMES[j] for j in order], cells)


def served(path, x, **settings):
    """The run file of `hopfed serve` for three clients, played in this process."""
    config = serve.Config(columns=N, clients=3, **settings)
    owners = BatchSource(tuple(as_examples(part, gaps=True) for part in np.split(x, 3)))
    arrays, _ = serve.measure_round(0, config, 0, None, LocalEngine(), config.make(owners))
    arrays = {name: np.asarray(array)[None, None] for name, array in arrays.items()}
    arrays["seeds"] = np.zeros(1, np.int64)
    run = Run("serve", to_plain(config), arrays, to_json_values(serve.summarise(config, arrays)))
    told = serve.announcement(config, arrays)
    put_into_run(run, told.archetypes(columns=config.names or None)).save(path)
    return told


def agreeing(path, labels):
    """Part of the rows in a file of `assign` whose archetypes divide them as the labels do."""
    got = np.array([int(row[1] or 0) for row in lines_of(path)[1:]])
    return sum(np.bincount(labels[got == k]).max() for k in set(got) - {0}) / len(labels)


@pytest.mark.parametrize("names", [(), NAMES])
def test_the_file_of_a_server_answers(rows, names, hopfed, tmp_path):
    x, labels = rows
    order = range(N)[::-1] if names else range(N)
    assert len(served(tmp_path / "run.h5", x, names=names).patterns) == K
    for name, part in (("rows", x), ("gaps", x * (rng(1).random(x.shape) > 0.1))):
        table(tmp_path / f"{name}.csv", part, order=order)
    for command, given in (("assign", ["rows.csv"]), ("export", []), ("complete", ["gaps.csv"])):
        files = [tmp_path / name for name in given]
        hopfed.done(command, tmp_path / "run.h5", *files, "--out", tmp_path / f"{command}.csv")
    assert agreeing(tmp_path / "assign.csv", labels) > 0.99
    head, *lines = lines_of(tmp_path / "export.csv")
    assert (len(lines), head[2] == NAMES[0]) == (K, bool(names))
    head, *lines = lines_of(tmp_path / "complete.csv")
    whole = np.where(np.array(lines) == "yes", 1, -1)[:, [head.index(name) for name in NAMES]]
    shown = np.array(lines_of(tmp_path / "gaps.csv")[1:])[:, [head.index(n) for n in NAMES]] != ""
    assert (whole == x)[shown].all()
    assert (whole == x)[~shown].mean() > 0.85
    if names:
        page = tmp_path / "rows.html"
        asked = "report", tmp_path / "run.h5", "--rows", tmp_path / "rows.csv", "--out", page
        hopfed.done(*asked)
        assert "3 archetypes, in" in page.read_text()
        assert all(f"<td>{n}</td>" in page.read_text() for n in np.bincount(labels))


@pytest.mark.parametrize("graded", [False, True])
def test_the_file_of_a_client_answers(rows, graded, hopfed, tmp_path):
    x, labels = rows
    own = read_table(str(table(tmp_path / "own.csv", x)))
    told = served(tmp_path / "run.h5", x[:, np.argsort(NAMES)], graded=graded)
    order = np.argsort(np.argsort(NAMES))
    _finish(told.message(), tmp_path / "found.h5", order, NAMES, own.coding)
    assert load(tmp_path / "found.h5").coding == own.coding
    rows_file = table(tmp_path / "rows.csv", x, order=range(N)[::-1])
    given = "assign", tmp_path / "found.h5", rows_file, "--out", tmp_path / "a.csv"
    _, errors = hopfed.done(*given)
    assert ("has no shares of archetypes" in errors) != graded
    assert agreeing(tmp_path / "a.csv", labels) > 0.98
    error = hopfed.refused(*given, "--overwrite", "--ignore", "question 0")
    assert "--ignore must be left out" in error


def test_answers_of_a_poor_fit_say_so(hopfed, tmp_path):
    x = np.where(rng(5).random((1500, N)) < rng(6).random(N), 1, -1)
    served(tmp_path / "run.h5", x)
    rows_file = table(tmp_path / "rows.csv", x)
    _, errors = hopfed.done("assign", tmp_path / "run.h5", rows_file, "--out", tmp_path / "a.csv")
    assert "is a poor fit: The rows of most clients are not noisy copies" in errors
