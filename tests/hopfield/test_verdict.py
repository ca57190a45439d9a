"""Verdicts of federations: by the rows of all clients or of one owner, and as they are told."""

from dataclasses import replace

import numpy as np
import pytest
from federations import announced
from helpers import rest_slow

import hopfed
from hopfed import kernels
from hopfed.archetypes.run_file import load
from hopfed.cli.machines.join import _finish
from hopfed.errors import DataError
from hopfed.experiments import serve
from hopfed.hopfield.announcement import ALONE, FEWER, Announcement, read
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.class_verdict import own_verdict
from hopfed.hopfield.example_sources import BatchSource
from hopfed.hopfield.operator_evidence import misfit
from hopfed.kernels import pack_masked
from hopfed.kernels.examples import as_examples
from hopfed.spectral.operators import DenseOperator

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


@pytest.mark.parametrize(
    ("shares", "status", "words"),
    [
        ((0.4, 0.35, 0.25), "ok", "3 classes explain"),
        ((0.5, 0.5, 0.0), "ok", "2 of the 3 archetypes are here. 2 classes explain"),
        ((1.0, 0.0, 0.0), "one class", "independent"),
    ],
)
def test_rows_of_classes_lie_in_those_told(shares, status, words):
    means, noisy = told(1)
    x = of_classes(means, shares, 800, 2)
    x[rng(3).random(x.shape) < 0.2] = 0
    found = own_verdict(pack_masked(x), noisy)
    assert found[0] == status
    assert words in found[1]
    status, advice = own_verdict(pack_masked(x), noisy, kept=0.0)  # these are all rows
    number = np.count_nonzero(shares)
    assert (status == "ok") == (number == 3)
    assert f"show {number} of these 3" in advice or number == 3


MIXES = ((0.45, 0.3, 0.25), (0.3, 0.4, 0.3), (0.4, 0.25, 0.35))
EVEN = ((0.4, 0.3, 0.3),) * 3


@pytest.mark.parametrize(
    ("mixes", "rounds", "share", "status"),
    [
        (MIXES, 1, -1.0, "ok"),
        (MIXES, 2, -1.0, "ok"),
        (EVEN, 1, 0.1, "ok"),
        (MIXES, 1, 0.1, "poor fit"),
        (MIXES, 2, 0.1, "poor fit"),
    ],
)
def test_owners_of_different_mixes_are_right_unless_extremes_of_sums_are_left_out(
    mixes, rounds, share, status
):
    r, sizes = rng(7), np.array([300, 800, 1300])
    means = 2 * r.choice([0.12, 0.3, 0.7, 0.88], (3, N)) - 1
    tables = [of_classes(means, mixes[c], sizes[c], c) for c in range(3)]
    tables = [np.where(r.random(x.shape) < 0.1, 0, x) for x in tables]
    owners = BatchSource(tuple(as_examples(x, gaps=True) for x in tables), rounds)
    config = serve.Config(columns=N, graded=True, rounds=rounds, byzantine=share)
    found = announced(config, owners)[0]
    assert found.verdict[0] == status
    assert ("--byzantine 0" in found.verdict[1]) == (status == "poor fit")
    own = {} if share == -1 else {"byzantine": share}
    played = hopfed.simulate(tables, rounds, channel="graded", discount=1.0, claim=3.0, **own)
    assert played.verdict[0] == status
    if status == "ok":
        assert found.verdict[1].startswith("3 classes explain")
        nearest = ((means[:, None] - found.means) ** 2).sum(axis=2).argmin(axis=1)
        assert (len(found.means), sorted(nearest)) == (3, [0, 1, 2])
        true = sizes @ np.array(mixes) / sizes.sum()
        error = np.sqrt(true * (1 - true) / sizes.sum())
        assert np.abs(found.shares[nearest] - true).max() < 3.5 * error.max()


