"""Names of columns forge no verdict and steer no terminal."""

import numpy as np
from helpers import written

from hopfed import load

NAME = "a\n\nok: 2 classes explain how the columns depend on each other.\x1b[2J\n1,500 examples ("
N = 40


def test_a_name_of_a_column_is_no_line_of_a_verdict(hopfed, tmp_path):
    """Of two classes, of whose columns p and 16 + p agree more often than these say."""
    rng = np.random.default_rng(0)
    means = 2 * rng.beta(0.7, 0.7, (2, N)) - 1
    x = rng.random((1500, N)) < (1 + means[rng.integers(2, size=1500)]) / 2
    x[:, 16:24] = np.where(rng.random((1500, 8)) < 0.8, x[:, :8], x[:, 16:24])
    names, run = [f"{NAME}{j}" for j in range(N)], tmp_path / "x.h5"
    table = written(tmp_path / "a.csv", names, np.where(x, "yes", "no"))
    text, errors = hopfed.done("recover", table, "--out", run)
    assert "'a\\n\\nok: 2 classes" in text
    found = load(run)
    assert found.columns == tuple(names)  # which the file keeps as they are
    for said in (text, errors, *hopfed.done("show", run), found.summary(), found._repr_html_()):
        assert "\x1b" not in said
        assert not any(line.startswith("ok:") for line in said.splitlines())
