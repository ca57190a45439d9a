"""From an operator and its counted spectrum to archetypes and a status.

A spectrum, its rank and (where there are any) group projections come in; binary patterns, their
exposures and scores, and what can be said of them in words go out.
"""

from hopfed._lib.lazy import offers

__getattr__, __dir__ = offers(__name__, __path__)
