"""`hopfed figure`: draw a run file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hopfed._lib.outputs import FIGURE, check_outputs
from hopfed.cli.printing import out, shown
from hopfed.errors import ArgumentError, RunFileError


@click.command("figure")
@click.argument(
    "run_files", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--out", "out_file", required=True, type=click.Path(path_type=Path), help=".png, .pdf or .svg."
)
def figure_command(run_files: tuple[Path, ...], out_file: Path) -> None:
    """Draw the run file RUN, or several runs of `hopfed fl run` side by side.

    The run files hold all data of the figure.

    Example: hopfed figure bbp.h5 --out bbp.png
    """
    from hopfed.figures import drawer, save
    from hopfed.report.tables import load_complete
    from hopfed.runs import blaming

    check_outputs(("--out", out_file, FIGURE), inputs=run_files)
    runs = [load_complete(path) for path in run_files]
    kinds = sorted({run.kind for run in runs})
    if len(kinds) > 1:
        raise ArgumentError("RUN", "runs of one kind, to be drawn together", ", ".join(kinds))
    draw = drawer(kinds[0], several=len(runs) > 1)
    if draw is None:
        what = "for several runs" if len(runs) > 1 else "for runs"
        raise RunFileError(f"{run_files[0]}: there is no figure {what} of {kinds[0]!r}")
    with blaming(", ".join(map(str, run_files)), kinds[0]):
        save(draw(runs) if len(runs) > 1 else draw(runs[0]), out_file)
    out.print(f"wrote {shown(out_file)}")


def figure_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --figure; a file that cannot be written is refused at once."""
    return click.option(
        "--figure",
        type=click.Path(path_type=Path),
        callback=_checked,
        help="Draw to .png, .pdf or .svg.",
    )(command)


def _checked(_: Any, __: Any, value: Path | None) -> Path | None:
    check_outputs(("--figure", value, FIGURE))
    return value
