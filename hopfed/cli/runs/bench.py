"""`hopfed bench`: times of the same work done in two ways, in one process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import click

from hopfed.bench import NAMES, PAIRS, check_name, load
from hopfed.cli.device import device_option, on_the_processor
from hopfed.cli.numbers import Whole
from hopfed.cli.outputs import FIGURE, check_outputs, figure_option, overwrite_option
from hopfed.cli.printing import Screen, human_bytes, named, out, progress_bar, shown, table
from hopfed.errors import ArgumentError
from hopfed.kernels.place import place

SEEDS = 10
WIDTH = 140  # width of tables that are not printed on a terminal


@click.command("bench")
@click.argument("name", required=False)
@click.option(
    "--sizes",
    type=click.Choice(["small", "full"]),
    default="small",
    show_default=True,
    help="Small: seconds for each benchmark. Full: a minute or two; only full measures targets.",
)
@device_option("both ways run")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@figure_option
@overwrite_option
@click.option("--seeds", type=Whole(1), help=f"For recover: seeds per case. [default: {SEEDS}]")
@click.option("--clients", metavar="5,10,...", help="For clients: numbers of client processes.")
@click.option("--columns", type=Whole(2), help="For clients: of their tables. [default: 200]")
@click.option(
    "--silhouettes",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="For recover: Caltech-101 Silhouettes (.npz with images, labels), for correlated cases.",
)
def bench_command(name: str | None, as_json: bool, figure: Path | None, **options: Any) -> None:
    """Time hopfed against the plain way on this machine.

    Without NAME, the benchmarks are listed. Times are the shortest of several calls, made in turn.
    A share is relative to the limiting ceiling of the machine: copy bandwidth, matrix rate, or rate
    of exclusive-or and population count. Ceilings are measured first. Data that stay in a cache can
    exceed copy bandwidth.

    Example: hopfed bench gram --sizes full --figure gram.png
    """
    if name is None:
        _list(as_json)
        return
    _check(check_name(name), figure, options)
    if name == "clients":
        _bench_clients(as_json, options)
        return
    pairs = _pairs(name, options["device"])
    with place(options["device"]).current(), _progress(_steps(name, pairs, options)) as tell:
        run, recovery = _measure(name, pairs, options, tell)
    result: dict[str, Any] = dict(run.summary) if run else {}
    if figure:
        from hopfed.figures import save
        from hopfed.figures.bench import draw

        save(draw(run), figure)
    if recovery:
        result = {**result, "recover": recovery} if pairs else recovery
    if as_json:
        _print_json(options, result)
        return
    if pairs:
        _print_pairs(result)
    if recovery:
        _print_recovery(recovery)
    if figure:
        out.print(f"\nwrote {shown(figure)}")


def _bench_clients(as_json: bool, options: dict[str, Any]) -> None:
    """Measure a server and its clients as processes."""
    from hopfed.cli.runs.bench_clients import measured, numbers, print_clients

    on_the_processor(options["device"], "a server and its clients have no way to run there")
    with _progress(len(numbers(options))) as tell:
        found = measured(options, tell)
    if as_json:
        _print_json(options, found)
        return
    _print_machine(found["machine"])
    print_clients(found, _wide())


def _print_json(options: dict[str, Any], found: dict[str, Any]) -> None:
    print(json.dumps({"date": date.today().isoformat(), "sizes": options["sizes"]} | found))


def _measure(name: str, pairs: list[str], options: dict[str, Any], tell: Any) -> tuple[Any, Any]:
    """Return the run of the `pairs` and the report of the recovery; None if not requested."""
    run = recovery = None
    if pairs:
        from hopfed.bench.harness.devices import named as device_named
        from hopfed.bench.harness.report import measure

        device = device_named(options["device"])
        run = measure([load(n) for n in pairs], options["sizes"], tell, device)
    if name in ("recover", "all"):
        from hopfed.bench.cases import measure_recovery

        seeds = options["seeds"] or SEEDS
        files, device = options["silhouettes"], options["device"]
        recovery = measure_recovery(options["sizes"], seeds, files, tell, device)
    return run, recovery


def _pairs(name: str, device: str) -> list[str]:
    """Pairs that `name` asks for, of "all" those that can run on the device."""
    if name == "all":
        return [n for n in PAIRS if device == "cpu" or load(n).cuda]
    if name in PAIRS and not load(name).cuda:
        on_the_processor(device, f"the pair {name} has no way to run there")
    return [name] if name in PAIRS else []


def _steps(name: str, pairs: list[str], options: dict[str, Any]) -> int:
    from hopfed.bench import cases
    from hopfed.bench.harness import report

    count = report.steps([load(n) for n in pairs], options["sizes"]) if pairs else 0
    if name in ("recover", "all"):
        count += cases.steps(options["sizes"], options["silhouettes"])
    return count


@contextmanager
def _progress(steps: int) -> Iterator[Callable[[str], None]]:
    """Progress bar on standard error; yields the function that announces each step."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), text)
    with progress_bar(*columns) as bar:
        task = bar.add_task("loading", total=steps, completed=-1)
        yield lambda words: bar.update(task, advance=1, description=words)


