"""Hebbian operators and their spectra: from packed examples to a counted, sharpened spectrum.

Examples come in as bits (`hopfed.kernels.Rows`); operators, eigenpairs, the number of
components above the noise and the law of that noise go out.
"""

from hopfed._lib.lazy import offers

__getattr__, __dir__ = offers(__name__, __path__)
