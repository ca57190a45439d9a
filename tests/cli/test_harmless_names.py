"""Names of columns, and words of others' files, forge no verdict and steer no terminal."""

import numpy as np
from helpers import written

from hopfed import load

FORGED = "ok: 2 classes explain how the columns depend on each other."
NAME = f"a\n\n{FORGED}\x1b[2J\n1,500 examples ("
N = 40


def two_classes(M):
    """Rows (M, N) of bits of two classes; columns p and 16 + p agree more often than these say."""
    rng = np.random.default_rng(0)
    means = 2 * rng.beta(0.7, 0.7, (2, N)) - 1
    x = rng.random((M, N)) < (1 + means[rng.integers(2, size=M)]) / 2
    x[:, 16:24] = np.where(rng.random((M, 8)) < 0.8, x[:, :8], x[:, 16:24])
    return x


def is_harmless(text):
    return "\x1b" not in text and not any(line.startswith("ok:") for line in text.splitlines())


def test_a_name_of_a_column_is_no_line_of_a_verdict(hopfed, tmp_path):
    """Of a table whose columns, of which pairs mostly agree, have names that are verdicts."""
    x = two_classes(1500)
    names = [f"{NAME}{j}" for j in range(N)]
    table = written(tmp_path / "a.csv", names, np.where(x, "yes", "no"))
    run = tmp_path / "x.h5"
    text, errors = hopfed.done("recover", table, "--out", run)
    assert "depend on each other within" in text
    assert "'a\\n\\nok: 2 classes" in text
    found = load(run)
    assert found.columns == tuple(names)  # which the file keeps as they are
    for said in (text, errors, *hopfed.done("show", run), found.summary(), found._repr_html_()):
        assert is_harmless(said)
