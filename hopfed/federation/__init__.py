"""Federations: one contract for every method, one round loop, and engines that carry it out.

A `contract` says what methods and engines offer, `messages` are checked and counted, and `rounds`
go from state to state; `machines` are `hopfed serve` and `hopfed join`.
"""

from hopfed._lib.lazy_imports import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __path__)
