"""Hebbian operators and their spectra: from bits to operators, eigenpairs and counts."""

from hopfed._lib.lazy import offers

__getattr__, __dir__ = offers(__name__, __path__)
