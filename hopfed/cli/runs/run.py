"""`hopfed run` and `hopfed list`: run and list experiments."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from hopfed._lib.cluster import cluster
from hopfed._lib.outputs import RUN, check_folder
from hopfed.cli.device import device_option, for_networks
from hopfed.cli.numbers import COUNT, SEEDS
from hopfed.cli.outputs import check_outputs, json_option, overwrite_option, overwriting, set_aside
from hopfed.cli.printing import named, out, progress_bar, shown, table
from hopfed.cli.runs.show import print_summary
from hopfed.errors import ArgumentError, RunFileError
from hopfed.experiments import CLAIMS, PRESET_NAMES, find, preset
from hopfed.kernels.place import place

FILES = ("data", "table", "weights")  # settings that name files to read


def engine_options(command: Any) -> Any:
    """Add --engine and --dask: where the clients of a federation run."""
    return click.option(
        "--engine",
        type=click.Choice(("local", "pool", "dask", "flower")),
        default="local",
        show_default=True,
        help="Where clients of a federation run: in this process, in worker processes, as nodes of "
        "Flower; or seeds and clients on workers of Dask.",
    )(dask_option(command))


def dask_option(command: Any) -> Any:
    """Add the option that says where the workers of the engine `dask` are."""
    return click.option(
        "--dask",
        metavar="local|ADDRESS",
        help="Scheduler of the engine dask, such as tcp://host:8786.  [default: local]",
    )(command)


@click.command("run")
@click.argument("name")
@click.option(
    "--preset",
    metavar=f"[{'|'.join(PRESET_NAMES)}|...]",
    help="Settings to start from; `hopfed list NAME` has them all. [default: default]",
)
@click.option("--seeds", type=SEEDS, help="Number of seeds, or which: 100:110 for 100 to 109.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a setting.")
@engine_options
@click.option("--workers", type=COUNT, default=1, show_default=True, help="Processes.")
@device_option("recoveries run and networks are trained, where there are any", opens=False)
@click.option("--out", "out_file", type=click.Path(path_type=Path), help="Run file (.h5) to write.")
@overwrite_option
@click.option("--resume", is_flag=True, help="Continue the run in --out if the file exists.")
@click.option("--trust", is_flag=True, help="Let the run in --out import code outside of hopfed.")
@json_option
def run_command(name: str, out_file: Path | None, as_json: bool, **options: Any) -> None:
    """Run the experiment NAME over its seeds.

    `hopfed list NAME` shows its settings. With --out the file receives every seed as
    soon as it is finished. A federation also saves its rounds, fast rounds several at a time. An
    interrupted run continues with --resume and gives the same result, or begins anew with
    --overwrite. `hopfed figure RUN.h5` draws it.

    Example: hopfed run bbp --preset quick --set M=400,1600 --out bbp.h5
    """
    experiment = find(name)
    check_outputs(("--out", out_file, RUN), resume=options["resume"])
    device, trains = options.pop("device"), hasattr(experiment.Config, "device")
    if trains:
        for_networks(device)
    else:
        place(device).open()
    config, options["first"] = _config(experiment, out_file, options)
    if not trains:
        options["device"] = device
    elif device != "cpu":
        config = replace(config, device=device)
    check_keep(config, out_file, options["resume"])
    carry_out(experiment, config, out_file, as_json, **options)


def carry_out(
    experiment: Any,
    config: Any,
    out_file: Path | None,
    as_json: bool,
    *,
    resume: bool,
    engine: str,
    workers: int,
    memory: float | None = None,
    first: int = 0,
    device: str = "cpu",
    dask: str | None = None,
    callbacks: Sequence[Any] = (),
    **_: Any,
) -> None:
    """Run `experiment` with a progress bar, and print its summary."""
    from hopfed.experiments.runner import execute
    from hopfed.federation.states import BUDGET

    if resume and out_file is None:
        raise ArgumentError("--resume", "given together with --out", "no --out")
    if dask is not None and engine != "dask":
        raise ArgumentError("--dask", "given together with --engine dask", engine)
    folder = getattr(config, "keep", "")
    kept = [file.parent for file in Path(folder).glob("seed-*/model.json")] if folder else []
    seconds = -time.perf_counter()
    name = experiment.__name__.rpartition(".")[2]
    opened = nullcontext() if dask is None else cluster(dask, workers)
    with opened, progress(name) as report, set_aside(out_file, *kept):
        run = execute(
            experiment,
            config,
            out=out_file,
            resume=resume,
            engine=engine,
            workers=workers,
            memory=BUDGET if memory is None else int(memory * 1e9),
            report=report,
            first=first,
            device=device,
            callbacks=callbacks,
        )
    seconds += time.perf_counter()
    if as_json:
        print(json.dumps({"kind": run.kind, "config": run.config, "summary": run.summary}))
        return
    print_summary(run)
    kept = f"wrote {shown(out_file)}" if out_file else "not saved; --out RUN.h5 saves a run"
    seeds = f"{config.seeds} seed{'s' * (config.seeds != 1)}"
    out.print(f"\n{_clients_of(config)}{seeds} in {seconds:.1f} s; {kept}")


def check_keep(config: Any, out_file: Path | None, resume: bool) -> None:
    """Refuse a folder of networks that would be mixed with those of another run."""
    folder = getattr(config, "keep", "")
    if folder:
        check_folder(folder, "--keep")
        continued = resume and out_file is not None and out_file.exists()
        if any(Path(folder).glob("seed-*")) and not continued and not overwriting():
            ways = "--overwrite replaces the networks in this one, --resume continues them"
            raise ArgumentError("--keep", f"a new folder ({ways})", folder)


def _clients_of(config: Any) -> str:
    """Data that a federation of networks trained on, and how clients share them."""
    names = ("data", "partition", "clients")
    if not all(hasattr(config, name) for name in names):
        return ""
    return f"{shown(config.data)}, {config.clients} clients, {config.partition}; "


def _config(experiment: Any, out_file: Path | None, options: dict[str, Any]) -> tuple[Any, int]:
    """Settings, from the resumed file or the preset, changed by options; and the first seed."""
    from hopfed._lib.settings import from_plain, require, with_settings
    from hopfed.runs import Run, first_seed, settings_of

    first, presets = 0, experiment.PRESETS
    known = f"one of {', '.join(presets)}"
    require(options["preset"] in (None, *presets), "--preset", known, repr(options["preset"]))
    started = options["resume"] and out_file is not None and out_file.exists()
    if started and options["preset"] is None:
        held = Run.load(str(out_file))
        if held.kind != experiment.__name__.rpartition(".")[2]:
            raise ArgumentError("--out", f"a run of this experiment, not of {held.kind}", out_file)
        try:
            config = from_plain(experiment.Config, settings_of(held.config))
        except (ArgumentError, TypeError) as error:
            raise RunFileError(f"{out_file}: its settings do not fit: {error}") from None
        first = first_seed(held.config)
        if not options["trust"]:
            refuse_code(experiment, config, str(out_file), options["settings"], "--trust or ")
    else:
        config = preset(experiment, options["preset"] or "default")
    config = with_settings(config, options["settings"])
    if options["seeds"] is None:
        return config, first
    first, number = options["seeds"]
    return replace(config, seeds=number), first


def refuse_code(
    experiment: Any, config: Any, path: str, given: Iterable[str], trust: str = ""
) -> None:
    """Refuse code, files and folders that settings name, unless the command line does too.

    Parameters
    ----------
    experiment, config : what would run, with all its settings, whoever gave them.
    path : of the file that gave some of them.
    given : ``key=value`` of the command line.
    trust : what else may be said, for the message.

    Raises
    ------
    RunFileError : they do; nothing was imported.
    """
    from hopfed.experiments.fl import code_of

    named = [s.partition("=") for s in given]
    lists = [text for name, _, text in named if name.strip() in ("method", "models")]
    asked = {part.strip() for text in lists for part in text.split(",")}
    for name in getattr(experiment, "code_of", code_of)(config):
        if name not in asked:
            raise RunFileError(
                f"{path}: names code to run, {name}; give {trust}the same --set if you know it"
            )
    for setting in FILES:
        held = getattr(config, setting, "")
        for file in (held,) if isinstance(held, str) else held:
            if not re.fullmatch(r"\w*", file) and not _says(named, setting, file):
                raise RunFileError(
                    f"{path}: names a file to read, {file}; give {trust}the same --set {setting}="
                )
    folder = getattr(config, "keep", "")
    if folder and not _says(named, "keep", folder):
        raise RunFileError(
            f"{path}: names a folder to write, {folder}; give {trust}the same --set keep="
        )


def _says(named: Iterable[tuple[str, str, str]], setting: str, value: str) -> bool:
    texts = [text.strip() for name, _, text in named if name.strip() == setting]
    return any(value in (text, *text.split(",")) for text in texts)


@contextmanager
def progress(name: str) -> Any:
    """Progress bar on standard error, by seed, or by seed and round."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    columns = (name, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with progress_bar(*columns) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, planned: bar.update(task, completed=done, total=planned)


