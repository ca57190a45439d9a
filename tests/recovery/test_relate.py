"""What archetypes have to do with something else: outcomes, covariates, and their errors."""

import json
from dataclasses import replace

import numpy as np
import pytest
from graded_tables import likeliest, made
from helpers import written

from hopfed import kernels
from hopfed.archetypes.class_sums import Mixture, Prior, e_step, improve
from hopfed.archetypes.session import Owners
from hopfed.errors import ArgumentError, DataError
from hopfed.tables.reading import read_table

SHARES = np.array([0.4, 0.35, 0.25])


def rates_of(right, N=8):
    """Rates (3, N) of classes whose columns are right so often."""
    first = np.arange(N) < N // 2
    return np.where(np.array([np.ones(N), first, np.zeros(N)]) > 0, right, 1 - right)


def drawn(rng, M, right):
    """Rows (M, 8) of +-1, and the class of each."""
    labels = rng.choice(3, M, p=SHARES)
    return np.where(rng.random((M, 8)) < rates_of(right)[labels], 1, -1), labels


def fitted(x, right):
    """Classes fitted from the true ones on, so that they keep their order."""
    session = Owners.over([kernels.pack(x)], 0)
    start = Mixture(2 * rates_of(right) - 1, SHARES[None])
    fit = improve(session, e_step(session, start, Prior.of(session)), 200)
    return made(fit.classes.means, fit.classes.shares[0])


def test_three_steps_are_those_of_stepmix():
    # StepMix 3.0.0, binary, n_steps=3, tolerances 1e-9: BCH with soft, ML with modal assignment.
    rng = np.random.default_rng(5)
    x, labels = drawn(rng, 1000, 0.8)
    z = labels + rng.normal(size=1000) + 2
    c = rng.normal(size=1000) + 0.5 * labels
    found = made(*likeliest(x, 2 * rates_of(0.8) - 1, SHARES))
    means = found.relate(x, z)
    slopes = found.relate(x, covariates={"c": c})
    np.testing.assert_allclose(means.estimates[:, 0], [2.08630306, 3.16067394, 4.05010004], 1e-3)
    np.testing.assert_allclose(
        slopes.estimates[1:], [[-0.379164, 0.413057], [-1.216384, 0.87592]], 2e-3
    )
    assert means.tests["outcome"][1] == slopes.tests["c"][1] == 2
    assert means.tests["outcome"][2] < 1e-20


@pytest.mark.slow
@pytest.mark.parametrize("right", [0.9, 0.8, 0.7])
def test_intervals_hold_what_they_should(right):
    held, covered = [], []
    for seed in range(100):
        rng = np.random.default_rng([seed, 31])
        x, labels = drawn(rng, 1000, right)
        found = fitted(x, right)
        span = found.relate(x, labels - 1 + rng.normal(size=1000)).intervals()[:, 0]
        held.append((span[:, 0] <= [-1, 0, 1]) & (span[:, 1] >= [-1, 0, 1]))
        c = rng.normal(size=1000) + 0.5 * labels  # so that log odds rise by half of the label
        span = found.relate(x, covariates=c).intervals()[1:, 1]
        covered.append((span[:, 0] <= [0.5, 1]) & (span[:, 1] >= [0.5, 1]))
    # Of 300 and 200 intervals, which are not independent, 95% with an error of 1.5%.
    assert 0.91 < np.mean(held) < 0.985
    assert 0.91 < np.mean(covered) < 0.99


def test_rates_of_words_gaps_and_rows_without_an_outcome():
    rng = np.random.default_rng(2)
    x, labels = drawn(rng, 900, 0.95)
    found = fitted(x, 0.95)
    gaps = np.where(rng.random(x.shape) < 0.1, np.nan, x)
    words = np.array(["ash", "elm", "oak"], object)[(labels + (rng.random(900) < 0.25)) % 3]
    words[:100] = None
    words[100] = "NA"
    related = found.relate(gaps, words)
    assert (related.kind, related.names) == ("rate", ("ash", "elm", "oak"))
    assert (related.rows, related.left_out) == (799, 101)
    wanted = np.array([[0.75, 0.25, 0], [0, 0.75, 0.25], [0.25, 0, 0.75]])
    np.testing.assert_allclose(related.estimates, wanted, atol=4.5 * related.errors.max())
    np.testing.assert_allclose(related.estimates.sum(axis=1), 1)
    assert related.tests["outcome"][1] == 4
    two = found.relate(x, np.where((labels > 0) ^ (rng.random(900) < 0.2), "yes", "no"))
    assert two.names == ("yes",)
    np.testing.assert_allclose(two.odds, two.estimates / (1 - two.estimates))
    assert len(dict(two.columns)["odds_error"]) == 3
    assert "rows without an entry are left out" in str(related)


