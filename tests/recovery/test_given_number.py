"""A number of archetypes that is given, tables of such numbers, weights, rows that are drawn."""

import json
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from graded_tables import likeliest
from helpers import written
from scipy.optimize import linear_sum_assignment

import hopfed
from hopfed import kernels
from hopfed.cli.recover import print_recovery
from hopfed.federation.engines import LocalEngine
from hopfed.federation.rounds import play_round
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.class_channel import Classes
from hopfed.hopfield.example_sources import BatchSource
from hopfed.recovery.compare import _drawn
from hopfed.recovery.recover import run_recovery
from hopfed.sklearn import ArchetypeMixture


def planted(seed, K=3, N=12, M=600):
    """Rows (M, N) of 0 and 1, their rates (K, N), and the class of each."""
    rng = np.random.default_rng(seed)
    rates, labels = rng.beta(0.6, 0.6, (K, N)), rng.choice(K, M, p=rng.dirichlet(np.full(K, 9.0)))
    return (rng.random((M, N)) < rates[labels]).astype(float), rates, labels


def matched(means, others):
    """Means in the order in which they fit others."""
    apart = np.abs(means[:, None] - others[None]).sum(axis=2)
    return means[linear_sum_assignment(apart.T)[1]]


@cache
def found_as(number):
    return hopfed.recover(planted(5)[0], n_archetypes=number)


def test_classes_of_the_number_asked_for_are_those_that_labels_give():
    x, _, labels = planted(5)
    found = found_as(3)
    known = np.array([2 * x[labels == k].mean(axis=0) - 1 for k in range(3)])
    assert (len(found), found.status) == (3, "ok")
    assert np.abs(matched(found.means, known) - known).mean() < 0.08


def test_the_verdict_still_says_what_the_rows_think_of_it():
    found = found_as(2)
    assert len(found) == 2
    assert found.status in {"structure, but not classes", "incomplete"}


def test_a_number_that_was_given_is_not_called_decided_by_the_rows(capsys):
    recovery = run_recovery(planted(5)[0], n_archetypes=4)
    for made, said in ((recovery, False), (replace(recovery, likeliest=None), True)):
        print_recovery(made, 0.0)
        assert ("the likelihood decides that" in capsys.readouterr().out) == said


def test_a_table_of_patterns_with_counts_is_the_table_of_repeated_rows():
    x = planted(7, 2, 8, 1200)[0]
    kinds, counts = np.unique(x, axis=0, return_counts=True)
    often = hopfed.recover(kinds, weights=counts, seed=3)
    one_by_one = hopfed.recover(np.repeat(kinds, counts, axis=0), seed=3)
    np.testing.assert_array_equal(often.means, one_by_one.means)
    assert often.status == hopfed.recover(x, seed=3).status
    assert often.status == "ok"
    model = ArchetypeMixture(n_archetypes=2).fit(kinds, sample_weight=counts)
    np.testing.assert_allclose(np.sort(model.archetypes_.shares), np.sort(often.shares), atol=0.02)


def highest(x, K):
    """Log-likelihood of the best of several plain searches by expectation maximisation."""
    rng = np.random.default_rng(0)
    starts = [rng.uniform(-0.8, 0.8, (K, x.shape[1])) for _ in range(6)]
    fits = [likeliest(x, means, np.full(K, 1 / K)) for means in starts]
    return max(np.log(np.prod((1 + x[:, None] * T) / 2, axis=2) @ s).sum() for T, s in fits)