@click.command("list")
@click.argument("name", required=False)
def list_command(name: str | None) -> None:
    """List the experiments, or the settings of the one called NAME.

    Example: hopfed list bbp
    """
    if name is not None:
        _list_settings(find(name))
        return
    for each, (claim, source) in CLAIMS.items():
        out.print(named(each, claim))
        out.print(f"    {source}", style="dim")


def _list_settings(experiment: Any) -> None:
    from dataclasses import fields

    from hopfed._lib.settings import describe
    from hopfed.experiments.settings import words_of

    out.print(experiment.__doc__.strip())
    presets = {name: preset(experiment, name) for name in experiment.PRESETS}
    words = words_of(experiment.Config)
    three = [presets.pop(name) for name in PRESET_NAMES]
    grid = table("setting", *PRESET_NAMES, "")
    for setting in fields(experiment.Config):
        values = (describe(getattr(p, setting.name)) for p in three)
        grid.add_row(setting.name, *values, words[setting.name])
    out.print("")
    out.print(grid)
    out.print(f"\nminutes: {', '.join(f'{n} {m:g}' for n, m in experiment.MINUTES.items())}")
    for name, held in presets.items():
        out.print(f"\n--preset {name}: settings that differ from default's")
        for setting in fields(experiment.Config):
            value = getattr(held, setting.name)
            if value != getattr(three[1], setting.name):
                out.print(f"    {setting.name} = {describe(value)}", markup=False)
