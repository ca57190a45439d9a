"""`hopfed bench` and `hopfed doctor`: speed of this machine, and its parts."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from hopfed import bench
from hopfed._lib.settings import hint, require
from hopfed.cli.options import VARIABLE, device_option, json_option, option
from hopfed.cli.printing import bold_name, err, out, print_json, print_table
from hopfed.errors import BackendError
from hopfed.experiments import ON_DEVICE
from hopfed.kernels.place import Place, place_named

SIZES = "Small: seconds for each benchmark. Full: a minute or two."
CORE = ("numpy", "scipy", "numba", "h5py", "matplotlib", "scikit-learn", "click", "rich")
# In words, because a look-up would import all experiments and benchmarks; tests check them.
ON_CUDA = f"recover, demo, run {'|'.join(ON_DEVICE)}, bench of kernels; not yet fl run and others"
EXTRAS = {  # package -> the extra of hopfed that installs it
    "torch": "neural", "flwr": "flower", "grpcio": "machines", "dask": "dask", "pandas": "table",
    "polars": "table", "zarr": "table", "anndata": "table", "dp-accounting": "privacy",
    "chardet": "files", "pyreadstat": "files", "python-calamine": "files",
}  # fmt: skip


@click.command("bench")
@click.argument("name", required=False)
@option("--sizes", SIZES, ("small", "full"), "small")
@device_option("both ways run")
@json_option
def bench_command(name: str | None, sizes: str, as_json: bool, device: str) -> None:
    """Time hopfed against the plain way on this machine.

    Without NAME, the benchmarks are listed. Calls are made in turn; a time is the median of the
    samples, a ratio the plain way's time over it, the spread half the distance of the quartiles.

    Example: hopfed bench gram --sizes full
    """
    if name is None:
        summaries = {each: bench.describe_benchmark(each) for each in bench.PAIRS}
        if as_json:
            return print_json({"benchmarks": summaries})
        for each, words in summaries.items():
            out.print(bold_name(each, words))
        return out.print("\nhopfed bench NAME runs one of them, hopfed bench all runs both")
    names = (*bench.PAIRS, "all")
    require(name in names, "benchmark", f"one of {', '.join(names)}{hint(name, names)}", repr(name))
    pairs = [each for each in bench.PAIRS if name in (each, "all")]
    with err.status("loading") as status, place_named(device).current():
        found = bench.measure(pairs, sizes, status.update, device)
    if as_json:
        return print_json({"date": date.today().isoformat(), "sizes": sizes} | found)
    print_table(("machine", ""), found["machine"].items(), left=2)
    for each, held in found["benchmarks"].items():
        out.print("")
        out.print(bold_name(each, held["summary"]))
        heads = ("size", "device", "way", "seconds", "spread", "ratio", "gap")
        print_table(heads, map(_cells, held["rows"]))
    return None


def _cells(row: dict[str, Any]) -> list[str]:
    """Printed figures of a way at a size."""
    forms = {"seconds": ".3g", "spread": ".0%", "ratio": ".2f", "gap": ".1g"}
    cells = ["" if row[name] is None else format(row[name], f) for name, f in forms.items()]
    return [bench.size_text(row["point"]), row["device"], row["way"], *cells]


@click.command("doctor")
def doctor_command() -> None:
    """Show versions, threads, the GPU, and the commands for each device.

    Example: hopfed doctor
    """
    print_table(("what", "found"), _parts(), left=2)


def _parts() -> Iterator[tuple[str, str]]:
    """Installed packages, devices of the machine, and parts that work with each `--device`."""
    yield "hopfed", version("hopfed")
    yield "python", f"{platform.python_version()} on {platform.machine()}"
    extras = {name: f"not installed: pip install 'hopfed[{e}]'" for name, e in EXTRAS.items()}
    for package, words in (dict.fromkeys(CORE, "MISSING: pip install hopfed") | extras).items():
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, words
    machine = bench.describe_machine()
    yield from ((n, machine[n]) for n in ("processor", "cores", "kernel threads", "memory", "BLAS"))
    yield "--device cpu", "everything; the default"
    try:
        yield "--device cuda", f"on {Place(0).open().name}: {ON_CUDA}"
    except BackendError as error:
        yield "--device cuda", f"nothing: {error}"
    if word := os.environ.get(VARIABLE):
        yield VARIABLE, word
