import numpy as np
import pytest

from hopfed.archetypes.patterns import count_spectrum
from hopfed.archetypes.session import Owners
from hopfed.errors import ArgumentError
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.kernels import pack
from hopfed.spectral.rank import NoiseProfile, TracyWidom


def profile_of(groups, n_sites=100):
    """What owners capture, from the energies of their rows."""
    rows = np.array([float(len(g)) for g in groups])
    return NoiseProfile(
        np.array([[g.mean()] for g in groups]),
        rows / rows.sum(),
        n_sites,
        rows=rows,
        spreads=np.array([g.std() for g in groups]),
    )


@pytest.mark.parametrize("sizes", [(50, 50), (300, 40, 20, 20, 20)])
def test_owners_of_rows_dealt_at_random_are_told_apart_at_the_level(sizes):
    rng, level, draws = np.random.default_rng(0), 0.05, 2000
    ends = np.cumsum(sizes)[:-1]
    energies = rng.gamma(4.0, 5.0, (draws, sum(sizes)))
    apart = sum(not profile_of(np.split(e, ends)).alike(level) for e in energies)
    assert 0.03 < apart / draws < 0.07  # five standard errors; Bonferroni's bound is not sharp


def test_owners_of_different_noise_are_told_apart():
    rng = np.random.default_rng(1)
    good, noisy = rng.gamma(4.0, 5.0, 200), rng.gamma(4.0, 4.0, 200)
    assert not profile_of([good, noisy]).alike()
    with pytest.raises(ArgumentError, match="captured, rows and spreads"):
        NoiseProfile(np.ones((2, 1)), np.array([0.5, 0.5]), 100).alike()


def test_dealing_rows_to_owners_does_not_change_the_count():
    # Correlated blocks are no archetypes, and their rows differ in what eigenvectors capture.
    rng = np.random.default_rng(2)
    common = rng.standard_normal((300, 5))[:, np.arange(60) % 5]
    x = pack(np.where(0.55 * common + 0.84 * rng.standard_normal((300, 60)) > 0, 1, -1))
    alone = count_spectrum(Owners.over([x], 0), TracyWidom(), None)[0]
    for seed in range(20):
        parts = np.array_split(np.random.default_rng(seed).permutation(300), 3)
        owners = [x[np.sort(p)] for p in parts]
        assert (
            count_spectrum(Owners.over(owners, 0), TracyWidom(), None)[0].n_detected
            == alone.n_detected
        )


def test_the_count_of_unequal_owners_is_never_the_higher_one():
    rng = np.random.default_rng(3)
    xi = rademacher(3, 100, rng)
    owners = [pack(draw_examples(xi, 60, r, rng)[0]) for r in (0.95, 0.3)]
    rank, spectrum = count_spectrum(Owners.over(owners, 0), TracyWidom(), None)
    assert rank.unequal
    assert rank.n_detected == len(rank.strengths) == len(rank.overlaps) == 3
    assert spectrum.vectors.shape[1] == 3
