"""What commands print: tables, status lines and numbers of bytes."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False)


def human_bytes(count: float) -> str:
    """Number of bytes in words.

    Examples
    --------
    >>> human_bytes(1_536)
    '1.5 kB'
    """
    if count < 1000:
        return f"{count:.0f} B"
    power = min(int(math.log(count, 1000)), 3)
    return f"{count / 1000**power:.1f} {('B', 'kB', 'MB', 'GB')[power]}"


def table(*columns: str) -> Table:
    """Return an empty table with right-aligned columns in the house style."""
    grid = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        grid.add_column(name, justify="right")
    return grid
