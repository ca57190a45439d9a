"""`hopfed bench`: the same work done two ways, in one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from hopfed.cli.output import err, human_bytes, out, table


@click.group("bench", context_settings={"show_default": True})
def bench_command() -> None:
    """Measure hopfed against the obvious way, on this machine.

    Example: hopfed bench recover --seeds 3
    """


@bench_command.command("recover")
@click.option("--seeds", type=click.IntRange(min=1), default=10, help="Seeds of every case.")
@click.option(
    "--silhouettes",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Caltech-101 Silhouettes (.npz with images and labels), for the correlated cases.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def bench_recover(seeds: int, silhouettes: Path | None, as_json: bool) -> None:
    """Recover archetypes in full; compare with the paper's dense algorithm; measure memory.

    Example: hopfed bench recover --seeds 3
    """
    from hopfed.bench.recover import memory_row, ratio_row, recovery_rows

    with err.status("warming up") as status:
        rows = []
        for row in recovery_rows(seeds, silhouettes):
            rows.append(row)
            status.update(f"{len(rows)} cases done")
        status.update("against the paper's algorithm")
        ratio = ratio_row(min(seeds, 3))
        status.update("peak memory")
        memory = memory_row()
    if as_json:
        print(json.dumps({"recovery": rows, "ratio": ratio, "memory": memory}))
        return
    _print(rows, ratio, memory)


def _print(rows: list[dict], ratio: dict[str, Any], memory: dict[str, Any]) -> None:
    names = ("N", "K", "M", "r", "clients", "method", "archetypes")
    grid = table(*names, "complete", "false", "median s", "worst s")
    for row in rows:
        grid.add_row(
            *(str(row["case"][n]) for n in names),
            f"{row['complete']}/{row['seeds']}",
            str(row["false_discoveries"]),
            f"{row['seconds_median']:.2f}",
            f"{row['seconds_max']:.2f}",
        )
    out.print(grid)
    out.print("complete: every archetype at |m| >= 0.99; worst s includes compilation, once\n")
    case = ratio["case"]
    out.print(
        f"against the paper's algorithm done densely, N={case['N']} K={case['K']} M={case['M']}: "
        f"{ratio['ratio']:.0f} times faster ({ratio['seconds']:.2f} s against "
        f"{ratio['seconds_dense']:.1f} s), mean magnetisation {ratio['magnetisation']:.3f} "
        f"against {ratio['magnetisation_dense']:.3f}"
    )
    case = memory["case"]
    out.print(
        f"N={case['N']:,} K={case['K']} M={case['M']:,}: {memory['found']}/{case['K']} found, peak "
        f"memory {human_bytes(memory['peak_bytes'])}, {memory['seconds']:.1f} s"
    )