def test_numbers_beside_each_other(tmp_path, monkeypatch):
    x = planted(11, 2, 6, 250)[0]
    compared = hopfed.compare(x, range(1, 3))
    table, M = compared.table, len(x)
    for i, K in enumerate((1, 2)):  # to the rounding of single precision, or better
        assert table["log_likelihood"][i] >= highest(2 * x - 1, K) - 0.02
    assert table["parameters"].tolist() == [6, 13]
    np.testing.assert_allclose(
        table["BIC"], table["parameters"] * np.log(M) - 2 * table["log_likelihood"]
    )
    np.testing.assert_allclose(table["AIC"] + 2 * table["log_likelihood"], [12, 26])
    assert table["entropy"][0] == 1
    assert (np.diff(table["smallest"]) < 0).all()
    assert f"hopfed takes {len(compared.taken)}" in compared.sentences()[0]
    monkeypatch.setitem(sys.modules, "pandas", None)  # which not everybody has
    assert str(compared).startswith("archetypes, log_likelihood, parameters, BIC")
    compared.to_csv(tmp_path / "compared.csv")
    assert len((tmp_path / "compared.csv").read_text().splitlines()) == 3
    compared.plot(tmp_path / "compared.png")
    assert (tmp_path / "compared.png").stat().st_size > 10_000


def test_fewer_than_a_number_that_is_ok_are_called_too_few():
    """Two of three kinds were called no classes, beside three that are ok."""
    said = hopfed.compare(planted(5)[0], [2, 3]).statuses
    assert said in {("too few", "ok"), ("incomplete", "ok")}
    assert hopfed.compare(planted(5)[0], [2]).statuses == (found_as(2).status,)


@pytest.mark.slow
def test_a_bootstrap_tells_the_number():
    compared = hopfed.compare(planted(12, 2, 8, 300)[0], range(1, 4), bootstrap=19)
    nothing, second, third = compared.table["p_value"]
    assert np.isnan(nothing)
    assert second == pytest.approx(1 / 20)
    assert third > 0.05


def test_rows_are_drawn_from_the_archetypes():
    found = found_as(3)
    rows, labels = found.sample(20_000, seed=2)
    assert rows.dtype == np.int8
    for k in range(3):
        np.testing.assert_allclose(rows[labels == k].mean(axis=0), found.means[k], atol=0.05)
    np.testing.assert_allclose(np.bincount(labels) / 20_000, found.shares, atol=0.02)


def test_drawn_rows_have_one_level_of_a_variable_and_copies_follow():
    rng = np.random.default_rng(3)
    x, _, labels = planted(13, 2, 8)
    level = np.eye(3)[(labels + (rng.random(len(x)) < 0.3) + rng.integers(0, 2, len(x))) % 3]
    found = hopfed.recover(np.hstack([x, level, 1 - x[:, :1]]), seed=1)
    rows, _ = found.sample(500)
    gaps = np.where(rng.random((len(x), 12)) < 0.2, 0, 1)
    drawn = kernels.unpack(_drawn(kernels.pack_masked(gaps, gaps == 0), found, 1))
    np.testing.assert_array_equal(drawn != 0, gaps != 0)
    both = (drawn[:, 0] != 0) & (drawn[:, 11] != 0)
    np.testing.assert_array_equal(drawn[both, 11], -drawn[both, 0])
    assert ((rows[:, 8:11] > 0).sum(axis=1) == 1).all()
    np.testing.assert_array_equal(rows[:, 11], -rows[:, 0])


