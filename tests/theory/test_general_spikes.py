import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.theory import covariance, general_spikes
from hopfed.theory.covariance import Population

populations = st.lists(st.floats(0.1, 10), min_size=1, max_size=5, unique=True).map(Population)
aspects = st.floats(0.01, 20)
radii = st.just(0.0) | st.floats(1e-2, 5)


@given(population=populations, q=aspects, radius=radii, ratio=st.floats(0.01, 0.999))
def test_below_threshold_a_spike_stays_in_the_bulk(population, q, radius, ratio):
    edge = covariance.upper_edge(population, q, radius).location
    ell = ratio * general_spikes.threshold(population, q, radius)
    assert general_spikes.outlier(ell, population, q, radius) == pytest.approx(edge, rel=1e-12)
    assert general_spikes.overlap(ell, population, q, radius) == 0
    below = edge - 1e-6 * abs(edge)
    assert np.isnan(general_spikes.population_eigenvalue(below, population, q, radius))


@given(population=populations, q=aspects, radius=radii)
def test_outlier_leaves_the_edge_and_its_vector_turns(population, q, radius):
    threshold = general_spikes.threshold(population, q, radius)
    ell = threshold * np.geomspace(1.001, 1e4, 60)
    eigenvalue = general_spikes.outlier(ell, population, q, radius)
    overlap = general_spikes.overlap(ell, population, q, radius)
    assert (np.diff(eigenvalue) > 0).all()
    assert eigenvalue[0] > covariance.upper_edge(population, q, radius).location
    assert (np.diff(overlap) > 0).all()
    assert ((overlap > 0) & (overlap < 1)).all()
