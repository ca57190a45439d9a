"""From a Hebbian operator to a factor of couplings: its signal subspace, dreamed."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from hopfed._lib.arrays import to_host
from hopfed._lib.settings import require
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.noise import Sample
from hopfed.spectral.operators import HebbianOperator
from hopfed.spectral.rank import TracyWidom
from hopfed.spectral.sharpening import dream


def operator_factor(operator: HebbianOperator, time: float, rank: int | None) -> np.ndarray:
    """Return W (N, R) with ``J = W W^T``, the leading eigenpairs after dreaming `time`.

    The eigenvalues are scaled so that their mean is 1, as for orthogonal patterns.

    Parameters
    ----------
    operator : of +-1 examples.
    time : dreaming time; infinite for the projector.
    rank : R; counted by the Tracy-Widom test when None.

    Raises
    ------
    ArgumentError : no component is above the noise.

    Examples
    --------
    >>> from hopfed.spectral.operators import DenseOperator
    >>> x = np.array([[1, 1, 1, 1], [1, 1, 1, 1], [1, -1, 1, -1]])
    >>> operator_factor(DenseOperator.from_examples(x), np.inf, rank=1).round(2).ravel().tolist()
    [-0.5, -0.5, -0.5, -0.5]
    """
    if rank is None:

        def wanted(values: np.ndarray, whole: bool) -> int:
            sample = Sample(values, operator.n_sites, operator.n_examples, whole)
            return TracyWidom()(sample).n_detected

        spectrum = eigenpairs(operator, wanted)
    else:
        most = operator.n_sites
        whole = isinstance(rank, Integral) and 1 <= rank <= most
        require(whole, "rank", f"a whole number in 1 .. {most}", rank)
        spectrum = eigenpairs(operator, rank)
    vectors = to_host(spectrum.vectors).astype(np.float64)
    count = vectors.shape[1]
    require(count > 0, "source", "an operator with a component above the noise", "none")
    values = spectrum.values[:count]
    found: np.ndarray = vectors * np.sqrt(dream(values / values.mean(), time))
    return found
