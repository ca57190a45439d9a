"""The variances of columns after this round of whitening and all later ones, from one spectrum.

Rounds of whitening change the scale of the columns only. Of the second moment scaled anew the
eigenpairs in the span of the counted ones follow from a small matrix, with no product with the
rows: for vectors U and values L at variances v, those at w are of
``L^1/2 U^T diag(v / w) U L^1/2``. That is exact but for what noise would gain by turning the
directions, which is of second order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hopfed._lib.arrays import to_host
from hopfed.spectral.eigenpairs import Spectrum
from hopfed.theory import spikes

ROUNDS = 20
STILL = 1e-4  # relative change of every variance at which the rounds end


def ahead(
    v: np.ndarray,
    spectrum: Spectrum,
    count: int,
    left: Callable[[np.ndarray, Spectrum], np.ndarray],
) -> np.ndarray:
    """Variances (N,) at which rounds in the span of the counted eigenpairs come to rest.

    Parameters
    ----------
    v : (N,) variances of the columns' noise by which `spectrum` was whitened.
    spectrum : with at least `count` vectors.
    count : of eigenpairs that are signal, at least 1.
    left : the rule of a round: what a spectrum at given variances leaves of the columns.

    Examples
    --------
    >>> shape = np.zeros(1), 2, 9.0, True, "dense", 1, "converged"
    >>> found = Spectrum(np.array([4.0]), np.array([[0.8], [0.6]]), *shape)
    >>> half = ahead(np.ones(2), found, 1, lambda w, s: (1 + w) / 2)  # whatever the spectrum is
    >>> half.tolist()
    [1.0, 1.0]
    """
    U, values = to_host(spectrum.vectors)[:, :count], spectrum.values
    lifted = U * np.sqrt(values[:count]) * np.sqrt(v)[:, None]
    w, now = v, spectrum
    pace, last = np.ones_like(v), np.zeros_like(v)
    for _ in range(ROUNDS):
        move = np.log(left(w, now) / w)
        pace = np.where(move * last < 0, pace / 2, np.minimum(pace * 1.2, 1.0))
        w, last = w * np.exp(pace * move), move
        if np.abs(move).max() < STILL:
            break
        B = lifted / np.sqrt(w)[:, None]
        ascending, E = np.linalg.eigh(B.T @ B)
        found = np.maximum(ascending[::-1], 1e-300)
        vectors = B @ (E[:, ::-1] / np.sqrt(found))
        now = replace(spectrum, values=np.append(found, values[count:]), vectors=vectors)
    return w


def signal(U: np.ndarray, values: np.ndarray, aspect: float) -> np.ndarray:
    """(N,) diagonal of the population's signal behind sample eigenpairs of white noise.

    What an eigenpair holds of a column is ``lambda U^2``, and the rest is the column's sample
    variance about it: exact even where the signal is many times the noise. It is too small by what
    the pair took from the noise: on average ``lambda (1 - c) / N``, c the squared cosine of sample
    and population vector, and by the column's own pull on the pair, ``(lambda c - ell) u^2``, with
    ell the population's strength. Near the threshold U is mostly noise, and taking each entry for
    what it is would make noise look like signal in the next round: there the entries are drawn to
    their mean, but not by more than their spread allows.

    Parameters
    ----------
    U, values : (N, k) and (k,), of the second moment in whitened coordinates.
    aspect : N over the number of rows.
    """
    n, root = len(U), float(np.sqrt(aspect))
    ell = spikes.strength_at(values - (1 + root) ** 2, root)
    c = np.asarray(spikes.overlap(ell, aspect))
    uneven = U**2 - 1 / n
    noise = 2 * (1 - c**2) / n**2
    trust = np.maximum(c, 1 - noise / np.maximum(uneven.var(axis=0), 1e-300))
    pull = values * c - ell
    alone = spikes.overlap(np.maximum(ell * (1 - U**2), 1e-300), aspect)
    shared = alone / np.maximum(c, 1e-300)
    found: np.ndarray = (ell / n + (values - pull * c) * trust * shared * uneven).sum(axis=1)
    return found
