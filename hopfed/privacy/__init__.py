"""Differential privacy: operators with calibrated noise, and recovery from them."""

from hopfed._lib.lazy import offers

__getattr__, __dir__ = offers(__name__, __path__)
