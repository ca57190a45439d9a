"""Figures, drawn from run files alone, in one style, saved completely or not at all.

Pictures of experiments are pages of panels of a few kinds (`hopfed.figures.kinds`). Pictures are at
most as wide as a page, 180 mm, and their text has at least 7 pt there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hopfed._lib.lazy_imports import lazy_names
from hopfed._lib.outputs import replacing

__getattr__, __dir__ = lazy_names(__name__, __path__)


def save(figure: Any, path: str | Path) -> None:
    """Save a `figure` of this package as .png, .pdf or .svg, completely or not at all."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=200)
