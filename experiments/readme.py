"""Write the tables of README.md from the kept summaries, so that no number is typed by hand.

``python -m hopfed.experiments.readme`` rewrites what stands between comments such as
``<!-- experiments -->`` and ``<!-- /experiments -->``; given run files, it keeps their summaries
first, in ``experiments/summaries``. It works on a checkout, not on an installed package.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from hopfed.errors import HopfedError
from hopfed.experiments import find
from hopfed.experiments._quote import fill, number
from hopfed.experiments._row import Row
from hopfed.experiments._rows import EXPERIMENTS
from hopfed.experiments._rows_neural import NEURAL
from hopfed.experiments._summaries import keep, read

README = Path(__file__).parents[1] / "README.md"

FL_METHODS = ("standalone", "fedavg", "fedavg+", "fedprox")
FL_SHOWN = ("test", "decile", "round", "last", "megabytes_up", "gigaflops")

ROUNDING = 1e-12

CASE = ("N", "K", "M", "r", "owners", "method", "complete", "false", "median s", "worst s")


def render(text: str) -> str:
    """Return `text` with every section between its comments written anew.

    Raises
    ------
    HopfedError : a section has no place in `text`, or nothing is kept of what it quotes.
    """
    for name, make in SECTIONS.items():
        begin, end = f"<!-- {name} -->\n", f"\n<!-- /{name} -->"
        parts = re.split(f"{begin}.*?{end}", text, flags=re.DOTALL)
        if len(parts) != 2:
            raise HopfedError(f"README.md: must hold one place for {name!r}")
        text = f"{begin}\n{make()}\n{end}".join(parts)
    return text


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown.

    Examples
    --------
    >>> print(table(("K", "m"), [("3", "1"), ("", "0")]))
    | K | m |
    | --- | --- |
    | 3 | 1 |
    | | 0 |
    """
    head = list(columns)
    lines = [head, ["---"] * len(head), *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)


def experiments() -> str:
    """Claims, and what came out."""
    rows = [
        (command, claim, row.paper, ours, row.aim, minutes)
        for row, (command, claim, ours, minutes) in _known(EXPERIMENTS)
    ]
    return table(("command", "claim", "paper", "ours", "aim", "minutes"), rows)


def misses() -> str:
    """Where claims do not come out, and what minutes are."""
    return fill(
        "Where a claim does not come out, the module's docstring in `experiments/` says so. At "
        "N = 1,000 `load` first fails, by what and in how many seeds, with one operator at "
        "{stop_one_operator}; with ten groups at {stop_ten_groups}. One operator above what "
        'it can hold may keep a few false patterns, and says "incomplete" or "poor fit". Minutes '
        "are as measured, on two cores, some of them with other work on them; "
        'those with "about" are estimates, some from a single seed.',
        _kept("load"),
    )


def neural() -> str:
    """Questions to the neural methods, and answers."""
    columns = ("command", "question", "answer", "minutes")
    return table(columns, (cells for _, cells in _known(NEURAL)))


def _known(rows: Iterable[Row]) -> Iterator[tuple[Row, tuple[str, str, str, str]]]:
    """Rows with their cells; command and minutes only where an experiment begins."""
    before = ""
    for row in rows:
        cells = row.cells()
        if cells is None:
            continue
        command, claim, ours, minutes = cells
        first = command != before
        yield row, (command if first else "", claim, ours, minutes if first else "")
        before = command


def fl_run() -> str:
    """A command on MNIST, and the first lines of what it prints."""
    kept = _kept("fl_mnist_iid")
    c = kept["config"]
    lines = [
        f"$ hopfed fl run {c['method']} --data {c['data']} --partition {c['partition']} "
        f"--clients {c['clients']} --rounds {c['rounds']} \\",
        f"    --set lr={c['lr']:g} --set batch={c['batch']} --set published=true --out iid.h5",
    ]
    for key in FL_SHOWN:
        label, (value, _) = find("fl").RECORD.measures[key].label, kept["summary"][key]
        lines.append(f"{label:<42}{value:>10.4g}")
    return "\n".join(f"    {line}" for line in [*lines, "..."])


def fl_methods() -> str:
    """Four methods on MNIST and CIFAR-10."""
    rows = []
    for name in FL_METHODS:
        mnist, cifar = (_kept(f"fl_{data}_{name}") for data in ("mnist", "cifar"))
        asked = ("{test|3}", "{decile|3}", "{megabytes_up|1 mean}")
        rows.append((name, *(fill(text, mnist) for text in asked), fill("{test|3}", cifar)))
    return table(("method", "MNIST", "worst tenth", "MB up", "CIFAR-10"), rows)


def bench_recover() -> str:
    """Recoveries in full, against the paper's algorithm, and what large ones take."""
    bench = _kept("bench")  # `all` measures recoveries too; otherwise they are in their own file
    found = {**bench, **bench["recover"]} if "recover" in bench else _kept("bench_recover")
    seeds = found["recovery"][0]["seeds"]
    command = f"hopfed bench recover --seeds {seeds}" + " --sizes full" * bool(found["targets"])
    if any(row["case"]["archetypes"] != "random" for row in found["recovery"]):
        command += " --silhouettes FILE"
    intro = f"`{command}`, {_measured(found)}; complete: every archetype at |m| >= 0.99:"
    return "\n\n".join((intro, table(CASE, map(_case, found["recovery"])), _large(found)))


