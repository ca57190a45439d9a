"""`hopfed fl`: federations of neural networks."""

from __future__ import annotations

from dataclasses import fields, replace
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click

from hopfed._lib.outputs import RUN, check_outputs
from hopfed.cli.device import device_option, on_the_processor
from hopfed.cli.numbers import COUNT, FINITE, SEEDS
from hopfed.cli.output import out, table
from hopfed.cli.run import carry_out, dask_option
from hopfed.errors import BackendError, DataError


@click.group("fl")
def fl_command() -> None:
    """Run federations of neural networks (needs the extra `neural`).

    Example: hopfed fl run fedavg --clients 10 --rounds 20
    """


@fl_command.command("run")
@click.argument("method")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Settings, .toml.")
@click.option("--data", help="digits, a name, a .npz file, or hub:NAME. [default: digits]")
@click.option("--partition", help="iid, classes:K, dirichlet:A, writer, domain, rotation:...")
@click.option("--clients", type=COUNT, help="Number of clients.")
@click.option("--rounds", type=COUNT, help="Communication rounds.")
@click.option("--models", help="Architectures, which clients take in turn: lenet,mlp:200x100.")
@click.option("--seeds", type=SEEDS, help="Number of seeds, or which: 100:110 for 100 to 109.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a setting.")
@click.option(
    "--engine",
    type=click.Choice(("local", "pool", "dask", "flower")),
    default="local",
    show_default=True,
    help="Where clients run: in this process, in worker processes, as nodes of Flower; or seeds "
    "and clients on workers of Dask.",
)
@click.option("--workers", type=COUNT, default=1, show_default=True, help="Processes.")
@dask_option
@device_option("networks are trained; so far on the processor only")
@click.option("--memory", type=FINITE, help="GB of memory for client states. [default: 2.1]")
@click.option("--out", "out_file", type=click.Path(path_type=Path), help="Run file (.h5) to write.")
@click.option("--resume", is_flag=True, help="Continue the run in --out if the file exists.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def run_command(
    method: str,
    config_file: Path | None,
    out_file: Path | None,
    as_json: bool,
    settings: tuple[str, ...],
    **options: Any,
) -> None:
    """Run METHOD; `hopfed fl list` shows all methods, `hopfed fl list METHOD` its settings.

    Example: hopfed fl run fedprox --set mu=0.1 --partition dirichlet:0.3 --out run.h5
    """
    on_the_processor(
        options.pop("device"), "clients keep their weights in main memory, and train there only"
    )
    inputs = [] if config_file is None else [config_file]
    if options["data"] is not None:
        inputs.append(Path(options["data"]))
    check_outputs(("--out", out_file, RUN), inputs=inputs)
    fl = _experiment()
    config = replace(fl.Config(), method=method)
    if config_file is not None:
        config = fl.with_options(config, _read(config_file))
    first, number = options.pop("seeds") or (0, None)
    options |= {"seeds": number, "first": first}
    named = ("data", "partition", "clients", "rounds", "models", "seeds")
    given = [f"{n}={options.pop(n)}" for n in named if options.get(n) is not None]
    config = fl.with_options(config, [*given, *settings])
    config.make(0)  # a wrong name is reported before a file is written
    carry_out(fl, config, out_file, as_json, **options)


@fl_command.command("list")
@click.argument("method", required=False)
def list_command(method: str | None) -> None:
    """List all methods, or describe METHOD and its settings.

    Example: hopfed fl list fedprox
    """
    _experiment()
    from hopfed._lib.settings import describe
    from hopfed.neural.methods import METHODS
    from hopfed.neural.methods import method as find

    if method is None:
        grid = table("method", "source", "own settings")
        for column in grid.columns:
            column.justify = "left"
        for name in METHODS:
            cls = find(name)
            own = ", ".join(f"{f.name}={describe(f.default)}" for f in _own(cls))
            grid.add_row(name, cls.source, own or "-")
        out.print(grid)
        return
    out.print(cleandoc(find(method).__doc__ or ""))


def _experiment() -> Any:
    try:
        import torch  # noqa: F401

        from hopfed.experiments import fl
    except ImportError as error:
        raise BackendError(
            f"{error.name or 'torch'} is not installed: pip install 'hopfed[neural]'"
        ) from None
    return fl


def _own(cls: Any) -> list[Any]:
    return [f for f in fields(cls) if f.name not in ("task", "training")]


def _read(path: Path) -> list[str]:
    """Read settings from a TOML file: those of `Config`, and the method's own from [options]."""
    import tomllib

    from hopfed.data.files import opened

    try:
        with opened(path) as file:
            held = tomllib.loads(file.read().decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path}: not TOML: {error}") from None
    own = held.pop("options", {})
    return [f"{k}={_word(v)}" for k, v in (held | own).items()]


def _word(value: Any) -> str:
    from hopfed._lib.settings import describe

    return describe(tuple(value) if isinstance(value, list) else value)
