"""The figure of `Archetypes.relate`: estimates of each class with their 95% intervals."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from hopfed.errors import shown
from hopfed.figures.kinds import over, page
from hopfed.figures.style import literal

MOST = 8  # names that are drawn


def draw(related: Any) -> Figure:
    """Draw a `hopfed.archetypes.relate.Relation`."""
    first = int(related.kind == "log odds")  # the constant says nothing of covariates
    numbers, spans = [f"{k + 1}" for k in range(len(related.estimates))], related.intervals()
    words: dict[str, Any] = {"xlabel": "archetype", "ylabel": f"{related.kind}, 95% intervals"}
    words |= {"points": True, "legend": "", "levels": {"test": 0.0} if first else {}}
    made = []
    for j, name in list(enumerate(related.names))[first : first + MOST]:
        lines = {"": (related.estimates[:, j], *spans[:, j].T)}
        made.append(over(literal(shown(name, 40)), numbers, lines, **words))
    return page(made)
