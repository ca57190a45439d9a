"""`hopfed fl`: federations of neural networks."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click

from hopfed._lib.outputs import RUN
from hopfed._lib.settings import describe, require
from hopfed.cli import HelpfulGroup, runs
from hopfed.cli import options as kinds
from hopfed.cli.options import Command, flag, option, out_option
from hopfed.cli.printing import out, print_table, say_wrote
from hopfed.errors import BackendError, HopfedError
from hopfed.runs import Run
from hopfed.tables.writers import TABLES, write

DATA = (
    "digits; FILE.npz with arrays images (or x) and labels (or y); a table of features, "
    "FILE.csv[:LABELS]; a FOLDER of pictures by class, or of clients with train.npz and test.npz "
    "each, or of train/CLIENT.npz and test/CLIENT.npz; hub:OWNER/NAME; or NAME of NAME.npz in "
    "HOPFED_DATA, as mnist, cifar10, cifar100, tiny-imagenet, femnist, shakespeare, pacs or "
    "office-home. [default: digits]"
)
PARTITION = (
    "iid, classes:K, dirichlet:A, dirichlet:A:redistribute, which leaves no client empty, writer, "
    "role, domain, pachinko, rotation:ANGLES, given:FILE of .npz or .json, or given, as a folder "
    "of clients has it; dirichlet:0.5@7 is drawn with seed 7 for every seed. "
    "[default: dirichlet:0.5]"
)
MODELS = "Architectures, taken in turn: lenet,mlp:200x100; your torch.nn.Module as FILE.py:Net."


@click.group("fl", cls=HelpfulGroup)
def fl_command() -> None:
    """Run federations of neural networks (needs the extra `neural`).

    Example: hopfed fl run fedavg --clients 10 --rounds 20
    """


command = partial(fl_command.command, cls=Command)


@command("run")
@click.argument("method")
@option("--data", DATA)
@option("--partition", PARTITION)
@option("--clients", "Number of clients.", kinds.COUNT)
@option("--rounds", "Communication rounds.", kinds.COUNT)
@option("--models", MODELS)
@option("--seeds", "Number of seeds, or 100:110 for 100 to 109.", kinds.SEEDS)
@kinds.set_option
@kinds.workers_option
@option("--autocast", "Compute the products of training in bfloat16.", ("bf16",))
@flag("--compile compiled", "Compile the loss by torch.compile.")
@kinds.device_option("networks are trained and score", opens=False)
@kinds.engine_options
@out_option("Run file (.h5) to write.", RUN)
@option("--keep", "Keep each client's network of the best round.", metavar="FOLDER")
@flag("--resume", "Continue the run in --out if the file exists; --rounds may be more.")
@flag("--json as_json", "Print the summary as JSON.")
def run_command(method: str, **options: Any) -> None:
    """Run METHOD; `hopfed fl list` shows all methods, `hopfed fl list METHOD` its settings.

    Example: hopfed fl run fedprox --set mu=0.1 --partition dirichlet:0.3 --out run.h5
    """
    fl = _experiment()
    device = kinds.torch_device(options.pop("device"))
    named = ("data", "partition", "clients", "rounds", "models", "keep")
    said = {name: options[name] for name in named} | {
        "precision": "bfloat16" if options["autocast"] else None,
        "compile": "inductor" if options["compiled"] else None,
        "device": None if device == "cpu" else device,
    }
    options["settings"] = [*_option_settings(said), *options["settings"]]
    held = runs.continued_run(options)
    start, first = (fl.Config(method=method), 0) if held is None else runs.held_settings(fl, held)
    require(start.method == method, "METHOD", f"{start.method}, as in {held}", method)
    config, first = runs.change_settings(fl, start, options, first)
    if held is None:
        config = runs.fit_settings_to_data(fl, config, options["settings"])
    else:
        runs.refuse_code(fl, config, held, [f"method={method}", *options["settings"]])
    config.make(0)  # reports a wrong name before a file is written
    run = runs.run_with_progress(fl, config, first, options)
    if fl.all_lost(run.arrays):
        raise HopfedError(f"no network is finite; lr = {config.lr:g} is likely too high")


def _option_settings(said: dict[str, Any]) -> list[str]:
    """Given options as settings of the form of `--set`."""
    return [f"{name}={value}" for name, value in said.items() if value is not None]


@command("partition")
@click.argument("data")
@option("--partition", "As for `fl run`. [default: dirichlet:0.5]")
@option("--clients", "Number of clients. [default: 10]", kinds.COUNT)
@option("--seed", "Seed of all draws.", kinds.COUNT, 0)
@kinds.figure_option
@out_option("Partition (.npz) to write, for --partition given:FILE.npz.", (".npz",))
def partition_command(
    data: str, seed: int, figure: Path | None, out_file: Path | None, **named: Any
) -> None:
    """Show and draw the division of DATA among clients.

    DATA and --partition are as for `fl run`; a seed gives the same clients.

    Example: hopfed fl partition digits --partition dirichlet:0.3 --figure clients.png
    """
    fl = _experiment()
    from hopfed import neural
    from hopfed.figures import save
    from hopfed.figures.partition import draw

    given = _option_settings(named | {"data": data})  # besides --partition and --clients
    config = runs.fit_settings_to_data(fl, fl.with_options(fl.Config(), given), [*given, "models="])
    held = neural.data.load(config.data)
    made = neural.data.partition(config.partition, held, config.clients, seed)
    classes = (int((counts > 0).sum()) for counts in made.counts())
    rows = ((n, *sizes, k) for n, sizes, k in zip(made.names, made.sizes, classes, strict=True))
    print_table(("client", "training", "validation", "test", "classes"), rows)
    if figure is not None:
        save(draw(made), figure)
    if out_file is not None:
        made.save(out_file)
    say_wrote(figure, out_file)


@command("predict")
@kinds.RUN_FILE
@click.argument("data")
@option("--client", "Number of the client, from 0.", kinds.COUNT, 0)
@kinds.set_option
@out_option("Class and probabilities of each row: .csv, .tsv, .json or .parquet.", TABLES)
def predict_command(
    run_file: Path, data: str, client: int, settings: tuple[str, ...], out_file: Path | None
) -> None:
    """Classify DATA by a client's network at the end of RUN.

    DATA is named as for `fl run`; a table of features may lack the labels. With labels the accuracy
    is printed. The client, with its memory, is of the first seed; the data of the run must be in
    place. --set names your code and files again that the run file names.

    Example: hopfed fl predict kept.h5 digits --client 3 --out classes.csv
    """
    fl = _experiment()
    from hopfed.experiments.shared.kept_networks import predict_classes
    from hopfed.neural.data import load

    config = replace(runs.held_settings(fl, run_file)[0], keep="")
    runs.refuse_code(fl, config, run_file, [*settings, f"data={data}"])
    dataset = load(data, labelled=False)
    classes, chances = predict_classes(run_file, config, client, dataset.inputs)
    found = [classes[k] for k in chances.argmax(axis=1)]
    ends = "" if Run.load(run_file).complete else ", at the last round of an interrupted run"
    out.print(f"{len(found):,} rows, {config.method}, client {client}{ends}")
    if dataset.class_names != ("",):
        truth = [dataset.class_names[k] for k in dataset.labels]
        right = sum(a == b for a, b in zip(found, truth, strict=True))
        own = "in the data of the run they include training rows"
        out.print(f"accuracy {right / len(found):.4f} of all rows; {own}")
    if out_file is not None:
        columns = [("class", found), *zip(classes, chances.astype(float).T, strict=True)]
        write(out_file, columns)
    say_wrote(out_file)


@command("list")
@click.argument("method", required=False)
def list_command(method: str | None) -> None:
    """List all methods, or describe METHOD and its settings.

    Example: hopfed fl list fedprox
    """
    _experiment()
    from hopfed.neural.methods import METHODS
    from hopfed.neural.methods import method as find

    if method is not None:
        out.print(cleandoc(find(method).__doc__ or ""))
        return
    rows = []
    for name in METHODS:
        cls = find(name)
        own = [f for f in fields(cls) if f.name not in ("task", "training")]
        words = ", ".join(f"{f.name}={describe(f.default)}" for f in own)
        rows.append((name, cls.source, words or "-"))
    print_table(("method", "source", "own settings"), rows, left=3)


def _experiment() -> Any:
    try:
        import torch  # noqa: F401

        from hopfed.experiments import fl
    except ImportError as error:
        raise BackendError(
            f"{error.name or 'torch'} is not installed: pip install 'hopfed[neural]'"
        ) from None
    return fl
