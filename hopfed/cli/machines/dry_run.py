"""`hopfed join --dry-run`: what would leave a client; nothing is written."""

from __future__ import annotations

from typing import Any

from hopfed.cli.printing import human_bytes, out, shown
from hopfed.cli.tables.reading import by_code

READ = 10  # codings that are printed
TRUST = "whoever runs the server can learn single rows of yours: it subtracts answers"


def show(held: Any, rows: Any, epsilon: float | None, delta: float, ledger: Any) -> None:
    """Print how a table is read, what would leave, who could learn what, and what left before."""
    M, N = rows.shape
    names, codes = held.coding.names, map(str, held.coding.codes)
    out.print(f"{M:,} rows of {N:,} columns, read so, as all owners must read theirs:")
    for code, columns in by_code(dict(zip(names, codes, strict=True)))[:READ]:
        out.print(f"  {shown(code)}: {shown(columns)}")
    for line in held.notes:
        out.print(f"  {shown(line)}")
    pairs = human_bytes(4 * N * (N - 1) // 2)
    out.print(
        "\nWhat would leave, with the number of rows: in how many rows each pair of columns agrees "
        f"({pairs} in whole numbers), or, where the server asks for classes (serve --graded), sums "
        "over classes of rows that it names. No row, and no name of a column: digests of them."
    )
    if rows.gaps:
        out.print("These rows have gaps: only a server that asks for classes takes them.")
    if epsilon is None:
        out.print(
            "Without noise: exact sums, also of random groups of rows along directions, and of the "
            f"rows nearest to patterns, that the server names. So {TRUST}."
        )
        if ledger.released(rows):
            out.print("These rows have a privacy budget: every question is refused, join --epsilon")
    else:
        ledger.check(rows)
        out.print(
            f"With noise on each sum: all answers of all rounds tell of a row what epsilon "
            f"{epsilon:g} and delta {delta:g} say, whatever is asked and whoever runs the server."
        )
        terms = ledger.terms(rows)
        if terms is not None:
            out.print(
                f"By the ledger in HOPFED_HOME they are released with {terms}: the same is "
                "answered with the same bits, and other terms are refused."
            )
    out.print("Other clients learn the archetypes that the server tells to all.\nNothing was sent.")
