"""Hebbian operators and their spectra: bits come in; operators, eigenpairs and counts go out."""

from hopfed._lib.lazy import offers

__getattr__, __dir__ = offers(__name__, __path__)
