"""The figure of `hopfed.compare`: criteria and what is left, over the number of archetypes."""

from __future__ import annotations

from typing import Any

from hopfed.figures.kinds import over, page


def draw(compared: Any) -> Any:
    """Draw a `hopfed.recovery.compare.Comparison`."""
    table = compared.table
    criteria = {name: [table[name]] for name in ("BIC", "AIC")}
    left = {
        "columns left dependent (1: none)": [table["residual"]],
        "entropy (1: rows are sure)": [table["entropy"]],
    }
    titles, made = {"criteria, lower is better": criteria, "what the rows say": left}, []
    for title, lines in titles.items():
        ends = [min(min(y) for (y,) in lines.values()), max(max(y) for (y,) in lines.values())]
        taken = {"taken by hopfed": ([len(compared.taken)] * 2, ends)}
        words = {"xlabel": "archetypes", "xticks": table["archetypes"]}
        made.append(over(title, table["archetypes"], lines, taken, **words))
    return page(made)
