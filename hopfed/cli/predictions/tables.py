"""What the commands of `hopfed theory` share: options for numbers, tables, JSON and figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import click
import numpy as np

from hopfed.cli.numbers import Numbers
from hopfed.cli.outputs import FIGURE, check_outputs, figure_option, json_option, overwrite_option
from hopfed.cli.printing import out, shown, table
from hopfed.errors import ArgumentError
from hopfed.runs import plain

# What the laws call an argument -> its option, where that has another name.
ARGUMENTS = {
    "false_alarm": "--alpha",
    "delta": "--level",
    "exposures": "--exposure",
    "qualities": "--r",
}

Columns = Mapping[str, Any]  # name -> array or number, broadcast against each other


def numbers(flag: str, name: str, text: str, default: str | None = None) -> Callable[..., Any]:
    """Option that takes one number or several."""
    return click.option(
        flag, name, type=Numbers(), default=default, show_default=default is not None, help=text
    )


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json and --figure, the same for all predictions; name the options in errors."""
    return json_option(figure_option(overwrite_option(_by_flags(command))))


def _by_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with errors of the option that was given, not of the law's argument."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        check_outputs(("--figure", options["figure"], FIGURE))
        try:
            return command(*args, **options)
        except ArgumentError as error:
            flag = _flag(error.argument)
            if flag == error.argument:
                raise
            raise ArgumentError(flag, error.rule, error.got) from error

    return run


def _flag(argument: str) -> str:
    """Option of the command that is running from which a law has its argument."""
    held = {flag for param in click.get_current_context().command.params for flag in param.opts}
    names = (f"--{argument}", ARGUMENTS.get(argument, ""))
    return next((flag for flag in names if flag in held), argument)


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
