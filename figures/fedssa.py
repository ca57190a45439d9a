"""The figure of `hopfed run fedssa`: methods and sweeps."""

from __future__ import annotations

from hopfed.figures._methods import draw

__all__ = ["draw"]
