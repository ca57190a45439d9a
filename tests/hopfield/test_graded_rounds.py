"""Classes of rows with gaps over rounds: evidence carried, novelty, drift; and sums with noise."""

import dataclasses
import itertools

import numpy as np
import pytest
from federations import Changed, of_classes, played, private_classes
from graded_tables import classes, error, known
from helpers import rest_slow

import hopfed
from hopfed import kernels
from hopfed.errors import ArgumentError
from hopfed.federation.contract import Fault
from hopfed.federation.messages import below
from hopfed.federation.rounds import Participation
from hopfed.hopfield.classes import Memory
from hopfed.hopfield.noise import PARTS, ClassNoise, exact_sums, memberships
from hopfed.hopfield.stream import Batches, Elsewhere
from hopfed.privacy.discrete_gaussian import concentrated_rho
from hopfed.tables.examples import as_examples

GAPS = (0.1, 0.2, 0.3, 0.5)  # of each client, on average; each misses columns of its own more often


@dataclasses.dataclass(frozen=True, eq=False)
class Drawn:
    """Rows of classes for four clients, whose shares (T, K) and means change over rounds."""

    T: np.ndarray
    shares: np.ndarray
    rows: int = 200
    drift: float = 0.0
    seed: int = 0
    clients = len(GAPS)

    @property
    def rounds(self):
        return len(self.shares)

    def means(self, t):
        way = np.random.default_rng(self.seed).choice([-1, 1], self.T.shape)
        return np.clip(self.T + self.drift * t * way, -0.98, 0.98)

    def draw(self, t, who):
        rng, T = np.random.default_rng([self.seed, t, who]), self.means(t)
        own = self.shares[t] * np.random.default_rng([1, who]).uniform(0.3, 1.7, len(T))
        y = rng.choice(len(T), self.rows, p=own / own.sum())
        x = np.where(rng.random((self.rows, T.shape[1])) < (1 + T[y]) / 2, 1, -1).astype(np.int8)
        gaps = GAPS[who] * np.random.default_rng([2, who]).uniform(0.5, 1.5, T.shape[1])
        x[rng.random(x.shape) < gaps] = 0
        return x, y

    def examples(self, t, who):
        return self.draw(t, who)[0]

    def known(self, t):
        """Means of the rows of one round, of all clients, with the labels known."""
        x, y = (
            np.concatenate(part) for part in zip(*map(self.draw, [t] * 4, range(4)), strict=True)
        )
        return known(x, y, len(self.T))


def planted(K, N, shares, **settings):
    T = np.random.default_rng(settings.get("seed", 0)).uniform(-1, 1, (K, N))
    return Drawn(T, np.asarray(shares), **settings)


def memory_of(result):
    return Memory(**below(result.state.server, "memory"))


def history(source, **settings):
    """Memory after each round."""
    found = []
    played(of_classes(source, source.T.shape[1], **settings), source.rounds, each=found.append)
    assert not any(result.faults.words() for result in found)
    return [memory_of(result) for result in found]


@pytest.mark.parametrize("seed", rest_slow(range(3), 1))
def test_classes_are_found_and_rounds_add_up(seed):
    source = planted(3, 60, np.full((4, 3), 1 / 3), seed=seed)
    found = history(source)
    assert [memory.size for memory in found] == [3] * 4
    errors = [error(memory.means, source.T) for memory in found]
    alone = [error(source.known(t), source.T) for t in range(4)]
    assert errors[0] < 1.05 * alone[0]
    assert errors[-1] < 0.7 * np.mean(alone)  # as of 2.5 rounds: the sum of .7^t, or nearly


@pytest.mark.parametrize("seed", rest_slow(range(3), 1))
def test_what_is_new_is_born_in_the_round_in_which_it_comes(seed):
    shares = np.full((4, 3), 1 / 3)
    shares[:2] = [1 / 2, 1 / 2, 0]
    source = planted(3, 60, shares, seed=seed)
    found = history(source)
    assert [memory.size for memory in found] == [2, 2, 3, 3]
    last = found[-1]
    assert error(found[2].means[:2], source.T) < 0.08  # those known before are known better
    assert error(last.means, source.T) < 0.08


@pytest.mark.parametrize("seed", rest_slow(range(3), 1))
def test_means_that_drift_are_followed(seed):
    source = planted(3, 60, np.full((7, 3), 1 / 3), drift=0.08, seed=seed)
    found = history(source)
    assert [memory.size for memory in found] == [3] * 7
    follow = [error(memory.means, source.means(t)) for t, memory in enumerate(found)]
    alone = [error(source.known(t), source.means(t)) for t in range(7)]
    assert np.mean(follow[1:]) < np.mean(alone[1:])  # evidence is carried, and is not behind
    assert error(found[-1].means, source.T) > 0.3  # where they were


def test_absent_late_and_failing_clients_do_not_stop_the_round():
    source = planted(3, 60, np.full((6, 3), 1 / 3))

    def failing(call, message):
        if call.context.client == 1 and call.context.exchange == 4 * call.context.round:
            message.clear()

    how = {"engine": Changed(failing), "participation": Participation(rate=0.8, late=0.3, delay=2)}
    faults = set()
    note = lambda result: faults.update(result.faults.codes.tolist())  # noqa: E731
    means = memory_of(played(of_classes(source, 60), 6, each=note, seed=5, **how)).means
    assert {Fault.ABSENT, Fault.LATE, Fault.MALFORMED} <= faults
    assert len(means) == 3
    assert error(means, source.T) < 0.09


