"""`hopfed report`: a self-contained page about one or several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hopfed.cli.printing import err, human_bytes, out, shown
from hopfed.errors import ArgumentError


@click.command("report")
@click.argument(
    "run_files", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--out",
    "out_file",
    type=click.Path(path_type=Path),
    help="An .html file, replaced if it is there. [default: RUN.html]",
)
@click.option(
    "--rows",
    "row_files",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Table, or folder of tables, whose rows a page about a recovery lists by archetype; may "
    "be repeated.",
)
def report_command(
    run_files: tuple[Path, ...], out_file: Path | None, row_files: tuple[Path, ...]
) -> None:
    """Write a page about the run files RUN.

    It holds settings, tables, figures, versions, and the data, in one file. It works without a
    network and can be printed. That of a recovery opens with the answer in words; with --rows it
    holds the names of at most 5,000 rows.

    Example: hopfed report bbp.h5 --out bbp.html
    """
    from hopfed._lib.outputs import PAGE, check_outputs, replacing
    from hopfed.report.page import page
    from hopfed.report.tables import load_complete
    from hopfed.tables.many_files import files_of

    row_files = tuple(file for given in row_files for file in files_of(given))
    out_file = run_files[0].with_suffix(".html") if out_file is None else out_file
    check_outputs(("--out", out_file, PAGE), inputs=(*run_files, *row_files))
    runs = {path.name: load_complete(path) for path in run_files}
    if len(runs) < len(run_files):
        raise ArgumentError("RUN", "files of different names", ", ".join(map(str, run_files)))
    data = page(runs, _answers(runs, row_files)).encode(
        errors="backslashreplace"
    )  # a lone surrogate has no UTF-8 bytes
    with replacing(out_file) as temporary:
        temporary.write_bytes(data)
    out.print(f"wrote {shown(out_file)} ({human_bytes(len(data))})")


def _answers(runs: dict[str, Any], row_files: tuple[Path, ...]) -> Any:
    """What the one recovery says of the rows of files; None where there are none."""
    from hopfed.archetypes.storage import KIND
    from hopfed.report.recovery import archetypes_of
    from hopfed.report.rows import answers_of
    from hopfed.runs import blaming

    if not row_files:
        return None
    kinds = [run.kind for run in runs.values()]
    if kinds != [KIND]:
        raise ArgumentError("--rows", "given with one run, that of a recovery", ", ".join(kinds))
    ((name, run),) = runs.items()
    with blaming(name, run.kind):
        found = archetypes_of(name, run)
    with err.status("assigning"):
        return answers_of(found, row_files)
