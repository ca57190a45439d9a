"""`hopfed bench`: times of the same work done in two ways, in one process."""

from __future__ import annotations

import json
from datetime import date
from functools import partial
from typing import Any

import click

from hopfed import bench
from hopfed._lib.settings import hint, require
from hopfed.cli.options import device_option, json_option, option
from hopfed.cli.printing import Screen, named, out, progress_bar, table
from hopfed.kernels.place import place

WIDE = Screen(width=140)  # of tables in a file
SIZES = "Small: seconds for each benchmark. Full: a minute or two."
HARDWARE = ("processor", "cores", "kernel threads", "memory", "BLAS", "GPU")


@click.command("bench")
@click.argument("name", required=False)
@option("--sizes", SIZES, ("small", "full"), "small")
@device_option("both ways run")
@json_option
def bench_command(name: str | None, sizes: str, as_json: bool, device: str) -> None:
    """Time hopfed against the plain way on this machine.

    Without NAME, the benchmarks are listed. Calls are made in turn; a time is the median of the
    samples, the ratio that of the plain way's to it, the spread half the distance of the quartiles.

    Example: hopfed bench gram --sizes full
    """
    if name is None:
        summaries, machine = {name: bench.summary(name) for name in bench.NAMES}, bench.describe()
        if as_json:
            print(json.dumps({"benchmarks": summaries, "machine": machine}))
            return
        for each, words in summaries.items():
            out.print(named(each, words))
        out.print("")
        _print_machine(machine)
        out.print("\nRun one with: hopfed bench NAME")
        return
    rule = f"one of {', '.join(bench.NAMES)}{hint(name, bench.NAMES)}"
    require(name in bench.NAMES, "benchmark", rule, repr(name))
    pairs = [each for each in bench.PAIRS if name in (each, "all")]
    found: dict[str, Any] = {"date": date.today().isoformat(), "sizes": sizes}
    with progress_bar("{task.description}") as bar, place(device).current():
        task = bar.add_task("loading", total=None)
        say = partial(bar.update, task)
        found |= bench.measure(pairs, sizes, lambda said: say(description=said), device)
    if as_json:
        print(json.dumps(found))
        return
    _print_machine(found["machine"])
    for each, held in found["benchmarks"].items():
        _print_pair(each, held)


def _print_machine(machine: dict[str, str]) -> None:
    for name in HARDWARE:
        out.print(f"{name}: {machine[name]}")
    versions = (f"{name} {word}" for name, word in machine.items() if name not in HARDWARE)
    out.print("versions: " + ", ".join(versions))


def _print_pair(name: str, found: dict[str, Any]) -> None:
    """Print a row for each way at each size."""
    out.print("")
    out.print(named(name, found["summary"]))
    grid = table("size", "device", "way", "seconds", "spread", "ratio", "gap")
    for row in found["rows"]:
        forms = {"seconds": ".3g", "spread": ".0%", "ratio": ".2f", "gap": ".1g"}
        cells = ["" if row[name] is None else format(row[name], f) for name, f in forms.items()]
        what = bench.words(row["point"]), row["device"], row["way"]
        grid.add_row(*what, *([row["absent"]] if row["absent"] else cells))
    (out if out.is_terminal else WIDE).print(grid)