def test_a_client_of_many_rows_stands_for_its_part_alone():
    T = np.random.default_rng(0).uniform(-1, 1, (2, 80))
    rng = np.random.default_rng(1)
    tables = [
        np.where(rng.random((m, 80)) < (1 + T[k]) / 2, 1, -1) for m, k in ((400, 0), (8000, 1))
    ]
    free, bound = (
        hopfed.simulate(tables, channel="graded", claim=most).classes for most in (20.0, 1.0)
    )
    assert sorted(free.shares.round(2)) == [0.05, 0.95]
    assert sorted(bound.shares.round(2)) == [0.5, 0.5]


SUMS = ("counts", "signed", "seen")


def first_question(N):
    return {"means": np.zeros((1, N), np.float32), "shares": np.ones(1, np.float32)}


def asked(K, N, seed=0, sure=1.0):
    rng = np.random.default_rng(seed)
    return {"means": sure * rng.uniform(-1, 1, (K, N)), "shares": rng.dirichlet(np.ones(K))}


def contributions(N, down):
    """What every row of {-1, 0, 1}^N adds to an answer, divided by the root of the noise."""
    noise = ClassNoise(N, 1.0, 1e-5, 7)
    rows = list(itertools.product((-1, 0, 1), repeat=N))
    found = {"sums": [], "pairs": []}
    for row in rows:
        each = exact_sums("pairs", kernels.pack_masked(np.array([row])), down)
        scaled = {
            name: array.ravel() / noise.variances[name] ** 0.5 for name, array in each.items()
        }
        found["sums"].append(np.concatenate([scaled[name] for name in SUMS]))
        found["pairs"].append(scaled["pairs"])
    return {name: np.array(parts) for name, parts in found.items()}


@pytest.mark.parametrize(("N", "K"), [(2, 1), (3, 2), (4, 2), (5, 3)])
def test_no_row_in_the_place_of_another_changes_an_answer_by_more_than_is_said(N, K):
    rho = concentrated_rho(1.0, 1e-5) / 7
    for sure in (0.3, 0.9, 1.0):  # rows that are partly, and wholly, of a class
        for part in contributions(N, asked(K, N, 0, sure)).values():
            moved = ((part[:, None] - part[None]) ** 2).sum(axis=2) / 2
            assert moved.max() <= rho * (1 + 1e-12)


def test_a_row_is_of_the_same_classes_whatever_rows_are_beside_it():
    rng, down = np.random.default_rng(0), asked(5, 37)
    x = rng.choice([-1, 0, 1], (201, 37)).astype(np.int8)
    q = memberships(kernels.pack_masked(x), **down)
    assert (q.sum(axis=1) == PARTS).all()
    assert q.min() >= 0
    assert (q == np.rint(q)).all()
    assert ((q > 0).sum(axis=1) > 1).mean() > 0.2
    some = rng.permutation(201)[:47]
    np.testing.assert_array_equal(memberships(kernels.pack_masked(x[some]), **down), q[some])


def test_the_noise_is_as_large_as_it_says_and_another_one_for_every_question():
    x = np.random.default_rng(0).choice([-1, 0, 1], (300, 40)).astype(np.int8)
    rows, noise, down = kernels.pack_masked(x), ClassNoise(40, 1.0, 1e-5, 8), asked(3, 40)
    exact = exact_sums("pairs", rows, down)
    told = [noise.answer("pairs", rows, down, key) for key in (b"a", b"a", b"b")]
    for name, array in exact.items():
        drawn = [(one[name] - array).ravel() / noise.variances[name] ** 0.5 for one in told]
        np.testing.assert_array_equal(drawn[0], drawn[1])
        assert abs((drawn[0] ** 2).mean() - 1) < 5 * (2 / array.size) ** 0.5
        assert abs(drawn[0] @ drawn[2]) < 5 * array.size**0.5
    assert abs((told[0]["signed"] - exact["signed"]).mean()) < 5 * noise.scale("signed") * PARTS


@pytest.mark.parametrize(
    ("K", "rows", "epsilon", "found"), [(3, 1500, 4.0, 3), (3, 200, 0.5, 1), (1, 400, 8.0, 1)]
)
def test_classes_are_found_beside_the_noise_and_none_are_made_up(K, rows, epsilon, found):
    T, _, x = classes(K, 24, 5 * rows, 0, missing=0.2)
    owners = tuple(as_examples(part, gaps=True) for part in np.array_split(x, 5))
    result = played(private_classes(Batches(owners), 24, epsilon, byzantine=0.1), clients=5)
    assert result.faults.words() == []
    means = result.state.server["memory/means"]
    assert len(means) == found
    assert found < K or K == 1 or error(means, T) < 0.09


def test_wrong_settings_are_refused_in_a_line():
    for wrong, words in (
        ({"epsilon": 1e-9}, "epsilon must be larger"),
        ({"looks": 0}, "looks must"),
    ):
        with pytest.raises(ArgumentError, match=words):
            private_classes(Elsewhere(), 10, **{"epsilon": 4.0} | wrong)
