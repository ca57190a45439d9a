"""Experiments: one module per published claim, run by `hopfed run NAME`.

Claims, settings and compared numbers stand in claims.toml; results in experiments/README.md, and
in the kept summaries beside it. `hopfed.experiments.machinery.runner` runs a module, which has

- `Config`, its settings, a `hopfed.experiments.machinery.settings.Settings`;
- `measure(seed, config)`, arrays of one seed, with the same shapes for every seed; it may take a
  `device` to recover on, or an `engine` for clients. For long seeds, instead,
  `measure_round(seed, config, t, state, engine)`: the arrays of round t, and the `FederationState`
  after it, which is None after the last round where the settings have no `rounds`;
- `summarise(config, arrays)`, the numbers of the summary, from the arrays of all seeds;
- optionally `panels(config, arrays, summary)` of its picture; `tables(config, summary)` to print;
  `with_options`, which applies `--set`; `code_of(config)`, names of code outside of hopfed.
"""

from __future__ import annotations

import tomllib
import typing
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from importlib.resources import files
from inspect import signature
from typing import Any, TypeAlias

from hopfed._lib.lazy_imports import lazy_names
from hopfed._lib.settings import from_plain, hint
from hopfed.errors import ArgumentError

__getattr__, __dir__ = lazy_names(__name__, __path__)

_TABLE = tomllib.loads(files(__name__).joinpath("claims.toml").read_text(encoding="utf-8"))
CLAIMS: dict[str, tuple[str, str]] = {
    name: (held["claim"], held["source"]) for name, held in _TABLE.items() if "claim" in held
}
NAMES = tuple(CLAIMS)
OTHERS = ("fl", "serve")  # experiments with their own commands
ON_DEVICE = ("load", "plan", "scale")  # experiments whose `measure` takes a device
PRESET_NAMES = ("quick", "default", "paper")

if typing.TYPE_CHECKING:  # `hopfed list` needs no NumPy
    import numpy as np

Arrays: TypeAlias = "dict[str, np.ndarray]"


@dataclass(frozen=True)
class Measure:
    """A row of a summary: its name, the paper's value and the aim; empty for none."""

    label: str
    paper: str = ""
    aim: str = ""


@dataclass(frozen=True)
class Table:
    """A printed table: title, headings of the columns, and rows, each a name and its cells."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def find_experiment(name: str) -> Any:
    """Import an experiment of this package; ArgumentError with the nearest for unknown `name`."""
    if name not in (*NAMES, *OTHERS):
        rule = f"one of {', '.join(NAMES)}{hint(name, NAMES)}"
        raise ArgumentError("experiment", rule, repr(name))
    return import_module(f"hopfed.experiments.{name}")


def experiment_name(experiment: Any) -> str:
    """Name of an experiment, which is that of its module in this package of experiments."""
    return str(experiment.__name__.rpartition(".")[2])


def config_of(run: Any) -> Any:
    """Settings of a run: a `Config` of this package; ArgumentError, TypeError if they are unfit."""
    config = find_experiment(run.kind).Config
    # Settings of older runs that no longer exist are dropped; the device is chosen anew.
    known = {field.name for field in fields(config)} - {"device"}
    return from_plain(config, {k: run.config[k] for k in run.config if k in known})


def presets(experiment: Any) -> dict[str, dict[str, Any]]:
    """Presets of an experiment in claims.toml: name -> settings; quick, default and paper first."""
    held = _TABLE.get(experiment_name(experiment), {}).get("presets", {})

    def whole(name: str) -> dict[str, Any]:
        own = dict(held.get(name, {}))
        start = whole(own.pop("like")) if "like" in own else {}
        return start | _with_tuples(own)

    return {name: whole(name) for name in dict.fromkeys((*PRESET_NAMES, *held))}


def defaults(name: str) -> dict[str, Any]:
    """Default settings of an experiment of this package in claims.toml, which presets change."""
    return _with_tuples(_TABLE.get(name, {}).get("settings", {}))


def _with_tuples(held: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in held.items()}


@cache
def preset(experiment: Any, name: str) -> Any:
    """Return the settings of a preset that an experiment of this package has in claims.toml."""
    known = presets(experiment)
    if name not in known:
        raise ArgumentError("--preset", f"one of {', '.join(known)}", repr(name))
    return experiment.Config(**known[name])


def minutes(name: str) -> dict[str, float]:
    """Minutes that the presets of an experiment in claims.toml take on two cores."""
    return dict(_TABLE[name]["minutes"])


def compared(name: str) -> dict[str, Measure]:
    """Compared numbers of an experiment in claims.toml: key of the summary -> its row, if any."""
    held, rows = _TABLE.get(name, {}), {}
    for key, row in held.get("compared", {}).items():
        words = [row] if isinstance(row, str) else row
        for each in held["over"] if "{}" in key else [""]:
            rows[key.replace("{}", each)] = Measure(*(word.replace("{}", each) for word in words))
    return rows


def takes_argument(experiment: Any, name: str) -> bool:
    """Whether the `measure` of an experiment takes an argument, such as `device`."""
    measure = getattr(experiment, "measure", None)
    return measure is not None and name in signature(measure).parameters
