import numpy as np
import pytest
from federations import of_patterns
from helpers import sample
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.federation.contract import Context
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.clients import PatternClient
from hopfed.hopfield.plasticity import (
    Agreement,
    Broadcast,
    Entropy,
    Fixed,
    Structure,
)
from hopfed.hopfield.stream import Batches
from hopfed.kernels import concatenate, pack

EVERY = [Fixed(0.3), Entropy(), Agreement(), Structure()]
SIZES = [(300, 800), (1000, 400)]  # (N, M) on either side of q = 1


def batch(N, M, quality, seed, *, old=1.0, K=3, new=3):
    """Examples, a share `old` of them from the K remembered archetypes, and those archetypes."""
    exposures = np.r_[np.full(K, old / K), np.full(new, (1 - old) / new)]
    xi, eta = sample(K + new, N, M, quality, seed, exposures=exposures)
    return pack(eta), xi[:K]


def read(rule_, N, M, quality, seed, *, federation=0.9, **mixture):
    rows, xi = batch(N, M, quality, seed, **mixture)
    return rule_(rows, Broadcast(xi, federation), seed=seed)


@given(
    *(st.integers(1, 6), st.integers(2, 40), st.integers(1, 70), st.integers(0, 2**32)),
    st.floats(0.01, 1),
)
def test_weights_and_shares_stay_in_their_ranges(K, N, M, seed, quality):
    rng = np.random.default_rng(seed)
    xi = rademacher(K, N, rng)
    known = draw_examples(xi, M, rng.random(), rng)[0]  # some of the examples are near them
    eta = np.where(rng.random((M, 1)) < rng.random(), known, rademacher(M, N, rng))
    for rule_ in EVERY:
        reading = rule_(pack(eta), Broadcast(xi, quality), seed=1)
        assert 0 <= reading.weight <= 1
        if isinstance(rule_, Structure):
            assert reading.memory >= 0
            assert reading.novelty >= 0
            assert reading.memory + reading.novelty <= 1 + 1e-9


@pytest.mark.parametrize("rule_", EVERY)
def test_an_empty_memory_leaves_the_weight_to_the_data(rule_):
    rows = pack(rademacher(5, 20, np.random.default_rng(0)))
    reading = rule_(rows, Broadcast(np.zeros((0, 20), np.int8), 0.0), seed=0)
    assert reading.weight == 1.0
    assert np.isnan([reading.agreement, reading.memory, reading.novelty]).all()


ZERO, ONE = pytest.approx(0, abs=0.06), pytest.approx(1, abs=0.02)
FAMILIAR = pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize(("N", "M"), SIZES)
@pytest.mark.parametrize(
    ("quality", "old", "entropy", "agreement", "structure"),
    [
        (0.0, 1.0, ONE, ZERO, ZERO),  # noise
        (0.9, 0.0, ONE, ZERO, ONE),  # novelty, which neither of the first two tells from it
        (0.9, 1.0, pytest.approx(0, abs=1e-9), pytest.approx(1, abs=1e-9), FAMILIAR),
    ],
)
def test_the_papers_rules_contradict_each_other_on_noise(
    N, M, quality, old, entropy, agreement, structure
):
    """At p = 1/2 the entropy rule follows the noise, the agreement rule shuts it out."""
    for seed in range(2):
        rules = Entropy(), Agreement(), Structure(rest=0.4)
        readings = [read(rule_, N, M, quality, seed, old=old) for rule_ in rules]
        assert [each.weight for each in readings] == [entropy, agreement, structure]
        assert quality or readings[0].agreement == readings[1].agreement == pytest.approx(
            0.5, abs=0.03
        )


def test_the_floor_of_one_example_would_saturate_and_that_of_the_batch_does_not():
    """A batch of which half is replaced by noise beats the agreement of one example still."""
    for seed in range(4):
        rows, xi = batch(400, 200, 0.3, seed)
        noise = pack(rademacher(100, 400, np.random.default_rng(900 + seed)))
        spoilt = concatenate([rows[:100], noise])
        memory = Broadcast(xi, 0.3)
        whole, half = (Entropy()(each, memory, seed=1) for each in (rows, spoilt))
        assert whole.agreement > half.agreement > (1 + 0.3**2) / 2
        assert whole.weight < 0.15
        assert half.weight > 0.5


def test_a_client_that_holds_some_of_the_archetypes_is_no_stranger():
    xi = rademacher(9, 500, np.random.default_rng(0))
    some = np.r_[np.full(3, 1 / 3), np.zeros(6)]
    eta, _ = draw_examples(xi, 400, 0.8, np.random.default_rng(1), exposures=some)
    memory = Broadcast(xi, 0.8)
    assert Agreement()(pack(eta), memory, seed=0).weight > 0.95
    assert Structure()(pack(eta), memory, seed=0).weight == pytest.approx(0.5, abs=0.01)
    # To the entropy rule the missing six are drift.
    assert Entropy()(pack(eta), memory, seed=0).weight > 0.5


@pytest.mark.parametrize(("N", "M"), SIZES)
@pytest.mark.parametrize(("quality", "old"), [(0.9, 1.0), (0.9, 0.5), (0.5, 0.3), (0.3, 0.0)])
def test_structure_reads_the_shares_of_a_mixture(N, M, quality, old):
    read_ = [read(Structure(), N, M, quality, s, old=old, federation=quality) for s in range(5)]
    # sampling of the labels: .5 / sqrt(400) = .025 for one batch, five here
    memory, novelty = (np.mean([getattr(x, k) for x in read_]) for k in ("memory", "novelty"))
    assert memory == pytest.approx(old * quality**2, abs=0.04 * quality**2)
    assert novelty == pytest.approx((1 - old) * quality**2, abs=0.04 * quality**2)
    weight = np.mean([x.weight for x in read_])
    assert weight == pytest.approx(0.5 + 0.5 * (1 - old), abs=0.03)


def test_structure_does_not_see_novelty_in_noise():
    # 20 batches, two tests at 1e-3 each
    assert sum(read(Structure(), 80, 120, 0.0, s).weight > 0 for s in range(20)) <= 1
    familiar = [read(Structure(), 80, 120, 0.9, s).novelty for s in range(20)]
    assert sum(n > 0 for n in familiar) <= 2


def test_smoothing_by_hand():
    rows = rademacher(4, 40, np.random.default_rng(0))
    for before, weight in (({}, 1.0), ({"plasticity": np.array(0.2)}, 0.6)):
        client = PatternClient(Batches((pack(rows),)), 40, Fixed(1.0), ema=0.5)
        state, message, _ = client.client_step(before, {}, Context(0, 0, 0, 0))
        assert state["plasticity"] == message["weight"] == pytest.approx(weight)


def test_bad_arguments():
    for make, message in (
        (lambda: Fixed(1.2), "weight must be in"),
        (lambda: Structure(rest=-0.1), "rest must be in"),
        (lambda: of_patterns(None, 40, ema=0.0), "ema must be in"),
    ):
        with pytest.raises(ArgumentError, match=message):
            make()
