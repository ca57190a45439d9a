"""`hopfed report`: one self-contained page about one run or several."""

from __future__ import annotations

from pathlib import Path

import click

from hopfed.cli.output import human_bytes, out
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

    The page is one file, works without a network, and prints.

    Example: hopfed report bbp.h5 --out bbp.html
    """
    from hopfed.report import page
    from hopfed.runs import Run, check_writable, replacing

    if out_file.suffix.lower() not in (".html", ".htm"):
        raise ArgumentError("--out", "an .html file", out_file)
    check_writable(out_file, "--out")
    runs = {path.name: Run.load(path, complete=True) for path in run_files}
    if len(runs) < len(run_files):
        raise ArgumentError("RUN", "files of different names", ", ".join(map(str, run_files)))
    text = page(runs)
    with replacing(out_file) as temporary:
        temporary.write_text(text, encoding="utf-8")
    out.print(f"wrote {out_file} ({human_bytes(len(text.encode()))})", markup=False)
