"""`hopfed report`: a self-contained page about one or several runs."""

from __future__ import annotations

from pathlib import Path

import click

from hopfed.cli.output import human_bytes, out, shown
from hopfed.errors import ArgumentError


@click.command("report")
@click.argument(
    "run_files", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--out", "out_file", required=True, type=click.Path(path_type=Path), help=".html to write."
)
def report_command(run_files: tuple[Path, ...], out_file: Path) -> None:
    """Write a page about the run files RUN: settings, tables, figures, versions, and the data.

    The page is one file. It works without a network and can be printed.

    Example: hopfed report bbp.h5 --out bbp.html
    """
    from hopfed._lib.outputs import PAGE, check_outputs, replacing
    from hopfed.report.page import page
    from hopfed.report.tables import load_complete

    check_outputs(("--out", out_file, PAGE), inputs=run_files)
    runs = {path.name: load_complete(path) for path in run_files}
    if len(runs) < len(run_files):
        raise ArgumentError("RUN", "files of different names", ", ".join(map(str, run_files)))
    data = page(runs).encode(errors="backslashreplace")  # a lone surrogate has no UTF-8 bytes
    with replacing(out_file) as temporary:
        temporary.write_bytes(data)
    out.print(f"wrote {shown(out_file)} ({human_bytes(len(data))})")
