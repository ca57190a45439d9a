"""`hopfed spectrum`: how many components a file of numbers shows beside its noise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from hopfed.cli.numbers import FINITE, SEED, WHOLE
from hopfed.cli.options import PATH, figure_option, json_option, option
from hopfed.cli.outputs import FIGURE, check_outputs, overwrite_option
from hopfed.cli.printing import out, say_wrote, table
from hopfed.errors import ArgumentError, DataError
from hopfed.runs import plain

NULLS = (
    "gaussian, entries, permutation, flips or shifts.  [default: entries, or the scrambling one "
    "that suits what is wrong with them]"
)
ROWS = 40  # components that are listed; --json has all


@click.command("spectrum")
@click.argument("file", type=PATH)
@click.option("--null", default="", help=NULLS)
@option("--level", "False-alarm rate.", FINITE, 0.01)
@option("--columns", "Or standardised, or raw.", default="centred")
@option("--ignore", "Columns to leave out.", multiple=True, metavar="COLUMN,...")
@option("--n-rows", "FILE is a covariance of so many rows.", WHOLE)
@option("--draws", "Most scrambled matrices for an eigenvalue.", WHOLE)
@option("--seed", "Of what is drawn.", SEED, 0)
@json_option
@figure_option
@overwrite_option
def spectrum_command(
    file: Path, figure: Path | None, as_json: bool, ignore: tuple[str, ...], **options: Any
) -> None:
    """Count the components of a table beyond its noise.

    FILE holds a number in each cell, or a gap. Each component has a p-value; what the null takes
    for granted is checked, and the status is "doubtful" where it does not hold.

    Example: hopfed spectrum returns.csv --columns standardised --figure spectrum.pdf
    """
    from hopfed.spectral.spectrum import spectrum
    from hopfed.tables.formats import read_numbers

    check_outputs(("--figure", figure, FIGURE), inputs=[file])
    left = [name for part in ignore for name in part.split(",")]
    try:
        found = spectrum(read_numbers(file, gaps=True, ignore=left), **options)
    except ArgumentError as error:
        if error.argument == "X":
            raise DataError(f"{file}: the table must be {error.rule}, got {error.got}") from None
        raise ArgumentError(
            f"--{error.argument.replace('_', '-')}", error.rule, error.got
        ) from None
    if figure is not None:
        from hopfed.figures import save

        save(found.plot(), figure)
    if as_json:
        print(json.dumps(plain(found.to_dict())))
        return
    grid = table("component", "eigenvalue", "p-value", "squared overlap", "error")
    for k in range(min(found.n_components, ROWS)):
        row = found.eigenvalues[k], found.p_values[k], found.overlaps[k], found.overlap_errors[k]
        grid.add_row(str(k + 1), *(f"{value:.3g}" for value in row))
    if found.n_components:
        out.print(grid)
    rest = "" if len(found.p_values) == found.n_components else f"; p = {found.p_values[-1]:.2g}"
    out.print(
        f"{found.n_components} components above the edge of {found.edge:.4g}, of "
        f"{found.shape[1]:,} columns and {found.shape[0]:,} degrees of freedom (null "
        f"{found.null}, level {found.level:g}); the next eigenvalue is noise{rest}"
    )
    out.print(f"status: {found.status}")
    for line in found.advice:
        out.print(line, markup=False)
    say_wrote(figure)