def test_the_command(hopfed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("t.npy", planted(5, M=150, N=8)[0])
    said, _ = hopfed.done("recover", "t.npy", "--archetypes", 2, "--json")
    assert len(json.loads(said)["exposures"]) == 2
    said, _ = hopfed.done("recover", "t.npy", "--compare", "2:2", "--out", "c.csv")
    assert "BIC is lowest at" in said
    assert (tmp_path / "c.csv").read_text().startswith("archetypes,log_likelihood,parameters,BIC")
    for words, message in (
        (("--compare", "3:2"), "first:last"),
        (("--bootstrap", 3), "given with --compare"),
        (("--compare", "1:2", "--archetypes", 2), "left out beside --compare"),
        (("--compare", "1:2", "--support", 9), "left out beside --compare"),
        (("--compare", "1:2", "--out", "c.h5"), "a table with --compare"),
    ):
        assert message in hopfed.refused("recover", "t.npy", *words)


def test_a_column_of_weights_is_no_feature(hopfed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = planted(7, 2, 8, 250)[0].astype(int)
    kinds, counts = np.unique(x, axis=0, return_counts=True)
    names = [f"q{j}" for j in range(8)]
    written("kinds.csv", [*names, "n"], np.c_[kinds, counts])
    written("rows.csv", names, np.repeat(kinds, counts, axis=0))
    weights = np.random.default_rng(1).uniform(0.2, 3, 250).round(3)
    written("survey.csv", [*names, "w"], ([*row, w] for row, w in zip(x, weights, strict=True)))
    written("bad.csv", [*names, "w"], ([*row, ""] for row in x))
    found = {}
    for name, column in (("kinds", "n"), ("survey", "w")):
        words = f"{name}.csv --json --overwrite --out run.h5 --weights {column}"
        found[name] = json.loads(hopfed.done("recover", *words.split())[0])
    assert found["kinds"]["bytes_raw"] == [250]
    effective = weights.sum() ** 2 / (weights**2).sum()
    said = f"250 rows tell as much as {effective:.0f} of equal weight"
    assert said in found["survey"]["advice"]
    hopfed.done("assign", "run.h5", "survey.csv", "--out", "who.csv")
    hopfed.done("relate", "run.h5", "survey.csv", "--column", "w", "--weights", "w")
    for words, message in (
        ("bad.csv --weights w", "weights must be numbers, none below 0, got nan in row 1"),
        ("rows.csv --weights w", "w"),
        ("kinds.csv --weights n --archetypes 251", "251 archetypes of 250 rows"),
    ):
        assert message in hopfed.refused("recover", *words.split())


def test_a_federation_takes_the_number_and_the_weights(hopfed, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    x = planted(5)[0]
    owners = BatchSource((kernels.pack(x[:300]), kernels.pack(x[300:])))
    for number in (2, 4):
        method = HopfieldFederation(owners, Classes(12, number=number))
        played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
        assert played.server_metrics["classes"] == number
    kinds, counts = np.unique(x[:, :8].astype(int), axis=0, return_counts=True)
    for unit, words in ((1, "600"), (7, "Sums of --weights and of --outcome leave, too")):
        path = written(tmp_path / "k.csv", [*"abcdefgh", "n"], np.c_[kinds, counts / unit])
        join = "join", "--data", path, "--trust-server", "--dry-run", "--weights", "n"
        assert words in hopfed.done(*join)[0]


def test_survey_weights_say_nothing_by_their_scale():
    x = planted(5)[0]
    equal = hopfed.recover(x, weights=np.full(600, 0.3))
    np.testing.assert_array_equal(equal.means, hopfed.recover(x).means)
    weights = np.random.default_rng(1).uniform(0.5, 2, 600)
    one, other = (hopfed.recover(x, weights=w, n_archetypes=3) for w in (weights, 7 * weights))
    np.testing.assert_allclose(one.means, other.means, atol=1e-6)
    owners = hopfed.recover([x[:250], x[250:]], weights=[weights[:250], weights[250:]])
    np.testing.assert_allclose(matched(owners.means, one.means), one.means, atol=0.05)


def test_a_survey_is_weighed_back_to_its_population():
    rng = np.random.default_rng(8)
    rates = np.where(rng.random((2, 12)) < 0.5, 0.85, 0.2)
    rates[1] = 1.05 - rates[0]
    labels = (rng.random(30_000) < 0.3).astype(int)
    chance = np.array([0.02, 0.1])[labels] * rng.choice([0.3, 1.0, 2.0], 30_000)
    drawn = rng.random(30_000) < chance  # two in three of the sample are of the smaller class
    x = (rng.random((drawn.sum(), 12)) < rates[labels[drawn]]).astype(float)
    found = hopfed.recover(x, weights=1 / chance[drawn], n_archetypes=2)
    assert found.status == "ok"
    np.testing.assert_allclose(found.shares, [0.7, 0.3], atol=0.04)
    off = (matched(found.means, 2 * rates - 1) - (2 * rates - 1)) / found.errors
    assert 0.6 < np.sqrt((off**2).mean()) < 1.5  # of 24 normal deviates, 0.7 to 1.3 with 95%
