"""The figure of `hopfed run sohip`: methods and sweeps."""

from __future__ import annotations

from hopfed.figures._methods import draw, draw_sections, draw_whole, has_more_sections

__all__ = ["draw", "draw_sections", "draw_whole", "has_more_sections"]
