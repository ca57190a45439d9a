"""What the commands of `hopfed theory` share: options for numbers, tables, JSON and figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import click
import numpy as np

from hopfed.cli.numbers import Numbers
from hopfed.cli.printing import out, shown, table
from hopfed.cli.runs.figure import figure_option
from hopfed.runs import plain

Columns = Mapping[str, Any]  # name -> array or number, broadcast against each other


def numbers(flag: str, name: str, text: str, default: str | None = None) -> Callable[..., Any]:
    """Option that takes one number or several."""
    return click.option(
        flag, name, type=Numbers(), default=default, show_default=default is not None, help=text
    )


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json and --figure, the same for all predictions."""
    command = figure_option(command)
    return click.option("--json", "as_json", is_flag=True, help="Print as JSON.")(command)


def show(
    tables: Mapping[str, Columns], options: Mapping[str, Any], name: str, **drawn: Any
) -> None:
    """Print the tables as text or JSON, and draw the figure `name` when one was asked for."""
    rows = {title: _rows(columns) for title, columns in tables.items()}
    if options["as_json"]:
        print(json.dumps(plain(rows)))
    else:
        for place, records in enumerate(rows.values()):
            if place:
                out.print("")
            grid = table(*records[0])
            for record in records:
                grid.add_row(*(cell(value) for value in record.values()))
            out.print(grid)
    if options["figure"] is not None:
        from hopfed.figures import save, theory

        save(getattr(theory, name)(**drawn), options["figure"])
        if not options["as_json"]:
            out.print(f"wrote {shown(options['figure'])}")


def _rows(columns: Columns) -> list[dict[str, Any]]:
    arrays = np.broadcast_arrays(*(np.asarray(c) for c in columns.values()))
    flat = [np.atleast_1d(a).ravel().tolist() for a in arrays]
    return [dict(zip(columns, row, strict=True)) for row in zip(*flat, strict=True)]


def cell(value: Any) -> str:
    """Print a number, a truth value or a word."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if np.isnan(value):
        return "-"
    return f"{int(value)}" if value == np.round(value) and abs(value) < 1e12 else f"{value:.6g}"
