import numpy as np
import pytest
from graded_tables import classes, error, fitted, known
from helpers import rest_slow

from hopfed.archetypes.channel_and_replicas import choose_channel
from hopfed.archetypes.class_sums import sketch
from hopfed.archetypes.classes import Search, find_classes
from hopfed.archetypes.session import Owners


@pytest.mark.parametrize(
    ("size", "shape"),
    rest_slow(
        [
            ((3, 150, 1000), (1, 1)),
            ((3, 500, 200), (1, 4)),
            ((3, 150, 1000), (0.5, 5)),
            ((8, 200, 2000), (0.3, 0.3)),
            ((3, 50, 3000), (5, 5)),
        ],
        1,
    ),
    ids=str,
)
def test_planted_classes_are_found_as_with_true_labels(size, shape):
    K, N, M = size
    T, y, x = classes(K, N, M, 7, shape=shape, missing=0.2)
    _, fit = fitted(x)
    assert fit.size == K
    bound = 1.03 if N > 50 else 1.6  # rows of 50 columns that differ little are unsure of theirs
    assert error(fit.classes.means, T) < bound * error(known(x, y, K), T) + 0.002


def test_a_sketch_holds_no_centre_of_few_rows():
    _, _, x = classes(3, 40, 300, 13)
    owner = Owners.of([x], 0).members[0]
    basis = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    told = {"basis": basis, "centres": np.int32(200)}
    answer, other = (sketch(seed, 0, owner, told) for seed in (0, 1))
    assert not np.array_equal(answer["centres"], other["centres"])
    assert (answer["counts"] >= 5).all()
    assert answer["centres"].shape == (len(answer["counts"]), 3)


@pytest.mark.parametrize("channel", rest_slow(["by column", "symmetric", "graded"], 1))
def test_the_channel_is_told_from_the_sums(channel):
    rng = np.random.default_rng(16)
    xi = rng.choice([-1, 1], (4, 120))
    r = {"symmetric": 0.7, "by column": rng.uniform(0.2, 1, 120), "graded": rng.random((4, 120))}
    T = r[channel] * xi
    x = np.where(rng.random((2000, 120)) < (1 + T[rng.integers(4, size=2000)]) / 2, 1, -1)
    _, fit = fitted(x)
    assert fit.size == 4
    won = choose_channel(fit, np.ones((1, 1)))
    assert won.name == channel
    assert error(won.means, T) <= error(fit.classes.means, T)
    if channel == "symmetric":
        assert np.abs(won.means) == pytest.approx(0.7, abs=0.02)
        assert error(won.means, T) < 0.03


def test_patterns_of_another_route_are_one_more_start():
    rng = np.random.default_rng(18)
    xi = rng.choice([-1, 1], (12, 60))
    x = np.where(rng.random((1500, 60)) < (1 + 0.7 * xi[rng.integers(12, size=1500)]) / 2, 1, -1)
    owners = Owners.of([x], 0)
    nothing = np.zeros((60, 0))  # as if the spectrum had shown nothing
    few = Search(exchanges=1)  # and no time to split
    assert find_classes(owners, nothing, np.ones(60), few).size == 1
    fit = find_classes(owners, nothing, np.ones(60), few, patterns=xi)
    assert fit.size == 12
    assert (np.sign(fit.classes.means) == xi).mean() > 0.99
