"""Differential privacy: operators with calibrated noise, and what can still be recovered from them.

An operator and a budget come in; a noisy operator and the archetypes behind it go out.
"""

from hopfed._lib.lazy import offers

__getattr__, __dir__ = offers(__name__, __path__)
