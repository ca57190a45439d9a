"""Which classes are two: the direction in which the rows of a class vary most, and its halves.

Within a true class the columns are independent. In a class that stands for two, the rows vary along
the difference of the two; the leading eigenvector of the class's standardised residuals shows it,
found by a few products for all classes at once. Rows are then halved by the sign of their
projection, and the evidence of the halves, which is known from their sums, ranks the classes.

A class of few rows that is counted in another moves no leading direction. But its rows fit badly:
the rows of lowest likelihood are the other way to part a class. Where many entries are missing such
a class may be counted in all the others at once, a few rows in each; then the rows that fit badly,
wherever they are, are where one more class starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hopfed._lib.arrays import Array, like, namespace
from hopfed._lib.random import stream
from hopfed.archetypes.graded.fitting.expectation_maximization import Fit, remind
from hopfed.archetypes.graded.fitting.mixture import ClassSums, label_gain, weighted_sums
from hopfed.archetypes.graded.owners.asking import Owner, Owners, standardised, total
from hopfed.federation.messages import Message
from hopfed.spectral.rows import (
    array_beside,
    seen_transposed_times,
    transposed_times,
)


def leading(
    product: Callable[[np.ndarray], np.ndarray], start: np.ndarray, steps: int, wanted: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Largest eigenvalues of B symmetric matrices after so many products, by Lanczos.

    The bases are kept orthogonal in full. Values are at most the true ones, and a dense bulk is
    approached slowly, alike for all matrices of one kind: compare them after equally many steps.
    """
    N = start.shape[1]
    basis = images = np.zeros((len(start), 0, N))
    q = start / np.linalg.norm(start, axis=1, keepdims=True)
    for _ in range(min(steps, N)):
        basis = np.concatenate([basis, q[:, None]], axis=1)
        images = np.concatenate([images, product(q)[:, None]], axis=1)
        q = following(basis, images)
    return pairs(basis, images, wanted)


