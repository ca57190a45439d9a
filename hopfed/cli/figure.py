"""`hopfed figure`: draw a run file."""

from __future__ import annotations

from pathlib import Path

import click

from hopfed.cli.output import out
from hopfed.errors import ArgumentError, RunFileError

FORMATS = (".png", ".pdf", ".svg")


@click.command("figure")
@click.argument(
    "run_files", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--out", "out_file", required=True, type=click.Path(path_type=Path), help=".png, .pdf or .svg."
)
def figure_command(run_files: tuple[Path, ...], out_file: Path) -> None:
    """Draw the run file RUN, or several runs of `hopfed fl run` side by side.

    The files are all that is needed.

    Example: hopfed figure bbp.h5 --out bbp.png
    """
    from hopfed.figures import drawer, save
    from hopfed.runs import Run

    check_figure(out_file, "--out")
    runs = [Run.load(path, complete=True) for path in run_files]
    kinds = sorted({run.kind for run in runs})
    if len(kinds) > 1:
        raise ArgumentError("RUN", "runs of one kind, to be drawn together", ", ".join(kinds))
    draw = drawer(kinds[0], several=len(runs) > 1)
    if draw is None:
        what = "for several runs" if len(runs) > 1 else "for runs"
        raise RunFileError(f"{run_files[0]}: there is no figure {what} of {kinds[0]!r}")
    save(draw(runs) if len(runs) > 1 else draw(runs[0]), out_file)
    out.print(f"wrote {out_file}", markup=False)


def check_figure(path: Path, argument: str) -> None:
    """Refuse, before anything is computed, a figure that could not be written."""
    from hopfed.runs import check_writable

    if path.suffix.lower() not in FORMATS:
        raise ArgumentError(argument, f"a {', '.join(FORMATS)} file", path)
    check_writable(path, argument)
