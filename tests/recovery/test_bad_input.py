"""One table of what is refused, and the words of its error."""

from dataclasses import replace

import numpy as np
import pytest
from graded_tables import made
from helpers import sample

import hopfed
from hopfed.archetypes.patterns import Patterns
from hopfed.errors import ArgumentError, DataError
from hopfed.kernels import pack
from hopfed.recovery.recover import deal_rows
from hopfed.sklearn import ArchetypeMixture

X = np.where(np.random.default_rng(0).random((60, 8)) < 0.5, 1, -1)
GAPS = np.where(np.eye(20) > 0, np.nan, 1.0)
LABELS = np.arange(60) % 3
CHANNEL = "channel must be"


@pytest.mark.parametrize(
    ("x", "how", "message"),
    [
        (X, {"quality": 0}, "quality must be a number in"),
        (X, {"quality": "a"}, "quality must be a number"),
        (X, {"support": "a"}, "support must be a whole number"),
        (X, {"support": 0}, "support must be .* at least 1"),
        (X, {"alpha": "a"}, "alpha must be a number"),
        (sample(2, 20, 30, 0.8, 0)[1], {"seed": -1}, "seed must be"),
        (X, {"blocks": 0}, "blocks must be a whole number"),
        (X, {"patterns": Patterns(), "quality": 0.5}, "patterns must be given without"),
        (X, {"n_archetypes": 0}, "n_archetypes must be a whole number, at least 1"),
        (X, {"n_archetypes": 2.5}, "n_archetypes must be a whole number, at least 1"),
        (X, {"n_archetypes": 61}, "61 archetypes of 60 rows: ask for fewer"),
        (X, {"n_archetypes": 2, "channel": "symmetric"}, "without quality"),
        (X, {"weights": np.full(60, -1)}, "none below 0"),
        (X, {"weights": np.full(60, np.nan)}, "none below 0, got nan in row 1"),
        (X, {"weights": np.eye(60)[0]}, "above zero for two rows"),
        (X, {"weights": np.arange(60) / 7, "channel": "symmetric"}, "whole numbers"),
        (X, {"weights": np.zeros(60)}, "above zero somewhere"),
        (X, {"weights": np.ones(5)}, "60 numbers, one for each row"),
        ([X, X[:, :5]], {}, "same columns"),
        ([], {}, "array or a list"),
        (GAPS, {}, "fewer than two columns"),
        (GAPS, {"quality": 0.5}, "entries are missing, and quality wants none"),
        (GAPS, {"channel": "symmetric"}, "missing, .* leave channel out"),
        (GAPS, {"channel": "grey"}, CHANNEL),
        (GAPS, {"channel": "graded", "patterns": Patterns(method="joint")}, f"{CHANNEL} auto or"),
    ],
)
def test_recover(x, how, message):
    with pytest.raises((ArgumentError, DataError), match=message):
        hopfed.recover(x, **how)


def test_what_stands_beside_it():
    for call, message in (
        (lambda: Patterns(method="magic"), "method must be one of"),
        (lambda: Patterns(groups=2.5), "groups must be a whole number"),
        (lambda: deal_rows(pack(X), 31, seed=0), "clients must be between"),
        (lambda: hopfed.compare(X, [3, 2]), "ascending"),
        (lambda: ArchetypeMixture(threshold="mean").fit(X), "threshold"),
        (lambda: ArchetypeMixture(threshold=np.inf).fit(X), "threshold"),
    ):
        with pytest.raises(ArgumentError, match=message):
            call()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "outcome must be given, or covariates"),
        ({"outcome": np.ones(60)}, "holds a single value"),
        ({"outcome": [None] * 60}, "holds a single value"),
        ({"outcome": np.ones(5)}, "60 values, one for each row"),
        ({"outcome": [f"w{i}" for i in range(60)]}, "at most 50"),
        ({"outcome": LABELS, "weights": np.full(60, -1)}, "none below 0"),
        ({"outcome": LABELS, "weights": np.zeros(60)}, "above zero somewhere"),
        ({"outcome": LABELS, "weights": np.ones(3)}, "60 numbers, one for each row"),
        ({"covariates": np.array([LABELS, 2 * LABELS]).T}, "some are sums of others"),
    ],
)
def test_relate(how, message):
    found = made(np.outer([1, -1], [0.999, *[0.0] * 7]))
    with pytest.raises((ArgumentError, DataError), match=message):
        found.relate(X, **how)
    with pytest.raises(DataError, match="at least two"):
        replace(found, patterns=found.patterns[:1]).relate(X, LABELS)
