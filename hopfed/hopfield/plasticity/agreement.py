"""Sign agreement: how often a batch of examples has the signs of the memory.

Source: arXiv:2603.19902, eqs. (46) to (49); theory/NOTES.md, "Sign agreement".

The memory says ``A_ij = sum_k xi_ki xi_kj`` of a pair of sites, the batch says
``B_ij = sum_m eta_mi eta_mj``; p is the share of pairs on which their signs agree. It is read off
a sample of pairs from transposed bits, so that no N x N array is made, and compared with the
agreement that M examples of the remembered archetypes would show.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, entr

from hopfed import kernels
from hopfed._lib.arrays import to_host
from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.kernels import PackedBits
from hopfed.spectral.rows import times

PAIRS = 20_000  # pairs of sites looked at: a standard error of at most 0.0036 from their sampling
REFERENCES = ("batch", "example")
LEAST_EXCESS = 0.01  # of p0 over 1/2: what the sample of pairs resolves, about three errors

_WORDS = 1 << 20  # words of bits compared at a time


def sign_agreement(
    rows: PackedBits, patterns: np.ndarray, *, pairs: int = PAIRS, seed: int = 0
) -> tuple[float, float]:
    """Share p of site pairs on which memory and batch have the same sign, and its error (46).

    A tie on either side, ``A_ij = 0`` or ``B_ij = 0``, counts 1/2. The standard error is over
    draws of the sites, which includes the sampling of pairs: see `pair_error`.

    Parameters
    ----------
    rows : examples, (M, N).
    patterns : (K, N) of +-1, K at least 1.
    pairs : number of pairs i != j drawn, with replacement; every pair once when there are fewer.
    seed : names the sample of pairs; the same for every call of one N.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> xi = np.array([[1, -1, 1, 1]])
    >>> sign_agreement(pack(np.array([[1, -1, 1, -1]])), xi)[0]  # three of six pairs
    0.5
    """
    n_examples, n = rows.shape
    _check_patterns(patterns, n)
    require(n_examples >= 1, "rows", "at least one example", n_examples)
    i, j = site_pairs(n, pairs, seed)
    memory = _pair_sums(kernels.pack(patterns), i, j)
    batch = _pair_sums(rows, i, j)
    scores = (1 + np.sign(memory) * np.sign(batch)) / 2
    return float(scores.mean()), pair_error(scores, i, j)


def expected_agreement(
    r: float,
    M: int,
    patterns: np.ndarray | None = None,
    *,
    K: int = 1,
    exposures: np.ndarray | None = None,
    pairs: int = PAIRS,
    seed: int = 0,
) -> float:
    """Agreement p0 to expect of M examples of the remembered archetypes (48, for a batch).

    With ``m_ij = sum_mu e_mu xi_mu_i xi_mu_j`` the mean of B_ij is ``M r^2 m_ij``. Labels drawn
    from the mixture e make it exactly the sum of M independent signs of mean ``rho = r^2 m_ij``.
    Labels whose counts are known spread less, by ``1 - r^4`` an example: the mean is the same in
    units of the spread for signs of mean ``rho = r^2 m / sqrt(1 - r^4 (1 - m^2))``, exactly so at
    m = -1, 0, 1 and otherwise up to the skewness. Ties at 1/2, the sum has the sign of A_ij with
    probability ``I_x(h, h)``, I the incomplete beta function, ``x = (1 + rho sign A_ij)/2``,
    ``h = floor((M + 1)/2)``. One example of one archetype gives the paper's ``(1 + r^2)/2``.

    Parameters
    ----------
    r : quality, in [0, 1].
    M : number of examples.
    patterns : (K, N) of +-1; the pairs of sites are those of `sign_agreement`.
    K : number of independent Rademacher archetypes, when there are no patterns.
    exposures : (K,) share of the batch that came from each archetype; what is missing to a sum of
        1 came from none of them. By default the labels are drawn from the uniform mixture.
    pairs, seed : as in `sign_agreement`; without patterns, all 2^K products where they are no
        more than `pairs`, else a sample of them.

    Examples
    --------
    >>> round(expected_agreement(0.9, 1), 4), round(expected_agreement(0.9, 800, K=2), 4)
    (0.905, 0.75)
    """
    require(0 <= r <= 1, "r", "a quality in [0, 1]", r)
    require(M >= 1, "M", "at least one example", M)
    if patterns is None:
        products = _sign_products(K, pairs, seed)
    else:
        patterns = np.asarray(patterns)
        _check_patterns(patterns, patterns.shape[-1])
        i, j = site_pairs(patterns.shape[1], pairs, seed)
        products = patterns[:, i] * patterns[:, j]
    agreed = np.sign(products.sum(axis=0, dtype=np.int64))
    if exposures is None:
        rho = r**2 * products.mean(axis=0) * agreed
    else:
        rho = _known_counts(r, np.asarray(exposures, dtype=np.float64), products) * agreed
    half = (M + 1) // 2
    # A few patterns have few different means of their pairs.
    distinct, times_seen = np.unique(rho, return_counts=True)
    return float(times_seen @ betainc(half, half, (1 + distinct) / 2) / len(rho))


def reference_agreement(
    kind: str,
    r: float,
    M: int,
    patterns: np.ndarray,
    *,
    exposures: np.ndarray | None = None,
    seed: int = 0,
) -> float:
    """Agreement p0 that a rule refers to, no closer to 1/2 than LEAST_EXCESS.

    Parameters
    ----------
    kind : "example" is the paper's ``(1 + r^2)/2`` (48); "batch" is `expected_agreement`.
    r, M, patterns, exposures, seed : what that takes.

    Examples
    --------
    >>> xi = np.array([[1, -1, 1, 1]])
    >>> [round(reference_agreement(kind, 0.4, 99, xi), 2) for kind in ("example", "batch")]
    [0.58, 0.95]
    """
    require(kind in REFERENCES, "reference", "'batch' or 'example'", repr(kind))
    if kind == "example":
        p0 = (1 + r**2) / 2
    else:
        p0 = expected_agreement(r, M, patterns, exposures=exposures, seed=seed)
    return max(p0, 0.5 + LEAST_EXCESS)


def _known_counts(r: float, shares: np.ndarray, products: np.ndarray) -> np.ndarray:
    """``rho`` of `expected_agreement` for a batch whose exposures are `shares`."""
    K = len(products)
    good = shares.shape == (K,) and (shares >= 0).all() and shares.sum() <= 1 + 1e-9
    require(bool(good), "exposures", f"{K} shares that sum to at most 1", shares)
    mean = r**2 * (shares @ products)
    second = np.maximum(1 - r**4 * shares.sum(), 0.0) + mean**2
    rho = np.divide(mean, np.sqrt(second), out=np.zeros_like(mean), where=second > 0)
    return np.clip(rho, -1.0, 1.0)


def nearest_shares(rows: PackedBits, patterns: np.ndarray) -> np.ndarray:
    """(K,) share of the examples nearest to each pattern, up to sign: the batch's exposures.

    For one quality the nearest archetype is the most likely label. Equally near ones share an
    example. Pulled towards uniform where labels cannot be read, ``r sqrt N`` of about 2 and less.

    Parameters
    ----------
    rows : (M, N), packed.
    patterns : (K, N) of +-1.

    Examples
    --------
    >>> xi = np.array([[1, 1, 1, 1], [1, -1, 1, -1]])
    >>> nearest_shares(kernels.pack(-xi[[0, 0, 0, 1]]), xi)
    array([0.75, 0.25])
    """
    overlaps = np.abs(times(rows, np.ascontiguousarray(patterns.T, dtype=np.float32)))
    nearest = overlaps == overlaps.max(axis=1, keepdims=True)
    return (nearest / nearest.sum(axis=1, keepdims=True)).mean(axis=0)


def binary_entropy(p: float) -> float:
    """Entropy ``h2(p)`` of a coin, in bits (47).

    Examples
    --------
    >>> binary_entropy(0.5), binary_entropy(1.0)
    (1.0, 0.0)
    """
    return float((entr(p) + entr(1 - p)) / np.log(2))


def site_pairs(n: int, pairs: int = PAIRS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw `pairs` pairs of different sites; every pair once when there are no more than that.

    Parameters
    ----------
    n : number of sites, at least 2.
    pairs, seed : how many, and of their draw.

    Examples
    --------
    >>> site_pairs(3)
    (array([0, 0, 1]), array([1, 2, 2]))
    """
    require(n >= 2, "rows", "of at least two sites", n)
    require(pairs >= 1, "pairs", "at least 1", pairs)
    if n * (n - 1) // 2 <= pairs:
        return np.triu_indices(n, 1)
    rng = stream(seed, "agreement", "pairs", n)
    i = rng.integers(n, size=pairs)
    return i, (i + rng.integers(1, n, size=pairs)) % n


