"""Associative memory: patterns are stored and recalled.

Input is patterns or an operator; output is the states to which cues relax.
"""

from hopfed._lib.lazy import offers

_HOMES = {
    "AssociativeMemory": "associative",
    "Basins": "basins",
    "Recall": "associative",
}
_RULES = ("Dense", "Dreamed", "Exponential", "Hebb", "Layered", "Projector")

__getattr__, __dir__ = offers(__name__, __path__, _HOMES | dict.fromkeys(_RULES, "rules"))
