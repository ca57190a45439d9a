"""Classes that a federation told, judged by the rows of all clients, or of one owner."""

from dataclasses import replace

import numpy as np
import pytest
from federations import announced
from helpers import rest_slow

import hopfed
from hopfed.archetypes.storage import load
from hopfed.cli.machines.join import _finish
from hopfed.experiments import serve
from hopfed.hopfield.announcement import ALONE, FEWER, Announcement, read
from hopfed.hopfield.stream import Batches
from hopfed.hopfield.verdict import own_verdict
from hopfed.kernels import pack_masked
from hopfed.tables.examples import as_examples

N = 30


def rng(seed):
    return np.random.default_rng([seed, 41])


def told(seed, K=3):
    """Means of classes, and the same with the noise of a federation."""
    means = 2 * rng(seed).beta(0.7, 0.7, (K, N)) - 1
    return means, means + rng(seed + 1).normal(0, 0.05, means.shape)


def of_classes(means, shares, M, seed):
    r = rng(seed)
    kinds = r.choice(len(means), M, p=shares)
    return np.where(r.random((M, N)) < (1 + means[kinds]) / 2, 1, -1).astype(np.int8)


def of_a_trait(M, seed):
    r = rng(seed)
    level = r.normal(0, 1.5, (M, 1)) - r.normal(0, 1, N)
    return np.where(r.random((M, N)) < 1 / (1 + np.exp(-level)), 1, -1).astype(np.int8)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(
    ("shares", "status", "words"),
    [
        ((0.4, 0.35, 0.25), "ok", "3 classes explain"),
        ((0.5, 0.5, 0.0), "ok", "2 classes explain"),  # the third is at other owners
        ((1.0, 0.0, 0.0), "one class", "independent"),
    ],
)
def test_rows_of_classes_lie_in_those_told(shares, status, words, gaps):
    means, noisy = told(1)
    x = of_classes(means, shares, 800, 2)
    if gaps:
        x[rng(3).random(x.shape) < 0.2] = 0
    found = own_verdict(pack_masked(x) if gaps else as_examples(x), noisy)
    assert found[0] == status
    assert words in found[1]


def test_a_trait_told_as_two_classes_is_none():
    x = of_a_trait(800, 5)
    high = x.sum(axis=1) > np.median(x.sum(axis=1))
    halves = np.array([x[high].mean(0), x[~high].mean(0)])
    assert own_verdict(as_examples(x), halves)[0] == "structure, but not classes"


@pytest.mark.parametrize("kind", rest_slow(["one class", "a trait", "classes"], 1))
def test_a_server_says_what_all_rows_together_would(kind):
    """Columns are few enough for a trait to be fitted, rows too few at each client."""
    shares = (1.0, 0.0, 0.0) if kind == "one class" else (0.4, 0.35, 0.25)
    x = of_a_trait(600, 5) if kind == "a trait" else of_classes(told(1)[0], shares, 600, 2)
    x[rng(3).random(x.shape) < 0.05] = 0
    owners = tuple(as_examples(part, gaps=True) for part in np.array_split(x, 4))
    config = serve.Config(columns=N, clients=4, graded=True)
    served, _ = announced(config, Batches(owners))
    found = hopfed.recover(np.where(x == 0, np.nan, x), channel="graded")
    assert read(served.message(), N).verdict[0] == found.status


def test_more_classes_than_anyone_has_are_not_judged():
    x = as_examples(of_a_trait(50, 1))
    assert own_verdict(x, np.zeros((0, N))) is None
    status, advice = own_verdict(x, np.zeros((101, N)))
    assert status == "not judged"
    assert "101 classes and 50 rows of 30 columns are too much to look at" in advice


def test_a_federation_with_the_verdict_of_an_owner_is_never_ok():
    plain = Announcement.of_classes(np.zeros((2, N)), np.full(2, 0.5))
    for own, status, words in (
        (
            ("ok", "2 classes explain."),
            "not judged",
            "On the rows of this owner: 2 classes explain.",
        ),
        (("one class", "x"), "not judged", ALONE),
        (("copies", "Rows occur twice."), "copies", f"this owner: Rows occur twice. {FEWER}"),
    ):
        told_ = replace(plain, own=own)
        assert told_.verdict[0] == status
        assert told_.verdict[1].endswith(words)
        assert set(told_.message()) == set(plain.message())  # it stays here


def test_join_says_how_classes_fit_the_file_and_keeps_it(tmp_path, capfd):
    """Columns come in the order of the federation."""
    means, noisy = told(11)
    x = of_classes(means, (0.4, 0.3, 0.3), 900, 12)
    order = np.argsort(np.argsort(rng(13).permutation(N)))
    sent = np.empty_like(noisy)
    sent[:, order] = np.clip(noisy, -1, 1)  # column order[j] of the federation is j of the file
    message = Announcement(np.where(sent < 0, -1, 1).astype(np.int8), sent).message()
    names = tuple(f"c{j}" for j in range(N))
    _finish(message, N, tmp_path / "found.h5", order, names, None, as_examples(x))
    said = capfd.readouterr()
    assert "nothing of it leaves" in said.out + said.err
    found = load(tmp_path / "found.h5")
    assert found.status == "not judged"
    assert "3 classes explain how the columns depend on each other" in found.advice
    np.testing.assert_allclose(found.graded_means, np.clip(noisy, -1, 1))
