"""Differential privacy: operators with calibrated noise, and what can still be recovered."""

from hopfed._lib.lazy import offers

__getattr__, __dir__ = offers(__name__, __path__)