def following(basis: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Unit vectors (B, N) that come next in orthogonal bases (B, s, N) of such images (B, s, N).

    An exhausted space goes on with zeros, which add eigenvalues 0.
    """
    q = images[:, -1].copy()
    for _ in range(2):  # once is not enough where eigenvalues are close
        q -= np.einsum("bs,bsn->bn", np.einsum("bsn,bn->bs", basis, q), basis)
    norms = np.linalg.norm(q, axis=1, keepdims=True)
    return np.where(norms > 1e-9, q / np.maximum(norms, 1e-300), 0.0)


def pairs(basis: np.ndarray, images: np.ndarray, wanted: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Leading eigenpairs on spans of bases (B, s, N): (B, wanted) and (B, wanted, N)."""
    small = np.einsum("bsn,btn->bst", basis, images)
    values, E = np.linalg.eigh((small + small.transpose(0, 2, 1)) / 2)
    E = E[:, :, ::-1][:, :, :wanted]
    return values[:, ::-1][:, :wanted], np.einsum("bsn,bsk->bkn", basis, E)


STEPS = 6  # products; the direction need not be exact
DEEP = -2.0  # standard deviations of its likelihood from which a row is badly explained in a class
POOR = -1.0  # the same where the rows of all classes are taken together
QUIET = 0.05  # variance below which a column of a class is not scaled up further


@dataclass(frozen=True)
class Halves:
    """Every class in two halves.

    Attributes
    ----------
    upper, lower : sums over the two halves of each class.
    gains : (K,) evidence that each split would add, were rows sure of their half.
    """

    upper: ClassSums
    lower: ClassSums
    gains: np.ndarray

    def sums(self, split: np.ndarray) -> ClassSums:
        """Sums over the classes with those in `split` (indices) replaced by their halves."""
        stay = np.setdiff1d(np.arange(len(self.gains)), split)
        u, w = self.upper, self.lower
        return ClassSums(
            np.hstack([(u.counts + w.counts)[:, stay], u.counts[:, split], w.counts[:, split]]),
            np.vstack([(u.signed + w.signed)[stay], u.signed[split], w.signed[split]]),
            np.vstack([(u.seen + w.seen)[stay], u.seen[split], w.seen[split]]),
        )


def halves(owners: Owners, fit: Fit, draw: int = 0) -> Halves:
    """Halve every class along its leading direction: STEPS + 1 exchanges."""
    remind(owners, fit)
    scale = scales(fit)

    def product(w: np.ndarray) -> np.ndarray:
        told = {"directions": (w * scale).astype(np.float32)}
        found = total(owners.ask(residual_products, told), "products")
        whole: np.ndarray = (found + _within_variables(fit, w * scale)) * scale
        return whole

    start = stream(owners.seed, "halves", draw).standard_normal(scale.shape)
    w = leading(product, start, STEPS)[1][:, 0] * scale
    told = {"directions": w.astype(np.float32)}
    return halved(fit, fit.prior.collect(owners.ask(upper_sums, told)))


def without_tails(owners: Owners, fit: Fit) -> Halves:
    """Part every class from the rows that it explains worst: one exchange."""
    return _well_explained(owners, fit, DEEP)


def one_more(owners: Owners, fit: Fit) -> ClassSums:
    """Sums over the classes and one more, of the rows that all of them explain worst: one exchange.

    Its rows come from every class, each with the weight that it has there.
    """
    parts = _well_explained(owners, fit, POOR)
    well, badly = parts.upper, parts.lower
    return ClassSums(
        np.hstack([well.counts, badly.counts.sum(axis=1, keepdims=True)]),
        np.vstack([well.signed, badly.signed.sum(axis=0)]),
        np.vstack([well.seen, badly.seen.sum(axis=0)]),
    )


def _well_explained(owners: Owners, fit: Fit, above: float) -> Halves:
    """Every class in the rows that are likely in it, by these standard deviations, and others."""
    remind(owners, fit)
    told = {"above": np.array(above, np.float32)}
    return halved(fit, fit.prior.collect(owners.ask(well_explained_sums, told)))


def well_explained_sums(owner: Owner, told: Message) -> Message:
    """Sums over the rows of each class that are as likely as rows of it should be."""
    R = owner.weights
    well = standardised(owner.rows, owner.means) > float(told["above"])
    return weighted_sums(owner, R * namespace(R).astype(well, R.dtype))


def scales(fit: Fit) -> np.ndarray:
    """(K, N) by which the residuals of each class are multiplied, so that they have variance 1."""
    variance = np.maximum(1 - fit.classes.means**2, QUIET) * np.maximum(fit.prior.observed, 1e-3)
    return np.asarray(1 / np.sqrt(variance))


def halved(fit: Fit, upper: ClassSums) -> Halves:
    """Classes in two halves, from the sums over their upper ones."""
    whole = fit.sums
    lower = ClassSums(
        np.maximum(whole.counts - upper.counts, 0.0),
        whole.signed - upper.signed,
        np.maximum(whole.seen - upper.seen, 0.0),
    )
    return Halves(upper, lower, _gains(fit, upper, lower))


def _within_variables(fit: Fit, w: np.ndarray) -> np.ndarray:
    """(K, N) what takes the covariance of the levels of a variable, ``-4 p_a p_b``, out again."""
    variables = fit.prior.variables
    if variables is None:
        return np.zeros_like(w)
    p = variables.normalised((1 + fit.classes.means) / 2)
    others = variables.sums(p * w) - p * w
    return np.asarray(np.where(variables.inside, 4 * fit.sums.seen * p * others, 0.0))


def _gains(fit: Fit, upper: ClassSums, lower: ClassSums) -> np.ndarray:
    prior, whole = fit.prior, fit.sums
    if np.isinf(prior.concentration):  # a single class knows no spread yet
        both = Halves(upper, lower, np.zeros(1)).sums(np.array([0]))
        prior = prior.fitted(both)
    entries = prior.gain(upper) + prior.gain(lower) - fit.prior.gain(whole)
    n, a, b = (s.counts.sum(axis=0) for s in (whole, upper, lower))
    K = len(n)
    now = label_gain(n)
    named = [label_gain(np.concatenate([np.delete(n, k), [a[k], b[k]]])) - now for k in range(K)]
    found: np.ndarray = entries + np.array(named) + np.log(K + 1)
    return found


def _projections(owner: Owner, directions: np.ndarray) -> Array:
    """(M, K) ``(x - T_k) . w_k`` over the observed entries of each row."""
    home = array_beside(owner.rows)
    W = like(directions.T, home)
    TW = like((owner.means * directions).T.astype(np.float32), home)
    found: Array = owner.times(W) - owner.seen_times(TW)
    return found


def residual_products(owner: Owner, told: Message) -> Message:
    """Products of each class's residual moment with a direction: (K, N)."""
    G = owner.weights * _projections(owner, told["directions"])
    means = like(owner.means.T.astype(np.float32), G)
    products = transposed_times(owner.rows, G) - means * seen_transposed_times(owner.rows, G)
    return {"products": products.T}


def upper_sums(owner: Owner, told: Message) -> Message:
    """Sums over the rows of each class on the upper side of a direction."""
    return weighted_sums(owner, owner.weights * upper_side(owner, told["directions"]))


def upper_side(owner: Owner, directions: np.ndarray) -> Array:
    """Which rows lie on the upper side of the direction of each class: (M, K) of 0 and 1."""
    side = _projections(owner, directions) > 0
    found: Array = namespace(owner.weights).astype(side, owner.weights.dtype)
    return found