def test_whole_weights_are_rows_that_occur_so_often():
    rng = np.random.default_rng(3)
    x, labels = drawn(rng, 400, 0.85)
    z, often = labels + rng.normal(size=400), rng.integers(0, 4, 400)
    found = fitted(x, 0.85)
    for what, repeated in (
        ({"outcome": z}, {"outcome": np.repeat(z, often)}),
        ({"covariates": {"z": z}}, {"covariates": {"z": np.repeat(z, often)}}),
    ):
        once = found.relate(x, **what, weights=often)
        each = found.relate(np.repeat(x, often, axis=0), **repeated)
        np.testing.assert_allclose(once.estimates, each.estimates, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(once.errors, each.errors, rtol=1e-5, atol=1e-9)
    survey = found.relate(x, z, weights=often + 0.5)  # of a survey: errors do not shrink with them
    again = found.relate(x, z, weights=(often + 0.5) * 10 + 0.01)
    np.testing.assert_allclose(survey.errors, again.errors, rtol=0.02)


def test_a_covariate_that_tells_archetypes_apart_is_refused():
    x, _ = drawn(np.random.default_rng(4), 300, 0.9)
    found = fitted(x, 0.9)
    with pytest.raises(DataError, match="are infinite"):
        found.relate(x, covariates=found.assign(x, alpha=0).archetype)


@pytest.mark.parametrize("weighted", [False, True])
def test_owners_get_what_one_owner_gets(weighted):
    """A list of tables ended in NumPy's ValueError."""
    rng = np.random.default_rng(9)
    x, labels = drawn(rng, 500, 0.85)
    found, at = fitted(x, 0.85), (slice(0, 120), slice(120, 500))
    age = np.where(rng.random(500) < 0.1, np.nan, 30 + labels + rng.normal(size=500))
    town = np.array(["a", "b", "c"])[(labels + rng.choice(3, 500, p=[0.5, 0.3, 0.2])) % 3]
    town[at[0]][town[at[0]] == "c"] = "a"  # a word that only the other owner has
    w = rng.uniform(0.5, 2, 500) if weighted else None
    each = None if w is None else [w[i] for i in at]
    for given in ({"outcome": age}, {"outcome": town}, {"covariates": {"age": age, "town": town}}):
        (name, value), parts = next(iter(given.items())), []
        for i in at:
            own = {k: v[i] for k, v in value.items()} if isinstance(value, dict) else value[i]
            parts.append(own)
        one = found.relate(x, **given, weights=w)
        several = found.relate([x[i] for i in at], **{name: parts}, weights=each)
        np.testing.assert_allclose(several.estimates, one.estimates, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(several.errors, one.errors, rtol=1e-5)
        assert (several.names, several.rows) == (one.names, one.rows)
    for wrong, message in (
        ({"outcome": [age]}, "outcome must be a list of those of 2 owners, got 1"),
        ({"outcome": [age[at[0]], town[at[1]]]}, "numbers at one owner, and words at another"),
        ({"outcome": [age[at[0]], age[at[0]]]}, "outcome must be 380 values"),
        ({"covariates": [{"a": age[at[0]]}, {"b": age[at[1]]}]}, "a at every owner"),
    ):
        with pytest.raises((ArgumentError, DataError), match=message):
            found.relate([x[i] for i in at], **wrong)


def test_the_command(hopfed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(6)
    x, labels = drawn(rng, 300, 0.9)
    age = np.where(rng.random(300) < 0.1, "", np.char.mod("%.1f", 30 + 9 * labels))
    cells = np.c_[np.where(x > 0, "yes", "no"), age, np.array(["a", "b"])[labels // 2]]
    written("t.csv", [*(f"q{j}" for j in range(8)), "age", "town"], cells)
    found = fitted(x, 0.9)
    table = read_table("t.csv", ignore=["age", "town"])
    replace(found, columns=table.columns, coding=table.coding).save("run.h5")
    told = json.loads(hopfed.done("relate", "run.h5", "t.csv", "--column", "age", "--json")[0])
    assert told["left_out"] == (age == "").sum()
    np.testing.assert_allclose(told["table"]["mean"], [30, 39, 48], atol=1.5)
    found.save("bare.h5")  # as of `serve`, which does not know how files are read
    bare = ("relate", "bare.h5", "t.csv", "--column", "age", "--ignore", "town", "--json")
    assert json.loads(hopfed.done(*bare)[0])["table"] == told["table"]
    words = ("--covariate", "town", "--out", "o.csv", "--figure", "o.png")
    said, _ = hopfed.done("relate", "run.h5", "t.csv", *words)
    assert "town=b" in said
    assert (tmp_path / "o.csv").read_text().startswith("archetype,of,log_odds,error,low,high,odds")
    assert (tmp_path / "o.png").stat().st_size > 5_000
    for words, message in (
        (("--column", "agee"), "did you mean 'age'?"),
        (("--column", "q1"), "no column that the archetypes come from"),
        (("--column", "age", "--weights", "town"), "a column of numbers"),
        ((), "given, or --covariate"),
    ):
        assert message in hopfed.refused("relate", "run.h5", "t.csv", *words)
