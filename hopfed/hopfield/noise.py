"""Noise on a client's answers: how much one row changes them, and the noise that hides the row.

A row belongs to class k with the part ``q_k / PARTS``; the whole numbers q depend on the row and
the named classes alone. *Sums* are ``q (x) (1, x, s)``, s the mask of observed entries of the row
x; *pairs* are ``q (x) (x_i x_j)``, i < j. Replacing a row changes the sums, scaled to ``u =
(sqrt(N / 2), x, s / sqrt 2)``, by at most ``4 N PARTS^2``, as ``|u|^2 <= 2 N`` and the product of
two is at least 0, since ``<x, x'> >= -<s, s'>``; and pairs, of a square norm of at most ``N (N - 1)
/ 2`` and products of at least ``-N / 2``, by at most ``N PARTS`` in norm. Sums are worth one unit
of the budget, pairs one more; all units together are (epsilon, delta)-private, whatever is asked in
between (`hopfed.privacy.integer_noise.concentrated_rho`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil

import numpy as np

from hopfed import kernels
from hopfed._lib.settings import require
from hopfed.archetypes.session import means_inside
from hopfed.federation.contract import Context
from hopfed.federation.messages import Field, Message, Spec
from hopfed.hopfield.operator_messages import EXAMPLES
from hopfed.kernels import Rows
from hopfed.privacy.integer_noise import concentrated_rho, discrete_gaussian, noise_bound
from hopfed.spectral.rows import blocks, seen_times, seen_transposed_times, times, transposed_times
from hopfed.theory.discrete_gaussian import LEAST
from hopfed.theory.discrete_gaussian import MOST as LARGEST

__all__ = ["Noise"]

PARTS = 64  # parts of a row, which are divided among classes
FINE = 2.0**20  # by which log-odds are multiplied before they are rounded
WEIGHT = 2.0**30  # of the likeliest class of a row
BLOCK = 4096  # rows at a time
NUMBERS = 1 << 24  # most numbers of an answer: noise on more takes a minute, and a gigabyte
STEPS = 3  # of the fit after a search for classes
UNITS = {"sums": 1, "pairs": 2}  # cost of an answer, in units of the budget


@dataclass(frozen=True)
class Noise:
    """Privacy budget of a client: how much all answers of a round may tell about one row.

    Attributes
    ----------
    epsilon, delta : the budget; every row must be in the batch of one round only.
    secret : of the noise, known to the client alone; 0, in simulations, draws from the run's seed.
    spend : function that charges a ledger before an answer about classes is made, by the round, the
        name of the question, and its cost; None in simulations.

    Examples
    --------
    >>> Noise(2.0)
    Noise(epsilon=2.0, delta=1e-05)
    """

    epsilon: float
    delta: float = 1e-5
    secret: int = field(default=0, repr=False)
    spend: Callable[[int, str, int], None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        concentrated_rho(self.epsilon, self.delta)  # checks the budget
        require(self.secret >= 0, "secret", "at least 0", "another")

    @property
    def words(self) -> str:
        """Epsilon and delta as text, exact to the bit."""
        return f"{float(self.epsilon).hex()} {float(self.delta).hex()}"

    def key(self, rows: Rows, context: Context, asked: str, front: str = "") -> bytes:
        """Key of the noise on what is `asked` of `rows` in the round of a `context`.

        It begins with the `front` of its kind, and does not tell the order of the rows.
        """
        # A secret belongs to one client, whatever its number in a federation.
        client = -1 if context.client is None else context.client
        source = f"secret {self.secret}" if self.secret else f"seed {context.seed} client {client}"
        words = np.hstack([rows.signs, rows.seen]) if rows.gaps else rows.signs
        in_order = words[np.lexsort(words.T)]
        text = f"{front}{source} round {context.round} {asked} rows "
        return text.encode() + hashlib.sha256(in_order.tobytes()).digest()


@dataclass(frozen=True)
class ClassNoise:
    """Noise on a client's answers about classes: its variances, and the form of the answers."""

    n_sites: int  # N
    epsilon: float  # epsilon, delta: of all units together, for each row
    delta: float
    units: int  # number of units of the budget

    def __post_init__(self) -> None:
        require(self.n_sites >= 2, "n_sites", "at least 2", self.n_sites)
        small = max(self.variances.values()) <= LARGEST
        rule = f"larger: it asks for noise beyond 2^24 on {self.n_sites} columns"
        require(small, "epsilon", rule, self.epsilon)

    @cached_property
    def variances(self) -> dict[str, int]:
        """Parameter of the noise on each array, in units of 1 / PARTS squared."""
        rho, N = concentrated_rho(self.epsilon, self.delta) / self.units, self.n_sites
        signed = 2 * N * PARTS**2 / rho
        found = {"counts": 2 * signed / N, "signed": signed, "seen": 2 * signed}
        found["pairs"] = N**2 * PARTS**2 / (2 * rho)
        return {name: max(ceil(variance), LEAST) for name, variance in found.items()}

    def scale(self, name: str) -> float:
        """Standard deviation of the noise of an array, in rows."""
        return float(np.sqrt(self.variances[name])) / PARTS

    def spec(self, step: str, K: int) -> Spec:
        """Form of the answer to a question about K classes, with bounds that allow for noise."""
        N = self.n_sites
        shapes = {"counts": (K,), "signed": (K, N), "seen": (K, N)}
        if step == "pairs":
            shapes["pairs"] = (K, N * (N - 1) // 2)
        fields = {"examples": replace(EXAMPLES, least=2)}
        for name, shape in shapes.items():
            most = noise_bound(self.variances[name], float(np.prod(shape, dtype=float)))
            fields[name] = Field(shape, "i", within="examples", times=PARTS, beyond=most)
        return fields

    def answer(self, step: str, rows: Rows, down: Message, key: bytes) -> Message:
        """Answer a question about classes with noise."""
        found: Message = {"examples": np.asarray(len(rows))}
        for name, exact in exact_sums(step, rows, down).items():
            most = PARTS * len(rows)
            found[name] = add_noise(exact, self.variances[name], most, key + name.encode())
        return found


def add_noise(exact: np.ndarray, variance: int, most: int, key: bytes) -> np.ndarray:
    """Add discrete Gaussian noise to a client's answer: whole numbers of at most `most`."""
    found = exact + discrete_gaussian(variance, exact.size, key).reshape(exact.shape)
    # The dtype depends on public numbers only: noise stays within 102 standard deviations.
    narrow = most + 102 * np.sqrt(variance) < 2**31
    return np.asarray(found.astype(np.int32) if narrow else found)


def exact_sums(step: str, rows: Rows, down: Message) -> Message:
    """Sums over classes in a client's answer before its noise: int64, in units of 1 / PARTS."""
    upper, found = np.triu_indices(rows.shape[1], 1), Message()
    for part in blocks(rows, BLOCK):
        q = memberships(part, down["means"], down["shares"])
        sums = {"counts": q.sum(axis=0), "signed": transposed_times(part, q).T}
        sums["seen"] = seen_transposed_times(part, q).T
        if step == "pairs":  # products of two columns, i < j, over each class
            x = kernels.unpack(part, np.float64)
            sums["pairs"] = np.array([((x * w[:, None]).T @ x)[upper] for w in q.T])
        for name, array in sums.items():
            found[name] = found.get(name, np.int64(0)) + np.rint(array).astype(np.int64)
    return found


def memberships(rows: Rows, means: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Divide the PARTS of each row among classes, before noise on sums: whole numbers (M, K)."""
    T = means_inside(means)  # rounded: numbers that differ by machine would cancel the noise
    odds, even = np.arctanh(T), np.log1p(-(T**2)) / 2 - np.log(2)
    odds, even = (np.rint(FINE * x.T) for x in (odds, even))
    logs = times(rows, odds) + seen_times(rows, even)
    logs = logs + np.rint(FINE * np.log(np.maximum(np.asarray(shares, np.float64), 1e-12)))
    best = logs.argmax(axis=1)
    likely = np.exp((logs - logs.max(axis=1, keepdims=True)) / FINE)
    weights = np.rint(WEIGHT * likely).astype(np.int64)
    q = PARTS * weights // weights.sum(axis=1, keepdims=True)
    q[np.arange(len(q)), best] += PARTS - q.sum(axis=1)
    return q.astype(np.float64)
