"""Hebbian operators and their spectra: from bits to operators, eigenpairs and counts."""

from hopfed._lib.lazy_imports import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __path__)
