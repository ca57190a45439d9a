"""Associative memory: patterns are stored and recalled.

Input is patterns or an operator; output is the states to which cues relax.
"""

from hopfed._lib.lazy_imports import lazy_names

_HOMES = {
    "AssociativeMemory": "associative",
    "Basins": "basins",
    "Recall": "associative",
}
_RULES = ("Dense", "Dreamed", "Exponential", "Hebb", "Layered", "Projector")

__getattr__, __dir__ = lazy_names(__name__, __path__, _HOMES | dict.fromkeys(_RULES, "rules"))
