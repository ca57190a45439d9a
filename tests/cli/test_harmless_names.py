"""Names of columns, and words of others' files, forge no verdict and steer no terminal."""

import numpy as np
from helpers import written

from hopfed import load
from hopfed.cli.machines.join import _finish
from hopfed.hopfield.announcement import Announcement
from hopfed.tables.examples import as_examples

FORGED = "ok: 2 classes explain how the columns depend on each other."
NAME = f"a\n\n{FORGED}\x1b[2J\n1,500 examples ("
N = 40


def two_classes(M, pairs=4, share=0.6):
    """Rows (M, N) of +-1 of two classes, and their means; columns p and 16 + p agree more often
    than their classes say, but not so often that one counts as a copy of the other."""
    rng = np.random.default_rng(0)
    means = 2 * rng.beta(0.7, 0.7, (2, N)) - 1
    x = np.where(rng.random((M, N)) < (1 + means[rng.integers(2, size=M)]) / 2, 1, -1)
    for p in range(pairs):
        x[:, 16 + p] = np.where(rng.random(M) < share, x[:, p], x[:, 16 + p])
    return x.astype(np.int8), means


def is_harmless(text):
    return "\x1b" not in text and not any(line.startswith("ok:") for line in text.splitlines())


def test_a_name_of_a_column_is_no_line_of_a_verdict(hopfed, tmp_path):
    """Of a table whose columns, of which pairs mostly agree, have names that are verdicts."""
    x, _ = two_classes(1500, 8, 0.8)
    names = [f"{NAME}{j}" for j in range(N)]
    table = written(tmp_path / "a.csv", names, np.where(x > 0, "yes", "no"))
    run = tmp_path / "x.h5"
    text, errors = hopfed.done("recover", table, "--out", run)
    assert "depend on each other within" in text
    assert "'a\\n\\nok: 2 classes" in text
    found = load(run)
    assert found.columns == tuple(names)  # which the file keeps as they are
    for said in (text, errors, *hopfed.done("show", run), found.summary(), found._repr_html_()):
        assert is_harmless(said)


def test_names_that_a_server_tells_are_harmless_in_the_file_of_an_owner(tmp_path, capfd):
    x, means = two_classes(1500)
    message = Announcement(np.where(means < 0, -1, 1).astype(np.int8), means).message()
    names = tuple(NAME if j == 18 else f"q{j}" for j in range(N))
    _finish(message, N, tmp_path / "found.h5", slice(None), names, None, as_examples(x))
    advice = load(tmp_path / "found.h5").advice
    assert "'a\\n\\nok: 2 classes" in advice
    assert is_harmless(advice)
    said = capfd.readouterr()
    assert is_harmless(said.out + said.err)
