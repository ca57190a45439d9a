"""Differential privacy: operators with calibrated noise, and recovery from them."""

from hopfed._lib.lazy_imports import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __path__)
