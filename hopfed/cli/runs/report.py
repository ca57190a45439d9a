"""`hopfed report`: a self-contained page about one or several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hopfed.cli.outputs import PAGE, check_outputs, overwrite_option
from hopfed.cli.printing import err, human_bytes, out, shown
from hopfed.cli.tables.reading import NAMES, table_options
from hopfed.errors import ArgumentError


@click.command("report")
@click.argument(
    "run_files", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--out",
    "out_file",
    type=click.Path(path_type=Path),
    help="An .html file. [default: RUN.html, of several report.html]",
)
@click.option(
    "--rows",
    "row_files",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Table, or folder of tables, whose rows a page about archetypes lists by these; may "
    "be repeated.",
)
@overwrite_option
@table_options
def report_command(
    run_files: tuple[Path, ...], out_file: Path | None, row_files: tuple[Path, ...], **options: Any
) -> None:
    """Write a page about the run files RUN.

    It holds settings, tables, figures, versions, and the data, in one file. It works without a
    network and can be printed. That of a recovery, or of a federation, opens with the archetypes in
    words; with --rows it holds the names of at most 5,000 rows. These tables are read as `hopfed
    assign` reads them: --id, --ignore, --words and --binarize are for runs that do not say how.

    Example: hopfed report bbp.h5 --out bbp.html
    """
    from hopfed._lib.outputs import replacing
    from hopfed.report.page import page
    from hopfed.report.tables import load_complete
    from hopfed.tables.many_files import files_of

    row_files = tuple(file for given in row_files for file in files_of(given))
    if out_file is None:
        several = run_files[0].with_name("report.html")
        out_file = several if len(run_files) > 1 else run_files[0].with_suffix(".html")
    check_outputs(("--out", out_file, PAGE), inputs=(*run_files, *row_files))
    runs = {path.name: load_complete(path) for path in run_files}
    if len(runs) < len(run_files):
        raise ArgumentError("RUN", "files of different names", ", ".join(map(str, run_files)))
    data = page(runs, _answers(run_files, runs, row_files, options)).encode(
        errors="backslashreplace"
    )  # a lone surrogate has no UTF-8 bytes
    with replacing(out_file) as temporary:
        temporary.write_bytes(data)
    out.print(f"wrote {shown(out_file)} ({human_bytes(len(data))})")


def _answers(
    run_files: tuple[Path, ...],
    runs: dict[str, Any],
    row_files: tuple[Path, ...],
    options: dict[str, Any],
) -> Any:
    """What the archetypes of one run say of the rows of files; None where there are none."""
    from hopfed.archetypes.storage import has_archetypes
    from hopfed.cli.tables.found_file import found_for
    from hopfed.report.rows import answers_of

    given = [f"--{name}" for name in NAMES if options[name] not in (None, ())]
    if given and not row_files:
        raise ArgumentError(", ".join(given), "given with --rows", "none")
    if not row_files:
        return None
    kinds = [run.kind for run in runs.values()]
    if len(kinds) > 1 or not all(map(has_archetypes, runs.values())):
        raise ArgumentError("--rows", "given with one run that has archetypes", ", ".join(kinds))
    found = found_for(run_files[0], row_files, options)
    with err.status("assigning"):
        return answers_of(found, row_files)