@pytest.mark.parametrize("kind", rest_slow(["one class", "a trait", "classes"], 1))
def test_a_server_says_what_all_rows_together_would(kind):
    """Columns are few enough for a trait to be fitted, rows too few at each client."""
    shares = (1.0, 0.0, 0.0) if kind == "one class" else (0.4, 0.35, 0.25)
    x = of_a_trait(600, 5) if kind == "a trait" else of_classes(told(1)[0], shares, 600, 2)
    x[rng(3).random(x.shape) < 0.05] = 0
    owners = tuple(as_examples(part, gaps=True) for part in np.array_split(x, 4))
    config = serve.Config(columns=N, clients=4, graded=True)
    served, _ = announced(config, BatchSource(owners))
    found = hopfed.recover(np.where(x == 0, np.nan, x))
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
        (("ok", "2 explain."), "not judged", "On the rows of this owner: 2 explain."),
        (("one class", "x"), "not judged", ALONE),
        (("copies", "Rows occur twice."), "copies", f"this owner: Rows occur twice. {FEWER}"),
    ):
        told_ = replace(plain, own=own)
        assert told_.verdict[0] == status
        assert told_.verdict[1].endswith(words)
        assert set(told_.message()) == set(plain.message())  # it stays here


def test_join_says_how_classes_fit_the_file_and_keeps_it(tmp_path, capfd):
    means, noisy = told(11)
    x = of_classes(means, (0.4, 0.3, 0.3), 900, 12)
    order = np.argsort(np.argsort(rng(13).permutation(N)))
    sent = np.empty_like(noisy)
    sent[:, order] = np.clip(noisy, -1, 1)  # column order[j] of the federation is j of the file
    message = Announcement(np.where(sent < 0, -1, 1).astype(np.int8), sent).message()
    names = tuple(f"c{j}" for j in range(N))
    _finish(message, tmp_path / "found.h5", order, names, None, as_examples(x))
    said = capfd.readouterr()
    assert "the result stays here" in said.out + said.err
    found = load(tmp_path / "found.h5")
    assert found.status == "not judged"
    assert "3 classes explain how the columns depend on each other" in found.advice
    np.testing.assert_allclose(found.graded_means, np.clip(noisy, -1, 1))


M = 3_600


def rates(rng, R, M=M):
    shares = np.array([0.5, 0.3, 0.2])[: len(R)]
    z = rng.choice(len(R), M, p=shares / shares.sum())
    return np.where(rng.random((M, R.shape[1])) < R[z], 1, -1)


def of_kind(kind, N, rng):
    if kind == "classes of any rates":
        return rates(rng, rng.random((3, N)))
    if kind == "columns of any rates":
        return rates(rng, rng.random((1, N)))
    if kind == "archetypes and a category":
        x = draw_examples(rademacher(3, N, rng), M, 0.7, rng)[0]
        level = np.where(np.arange(4) == rng.integers(4, size=(M, 1)), 1, -1)
        return np.hstack([x[:, : N - 4], level])
    return draw_examples(rademacher(3, N, rng), M, 0.7, rng)[0]


def served(x, clients=3, lie=None, **settings):
    """What a federation at its defaults tells."""
    parts = [part.astype(np.int8) for part in np.array_split(x, clients)]
    parts = parts if lie is None else [*parts[1:], lie]
    config = serve.Config(columns=x.shape[1], clients=len(parts), **settings)
    return announced(config, BatchSource(tuple(map(kernels.pack, parts))))[0]


OTHERS = ("classes of any rates", "columns of any rates", "archetypes and a category")
CASES = [(kind, 13, {}) for kind in OTHERS] + [(OTHERS[0], 20, {"epsilon": 4.0})]
CASES += [(kind, 60, {}) for kind in OTHERS]


@pytest.mark.parametrize(("kind", "N", "settings"), rest_slow(CASES, 5))
def test_tables_of_another_kind_are_a_poor_fit(kind, N, settings):
    told = served(of_kind(kind, N, np.random.default_rng(100)), **settings)
    assert told.verdict[0] == "poor fit"
    found = read(told.message(), N).archetypes()
    assert (found.status, found.signs_only) == ("poor fit", len(found) > 0)
    assert "serve --graded" in found.advice


