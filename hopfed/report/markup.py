"""Templates of a page: every text of a run is escaped, and shown as one harmless line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from hopfed.errors import shown

LONGEST = 10_000  # characters of a text


def _harmless(value: Any) -> Any:
    """A value as the page holds it: nothing in it steers a terminal; markup is left as it is."""
    return value if isinstance(value, Markup) else shown(value, LONGEST)


PARTS = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_harmless,
)


def rendered(part: str, *values: Any) -> Markup:
    """Return a part of the page, a macro of parts.html, as markup."""
    made: Markup = getattr(PARTS.get_template("parts.html").module, part)(*values)
    return made
