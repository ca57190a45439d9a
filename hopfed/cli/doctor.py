"""`hopfed doctor`: the parts of this installation, and those that are missing."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import click

from hopfed.bench import describe
from hopfed.cli.options import VARIABLE, asked
from hopfed.cli.printing import out, table
from hopfed.errors import BackendError, HopfedError
from hopfed.experiments import ON_DEVICE
from hopfed.kernels.place import Place

CORE = ("numpy", "scipy", "numba", "h5py", "matplotlib", "scikit-learn", "click", "rich")
# In words, since finding out would import every experiment and every benchmark; tests hold it true.
ON_CUDA = (
    f"recover, demo, run {'|'.join(ON_DEVICE)}, bench of the kernels; not yet fl run "
    "and other experiments"
)
CUDA = ("cupy-cuda12x", "cupy-cuda13x")  # what the row of the GPU says of them is enough
EXTRAS = {  # package -> the extra of hopfed that installs it
    "torch": "neural", "flwr": "flower", "grpcio": "machines", "dask": "dask", "pandas": "table",
    "polars": "table", "zarr": "table", "anndata": "table", "dp-accounting": "privacy",
}  # fmt: skip


@click.command("doctor")
def doctor_command() -> None:
    """Show versions, threads, the GPU, and what runs where.

    Example: hopfed doctor
    """
    grid = table("what", "found")
    grid.columns[0].justify = grid.columns[1].justify = "left"
    grid.add_row("hopfed", version("hopfed"))
    grid.add_row("python", f"{platform.python_version()} on {platform.machine()}")
    for package in CORE:
        grid.add_row(package, _version(package) or "MISSING: pip install hopfed")
    for package in filter(_version, CUDA):
        grid.add_row(package, _version(package))
    for package, extra in EXTRAS.items():
        missing = f"not installed: pip install 'hopfed[{extra}]'"
        grid.add_row(package, _version(package) or missing)
    machine = describe()
    for name in ("processor", "memory", "cores", "BLAS", "kernel threads"):
        grid.add_row(name, machine[name])
    for row in _places():
        grid.add_row(*row)
    out.print(grid)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _places() -> Iterator[tuple[str, str]]:
    """What works with each `--device`, and what HOPFED_DEVICE asks for."""
    yield "--device cpu", "everything; taken where nothing is said"
    try:
        yield "--device cuda", f"on {Place(0).open().name}: {ON_CUDA}"
    except BackendError as error:
        yield "--device cuda", f"nothing: {error}"
    if word := os.environ.get(VARIABLE):
        try:
            asked(None).open()
            yield VARIABLE, word
        except HopfedError as error:
            yield VARIABLE, f"{word}: {error}"