def _check(name: str, figure: Path | None, options: dict[str, Any]) -> None:
    """Refuse options that do not fit together, before anything is measured."""
    for option in ("seeds", "silhouettes"):
        if options[option] is not None and name not in ("recover", "all"):
            raise ArgumentError(f"--{option}", "left out unless recover is measured", name)
    for option in ("clients", "columns"):
        if options[option] is not None and name != "clients":
            raise ArgumentError(f"--{option}", "left out unless clients is measured", name)
    if figure is not None and name in ("recover", "clients"):
        raise ArgumentError("--figure", f"left out for {name}, which has no sizes", figure)
    inputs = [] if options["silhouettes"] is None else [options["silhouettes"]]
    check_outputs(("--figure", figure, FIGURE), inputs=inputs)


def _list(as_json: bool) -> None:
    from hopfed.bench.cases import SUMMARY
    from hopfed.bench.clients import SUMMARY as CLIENTS
    from hopfed.bench.harness.machine import describe

    summaries = {name: load(name).summary for name in PAIRS} | {"recover": SUMMARY}
    summaries |= {"clients": CLIENTS, "all": "all of them but clients"}
    machine = describe()
    if as_json:
        print(json.dumps({"benchmarks": summaries, "machine": machine}))
        return
    for name in NAMES:
        out.print(named(name, summaries[name]))
    out.print("")
    _print_machine(machine)
    out.print("\nRun one with: hopfed bench NAME")


def _print_machine(machine: dict[str, str]) -> None:
    hardware = ("processor", "cores", "kernel threads", "memory", "BLAS", "GPU")
    for name in hardware:
        out.print(f"{name}: {machine[name]}")
    versions = (f"{name} {word}" for name, word in machine.items() if name not in hardware)
    out.print("versions: " + ", ".join(versions))


def _wide() -> Screen:
    """Return the screen for tables: a terminal with its own width, or a wide one for a file."""
    return out if out.is_terminal else Screen(width=WIDTH)


def _print_pairs(result: dict[str, Any]) -> None:
    console = _wide()
    _print_machine(result["machine"])
    for device, rates in result["ceilings"].items():
        words = (f"{unit} {_si(rate)}{'B' * (unit == 'copy')}/s" for unit, rate in rates.items())
        out.print(f"ceilings of the {device}: {', '.join(words)}")
    for name, found in result["benchmarks"].items():
        out.print("")
        out.print(named(name, found["summary"]))
        console.print(_grid(found))
        for line in _notes(found):
            out.print(line)


def _grid(found: dict[str, Any]) -> Any:
    """Table of all rows that were measured."""
    letters = sorted(found["rows"][0]["point"])
    columns = ("seconds", "ratio", "bytes", "operations", "share", "exponents", "gap")
    grid = table(*letters, "device", "way", *columns)
    for row in found["rows"]:
        if row["absent"]:
            continue
        counts = row["operations"].items()
        grid.add_row(
            *(f"{row['point'][letter]:,}" for letter in letters),
            row["device"],
            row["way"],
            f"{row['seconds']:.3g}",
            "-" if row["ratio"] is None else f"{row['ratio']:.2f}",
            human_bytes(row["bytes"]),
            " + ".join(f"{_si(count)} {unit}" for unit, count in counts),
            "-" if row["share"] is None else f"{row['share']:.0%} {row['bound']}",
            " ".join(_powers(row, found["exponents"])),
            "" if row["gap"] is None else f"{row['gap']:.1g}",
        )
    return grid