def _case(row: dict[str, Any]) -> tuple[str, ...]:
    c = row["case"]
    kind = "" if c["archetypes"] == "random" else " silhouettes"
    return (
        f"{c['N']:,}",
        f"{c['K']}{kind}",
        f"{c['M']:,}",
        number(c["r"], 1),
        str(c["clients"]),
        c["method"],
        f"{row['complete']}/{row['seeds']}",
        str(row["false_discoveries"]),
        _short(row["seconds_median"]),
        _short(row["seconds_max"]),
    )


def _large(found: dict[str, Any]) -> str:
    """Ratio to the paper's algorithm, and seconds and memory of large recoveries."""
    ratio, c = found["ratio"], found["ratio"]["case"]
    words = [
        f"Against the paper's algorithm done densely on the same data (N = {c['N']:,}, "
        f"K = {c['K']}, M = {c['M']:,}) `recover` is {ratio['ratio']:.0f} times faster "
        f"({_short(ratio['seconds'])} s against {_short(ratio['seconds_dense'])} s), at mean "
        f"magnetisation {number(ratio['magnetisation'], 3)} against "
        f"{number(ratio['magnetisation_dense'], 3)}."
    ]
    for row in (found["memory"], *found["targets"]):
        c = row["case"]
        words.append(
            f"N = {c['N']:,}, M = {c['M']:,}, K = {c['K']}: {row['found']} found, "
            f"{row['false_discoveries']} false, {_short(row['seconds'])} s, "
            f"{_short(row['peak_bytes'] / 1e9)} GB."
        )
    return "\n".join(words)


def bench_pairs() -> str:
    """Every kernel against the obvious way, where it has an aim and at the largest sizes."""
    kept = _kept("bench")
    rows = []
    for name, found in kept["benchmarks"].items():
        aims = {_size(t["point"]): _short(t["target"]) for t in found["targets"]}
        pairs = _pairs(found["rows"])
        last = {ours["device"]: _size(ours["point"]) for ours, _ in pairs}
        for ours, obvious in pairs:
            size = _size(ours["point"])
            if size in aims or size == last[ours["device"]]:
                what = f"{name}: {ours['way']} against {obvious['way']}"
                measured = f"{ours['share']:.0%} of {ours['bound']}" if ours["share"] else "-"
                figures = _short(ours["seconds"]), _short(ours["ratio"]), aims.get(size, "-")
                rows.append(
                    (what, size, ours["device"], *figures, measured, _short(obvious["gap"]))
                )
    command = f"hopfed bench all --sizes {kept.get('sizes', 'small')}"
    intro = (
        f"Kernels against the obvious way (`{command}`, {_measured(kept)}), at the sizes that have "
        "an aim and at the largest; the share is what hopfed's way reaches of the measured "
        "rate that bounds it (of copying, of products in float32, of words compared); gap is how "
        "far apart the two results are:"
    )
    head = "benchmark", "size", "device", "seconds", "ratio", "aim", "share of the bound", "gap"
    notes = [
        f"`{n}`: {'; '.join(f['notes'])}." for n, f in kept["benchmarks"].items() if f["notes"]
    ]
    return "\n\n".join((intro, table(head, rows), *notes))


def _pairs(rows: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Hopfed's way and the obvious one at every size where both were run, once each."""
    found = {}
    for place, row in enumerate(rows):
        key = row["device"], _size(row["point"])
        first = place == 0 or key != (rows[place - 1]["device"], _size(rows[place - 1]["point"]))
        if first and row["ratio"] is not None:  # the ways follow each other, the obvious one second
            found[key] = row, rows[place + 1]
    return list(found.values())


def _size(point: dict[str, int]) -> str:
    return ", ".join(f"{letter} = {point[letter]:,}" for letter in sorted(point))


def _measured(found: dict[str, Any]) -> str:
    """Where and when: the machine, and what else is known of the measurement."""
    machine = found["machine"]
    parts = [f"{machine['cores']} cores of {machine['processor']}"]
    if machine["GPU"] and not machine["GPU"].startswith("not yet"):
        parts.append(machine["GPU"])
    parts += [found[key] for key in ("date", "note") if found.get(key)]
    return ", ".join(parts)


def _short(value: float) -> str:
    """Two digits, all of them before the point; 0 for rounding."""
    if abs(value) < ROUNDING:
        return "0"
    return f"{value:.2g}" if value < 99.5 else f"{value:,.0f}"


def _kept(name: str) -> dict[str, Any]:
    found = read(name)
    if found is None:
        raise HopfedError(f"nothing is kept of {name}")
    return found


SECTIONS: dict[str, Callable[[], str]] = {
    "experiments": experiments,
    "misses": misses,
    "fl run": fl_run,
    "fl methods": fl_methods,
    "neural": neural,
    "bench recover": bench_recover,
    "bench pairs": bench_pairs,
}


@click.command()
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path))
@click.option("--minutes", type=float, help="How long the run took, where there is one.")
@click.option("--name", default="", help="Keep the one run by it, beside that of the preset.")
def main(runs: tuple[Path, ...], minutes: float | None, name: str) -> None:
    """Keep the summaries of the run files RUNS, then write README.md's tables anew.

    Example: python -m hopfed.experiments.readme --minutes 16 mp.h5
    """
    if (name or minutes is not None) and len(runs) != 1:
        raise click.UsageError("--minutes and --name go with one run")
    try:
        for path in runs:
            click.echo(f"kept the summary of {keep(path, minutes, name)}")
        text = render(README.read_text())
    except (HopfedError, OSError) as error:
        raise click.ClickException(str(error)) from None
    README.write_text(text)
    click.echo(f"wrote {README.name}")


if __name__ == "__main__":
    main()