def pair_error(scores: np.ndarray, i: np.ndarray, j: np.ndarray) -> float:
    """Standard error of the mean of pair scores, for sites that are independent of each other.

    Given the labels of the examples, sites are independent: their archetypes' signs and flips.
    Pairs correlate when they share a site, so the variance is the sum of the covariances of such
    pairs: with ``D_s`` the sum of the deviations of the pairs at site s, that is
    ``sum_s D_s^2 - sum d^2`` (M. Fafchamps, F. Gubert, J. Dev. Econ. 83 (2007) 326; P. Aronow,
    C. Samii, V. Assenova, Political Analysis 23 (2015) 564). A shared site never lowers the
    variance of a U-statistic: not below that of independent pairs. What the counts of the labels
    add over batches is not in it.

    Examples
    --------
    >>> i, j = site_pairs(3)
    >>> round(pair_error(np.array([1.0, 1.0, 0.0]), i, j), 4)
    0.2722
    """
    d = scores - scores.mean()
    n = int(max(i.max(), j.max())) + 1
    D = np.bincount(i, d, n) + np.bincount(j, d, n)
    independent = d @ d
    return float(np.sqrt(max(D @ D - independent, independent)) / len(d))


def _pair_sums(rows: PackedBits, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """``sum_m eta_mi eta_mj`` of each pair, int64: a product of signs is an exclusive or."""
    columns = kernels.transpose(rows)
    words = to_host(columns.words)
    sums = np.empty(len(i), dtype=np.int64)
    step = max(1, _WORDS // words.shape[1])
    for a in range(0, len(i), step):
        part = slice(a, a + step)
        unequal = np.bitwise_count(words[i[part]] ^ words[j[part]])
        sums[part] = columns.n - 2 * unequal.sum(axis=1, dtype=np.int64)
    return sums


def _sign_products(K: int, pairs: int, seed: int) -> np.ndarray:
    """Products of K independent archetypes at a pair of sites, int8 (K, S): K fair signs."""
    require(K >= 1, "K", "at least one archetype", K)
    if pairs >= 2**K:
        codes = np.arange(2**K)
        bits = codes >> np.arange(K)[:, None] & 1
    else:
        bits = stream(seed, "agreement", "products", K).integers(2, size=(K, pairs))
    return (2 * bits - 1).astype(np.int8)


def _check_patterns(patterns: np.ndarray, n: int) -> None:
    good = np.ndim(patterns) == 2 and len(patterns) > 0 and patterns.shape[1] == n
    require(good, "patterns", f"of shape (K, {n}), at least one", f"shape {np.shape(patterns)}")