def _powers(row: dict[str, Any], fits: list[dict[str, Any]]) -> Iterator[str]:
    """Exponents of the sweeps that contain `row`."""
    for fit in fits:
        line = fit["fixed"].items() <= row["point"].items()
        if line and (fit["device"], fit["way"]) == (row["device"], row["way"]):
            yield f"{fit['vary']}^{fit['exponent']:.2f}"


def _notes(found: dict[str, Any]) -> list[str]:
    """Lines below a table: exponents, targets, reasons of missing ways, notes of the benchmark."""
    from hopfed.bench.harness.measure import words

    lines = []
    for sweep in found["sweeps"]:
        fits = [
            f"{fit['way']} {fit['exponent']:.2f}"
            for fit in found["exponents"]
            if (fit["vary"], fit["fixed"]) == (sweep["vary"], sweep["fixed"])
        ]
        where = words(sweep["fixed"])
        lines.append(f"exponent of {sweep['vary']} at {where}: {'; '.join(fits)}")
    for target in found["targets"]:
        word = "reached" if target["reached"] else "MISSED"
        lines.append(
            f"target at {words(target['point'])}: ratio {target['target']:g} or more; {word}, "
            f"{target['ratio']:.1f}"
        )
    reasons = dict.fromkeys(
        f"{row['way']} on the {row['device']}: {row['absent']}"
        for row in found["rows"]
        if row["absent"]
    )
    return [*lines, *reasons, *found["notes"]]


def _print_recovery(result: dict[str, Any]) -> None:
    console = _wide()
    names = ("N", "K", "M", "r", "clients", "method", "archetypes")
    grid = table(*names, "complete", "false", "median s", "worst s")
    for row in result["recovery"]:
        grid.add_row(
            *(str(row["case"][n]) for n in names),
            f"{row['complete']}/{row['seeds']}",
            str(row["false_discoveries"]),
            f"{row['seconds_median']:.2f}",
            f"{row['seconds_max']:.2f}",
        )
    console.print(grid)
    out.print("complete: every archetype has |m| >= 0.99; one worst s includes compilation\n")
    ratio = result["ratio"]
    case = ratio["case"]
    out.print(
        f"against the paper's dense algorithm, N={case['N']} K={case['K']} M={case['M']}: "
        f"{ratio['ratio']:.0f} times faster ({ratio['seconds']:.2f} s against "
        f"{ratio['seconds_dense']:.1f} s), mean magnetisation {ratio['magnetisation']:.3f} "
        f"against {ratio['magnetisation_dense']:.3f}"
    )
    for row in (result["memory"], *result["targets"]):
        out.print(_alone(row))


def _alone(row: dict[str, Any]) -> str:
    """Describe one recovery in a separate process."""
    case = row["case"]
    line = (
        f"N={case['N']:,} K={case['K']} M={case['M']:,}: {row['found']}/{case['K']} found, peak "
        f"memory {human_bytes(row['peak_bytes'])}, {row['seconds']:.1f} s"
    )
    if "reached" not in row:
        return line
    limits = [f"{human_bytes(row['most_bytes'])}"]
    if row["most_seconds"] is not None:
        limits.insert(0, f"{row['most_seconds']:g} s")
    word = "reached" if row["reached"] else "MISSED"
    return (
        f"{line}, examples drawn in {row['seconds_drawing']:.1f} s; target under "
        f"{' and '.join(limits)}: {word}"
    )


def _si(number: float) -> str:
    """Format a number with three digits and an SI prefix.

    Examples
    --------
    >>> _si(1_536_000.0)
    '1.54 M'
    """
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g} {prefix}"
    return f"{number:.3g}"
