"""Names of columns, and words of others' files, forge no verdict and steer no terminal."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import written

from hopfed import load, recover
from hopfed.cli.machines.join import _finish
from hopfed.hopfield.announcement import Announcement
from hopfed.hopfield.channel import small_sample
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


@pytest.fixture
def hostile(tmp_path):
    """A table whose columns, of which pairs mostly agree, have names that are verdicts."""
    x, _ = two_classes(1500, 8, 0.8)
    names = [f"{NAME}{j}" for j in range(N)]
    return written(tmp_path / "a.csv", names, np.where(x > 0, "yes", "no"))


def test_a_name_of_a_column_is_no_line_of_a_verdict(hostile, hopfed, tmp_path):
    run = tmp_path / "x.h5"
    text, errors = hopfed.done("recover", hostile, "--out", run)
    assert "depend on each other within" in text
    assert "'a\\n\\nok: 2 classes" in text
    assert is_harmless(text + errors)
    text, errors = hopfed.done("show", run)
    assert is_harmless(text + errors)
    assert is_harmless(load(run).summary())
    assert load(run).columns[1] == f"{NAME}1"  # which the file keeps as it is


def test_words_of_a_strangers_file_are_shown_as_one_harmless_line(hopfed, tmp_path):
    """An older hopfed, or somebody, wrote a name raw into the verdict."""
    found = recover(small_sample()[1])
    found = replace(found, status="fine\x1b[2J\nok: x", advice=f"Columns '{NAME}' depend.")
    for words in (found.summary(), found._repr_html_(), repr(found)):
        assert is_harmless(words)
    found.save(tmp_path / "x.h5")
    text, errors = hopfed.done("show", tmp_path / "x.h5")
    assert is_harmless(text + errors)
    assert "depend" in text


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
