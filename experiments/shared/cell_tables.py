"""Printed tables of comparisons made of cells: the table of methods, and the sweeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hopfed.experiments import Table
from hopfed.experiments.shared.cells import Bench, Place, cells_of, readings_of

LAX = "best test round %"


def tables(
    bench: Bench, summary: dict[str, Any], paper: dict[str, str] | None = None
) -> list[Table]:
    """The table of methods, and one table per sweep.

    Parameters
    ----------
    paper : row -> value that the paper reports in this setting.
    """
    cells = [*cells_of(bench), *readings_of(bench)]
    made: list[Table] = []
    for section in dict.fromkeys(cell.section for cell in cells):
        ours = [cell for cell in cells if cell.section == section]
        if any(cell.at for cell in ours):
            made += _sweep(section, ours, summary, bench)
        else:
            made.append(_table(section, ours, summary, bench, paper or {}))
    return made


def _table(
    section: str,
    cells: Sequence[Place],
    summary: dict[str, Any],
    bench: Bench,
    paper: dict[str, str],
) -> Table:
    columns = ["accuracy %", "gain ± s.e.", f"gain, round {bench.early}", "worst tenth %"]
    apart = f"{cells[0].key}/unseen" in summary  # either all cells of a section or none
    columns += ["MB", "GFLOP"] + [LAX] * bench.lax
    columns += ["unseen clients %"] * apart + ["paper"] * bool(paper)
    rows = []
    for cell in cells:
        s = {name: summary[f"{cell.key}/{name}"] for name in _SHOWN}
        row = [percent(s[n], 1) for n in ("test",)]
        row += [percent(s[n], 2, sign=True) for n in ("gain", "early_gain")]
        row += [percent(s["decile"][:1], 1), _figures(s["megabytes"]), _figures(s["gigaflops"])]
        more = ["best_test"] * bench.lax + ["unseen"] * apart
        row += [percent(summary[f"{cell.key}/{name}"], 1) for name in more]
        rows.append((cell.row, *row, *([paper.get(cell.row, "")] if paper else [])))
    return Table(section, tuple(columns), tuple(rows))


_SHOWN = ("test", "gain", "early_gain", "decile", "megabytes", "gigaflops")


def _sweep(
    section: str, cells: Iterable[Place], summary: dict[str, Any], bench: Bench
) -> Iterator[Table]:
    """Tables of accuracy and, if the reference is swept too, of gains at the same value."""
    reference = bench.COMPARED[0]
    keys: dict[str, dict[str, str]] = {}
    for cell in cells:
        keys.setdefault(cell.row, {})[cell.at] = cell.key
    at = tuple(dict.fromkeys(x for found in keys.values() for x in found))

    def rows(name: str, digits: int, sign: bool) -> Iterator[tuple[str, ...]]:
        for row, found in keys.items():
            values = {x: summary.get(f"{key}/{name}") for x, key in found.items()}
            texts = {x: percent(v, digits, sign=sign) for x, v in values.items() if v}
            if texts:
                yield row, *(texts.get(x, "") for x in at)

    yield Table(section, at, tuple(rows("test", 1, False)))
    lax = tuple(rows("best_test", 1, False)) if bench.lax else ()
    if lax:
        yield Table(f"{section}: {LAX}", at, lax)
    if reference in keys:
        others = tuple(row for row in rows("gain", 2, True) if row[0] != reference)
        yield Table(f"{section}: gain ± s.e.", at, others)


def percent(value: Sequence[float | None], digits: int, *, sign: bool = False) -> str:
    """Mean and spread in percent.

    Examples
    --------
    >>> percent((0.0123, 0.004), 1, sign=True)
    '+1.2 ± 0.4'
    """
    mean, spread = value[0], value[1] if len(value) > 1 else None
    text = f"{100 * (mean or 0):{'+' if sign else ''}.{digits}f}"
    return text if spread is None else f"{text} ± {100 * spread:.{digits}f}"


def _figures(value: Sequence[float | None]) -> str:
    return f"{value[0]:.3g}"
