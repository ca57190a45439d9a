"""`hopfed figure`: draw a run file."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from hopfed.cli.output import out
from hopfed.errors import ArgumentError, RunFileError

FORMATS = (".png", ".pdf", ".svg")

# Runs that are no experiments of `hopfed.experiments`, and the module that draws them.
_OTHERS = {"recover": "recovery", "fl": "fl"}


@click.command("figure")
@click.argument("run_file", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--out", "out_file", required=True, type=click.Path(path_type=Path), help=".png, .pdf or .svg."
)
def figure_command(run_file: Path, out_file: Path) -> None:
    """Draw the run file RUN; the file is all that is needed.

    Example: hopfed figure bbp.h5 --out bbp.png
    """
    from hopfed.runs import Run

    check_figure(out_file, "--out")
    run = Run.load(run_file, complete=True)
    draw = drawer(run.kind)
    if draw is None:
        raise RunFileError(f"{run_file}: there is no figure for runs of {run.kind!r}")
    from hopfed.figures import save

    save(draw(run), out_file)
    out.print(f"wrote {out_file}", markup=False)


def check_figure(path: Path, argument: str) -> None:
    """Refuse, before anything is computed, a figure that could not be written."""
    from hopfed.runs import check_writable

    if path.suffix.lower() not in FORMATS:
        raise ArgumentError(argument, f"a {', '.join(FORMATS)} file", path)
    check_writable(path, argument)


def drawer(kind: str) -> Any:
    """Return the `draw` of runs of `kind`, or None."""
    from hopfed.experiments import NAMES

    name = kind if kind in NAMES else _OTHERS.get(kind)
    return None if name is None else import_module(f"hopfed.figures.{name}").draw
