"""Whether a table is fit for a federation: said before a server is asked."""

from __future__ import annotations

from typing import Any

from hopfed.errors import DataError
from hopfed.tables.options import Choices

DIFFERING = ("words", "category", "cut")  # what owners with other rows decide otherwise


def check_fit(table: Any, choices: Choices, noisy: bool) -> None:
    """Fail where a column is coded by what the rows hold.

    Other owners' rows decide otherwise, so that +1 means something else there. With noise one row
    changes others, which the noise does not hide.
    """
    from hopfed.cli.machines.settling import settling
    from hopfed.tables.choosing import unsettled
    from hopfed.tables.table import listed

    found = unsettled(table.coding, choices, gaps=noisy)
    if not noisy:
        found = {name: reason for name, reason in found.items() if reason in DIFFERING}
    if not found:
        return
    options = settling(found, table.coding, choices)
    why = "one row changes others, which the noise of --epsilon does not hide"
    if not noisy:
        why = "other owners' columns mean something else"
    raise DataError(
        f"--data: what the rows hold decides how column {listed(list(found))} is coded, so that "
        f"{why}; say it yourself, all owners alike, without these rows: {options}"
    )
