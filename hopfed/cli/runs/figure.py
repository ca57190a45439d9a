"""`hopfed figure`: draw a run file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from hopfed.cli.outputs import FIGURE, check_outputs, overwrite_option
from hopfed.cli.printing import out, shown
from hopfed.errors import ArgumentError, RunFileError
from hopfed.runs import Run


@click.command("figure")
@click.argument(
    "run_files", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--out",
    "out_file",
    type=click.Path(path_type=Path),
    help="A .png, .pdf or .svg file. [default: RUN.png]",
)
@overwrite_option
@click.option("--whole", is_flag=True, help="Draw all panels, and not only the first ones.")
@click.option("--sections", metavar="NAME,...", help="Draw these sweeps of many methods, up to 6.")
def figure_command(
    run_files: tuple[Path, ...], out_file: Path | None, whole: bool, sections: str | None
) -> None:
    """Draw the run file RUN.

    Several runs of `hopfed fl run` are drawn side by side. The run files hold all data of the
    figure.

    Example: hopfed figure bbp.h5 --out bbp.png
    """
    from hopfed.figures import drawer, has_more_sections, save
    from hopfed.report.tables import load_complete
    from hopfed.runs import blaming

    out_file = run_files[0].with_suffix(".png") if out_file is None else out_file
    check_outputs(("--out", out_file, FIGURE), inputs=run_files)
    runs = [load_complete(path) for path in run_files]
    kinds = sorted({run.kind for run in runs})
    if len(kinds) > 1:
        raise ArgumentError("RUN", "runs of one kind, to be drawn together", ", ".join(kinds))
    if sections is not None:
        if len(runs) > 1 or whole:
            raise ArgumentError("--sections", "with one RUN, and without --whole", sections)
        draw = partial(_sections(runs[0], run_files[0]), names=sections.split(","))
    else:
        draw = drawer(kinds[0], several=len(runs) > 1, whole=whole)
    if draw is None:
        what = "for several runs" if len(runs) > 1 else "for runs"
        raise RunFileError(f"{run_files[0]}: there is no figure {what} of {kinds[0]!r}")
    with blaming(", ".join(map(str, run_files)), kinds[0]):
        save(draw(runs) if len(runs) > 1 else draw(runs[0]), out_file)
        more = len(runs) == 1 and not whole and has_more_sections(runs[0])
    out.print(f"wrote {shown(out_file)}" + "; --whole draws all panels" * more)


def _sections(run: Run, path: Path) -> Callable[..., Any]:
    """Return the function that draws sections of `run`, which is at `path`."""
    from hopfed.figures import sections_drawer

    draw: Callable[..., Any] | None = sections_drawer(run.kind)
    if draw is None:
        raise RunFileError(f"{path}: runs of {run.kind!r} have no sections")
    return draw