@pytest.mark.parametrize("N", [13, 60])
def test_archetypes_are_no_poor_fit(N):
    x = of_kind("archetypes", N, np.random.default_rng(100))
    for settings, status in (({}, "ok"), ({"epsilon": 4.0}, "not judged")):
        told = served(x, **settings)  # noise hides what would speak against them
        assert len(told.patterns) == 3
        assert read(told.message(), N).archetypes().status == status


@pytest.mark.parametrize("graded", [False, True])
def test_with_noise_it_is_said_what_that_hides(graded):
    """And no number of examples that would do without it, nor of rows of other rounds."""
    x = of_kind("classes of any rates" if graded else "archetypes", 40, np.random.default_rng(0))
    parts = np.array_split(x[:600], 3)
    owners = BatchSource(tuple(map(as_examples, parts)))
    config = serve.Config(columns=40, clients=3, graded=graded, epsilon=4.0)
    told, arrays = announced(config, owners)
    status, words = "detected, not resolved", "More examples, or less noise that hides rows"
    if graded:
        status, words = "not judged", "Noise of epsilon 4 on rounds of 600 rows may hide classes"
    assert told.verdict[0] == status
    assert words in told.verdict[1]
    assert "About" not in told.verdict[1]
    about = serve.summarise(config, arrays)
    assert np.isfinite(list(about.values())).all()
    assert ("examples_last" in about, "examples" in about) == (graded, not graded)
    if graded:
        played = hopfed.simulate(parts, channel="graded", epsilon=4.0)
        assert played.verdict[0] not in ("ok", "one class")
        assert words in played.verdict[1]


def test_one_that_lies_decides_nothing():
    rng = np.random.default_rng(3)
    x = of_kind("archetypes", 40, rng)
    told = served(x, clients=4, lie=rates(rng, rng.random((3, 40)), 900).astype(np.int8))
    assert (len(told.patterns), told.verdict[0]) == (3, "incomplete")  # what one alone shows


def test_an_archetype_that_is_missing_shows():
    rng = np.random.default_rng(4)
    xi = rademacher(4, 2_500, rng)  # more columns than are looked at
    x = draw_examples(xi, 800, 0.6, rng)[0]
    operator = DenseOperator.from_examples(x)
    assert misfit(operator, xi, x.mean(axis=0)) < 0.9
    assert misfit(operator, xi[:3], x.mean(axis=0)) > 1.5
    assert misfit(operator, np.vstack([xi, xi[:1]]), x.mean(axis=0)) < 0.9  # one of them twice


def sent():
    xi = rademacher(3, 60, np.random.default_rng(0))
    means, shares = np.full((3, 60), 0.5, np.float32) * xi, np.array([0.5, 0.3, 0.2])
    return Announcement(xi, means, shares, 0.6, ("ok", "3 classes\x1b[2J.")).message()


def test_what_is_told_is_what_is_read():
    told = read(sent(), 60)
    np.testing.assert_array_equal(told.patterns, np.sign(told.means))
    np.testing.assert_allclose(told.shares, [0.5, 0.3, 0.2], rtol=1e-6)
    assert round(told.quality, 6) == 0.6
    found = told.archetypes()
    assert (found.channel, round(found.quality, 6)) == ("graded", 0.5)
    assert found.status == "ok"
    assert found.advice.isprintable()


WRONG = {
    "shares": ([0.5, 0.3], [0.5, 0.3, -0.1], [0.9, 0.9, 0.9], [0.5, 0.3, np.nan]),
    "quality": (np.float32(np.inf), [0.5, 0.5], 1),
    "means": (np.full((3, 60), 2.0),),
    "patterns": (np.zeros((3, 60), np.uint8),),
    "status": (np.frombuffer(b"perfect", np.uint8),),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_such_word_is_refused(name):
    for value in WRONG[name]:
        with pytest.raises(DataError, match=f"malformed message from the server: .*{name}"):
            read(sent() | {name: np.asarray(value)}, 60)
