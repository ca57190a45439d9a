"""Experiments: one module per published claim, run by `hopfed run NAME`.

A module of this package offers

- `Config`: a frozen dataclass of its settings, including `seeds`, the number of seeds;
- `PRESETS`: configs with the names quick, default and paper, and of parts of the question if these
  have a name, such as cifar10;
- `RECORD`: the claim, its source, and the values with which the summary is compared;
- `run(config, seed)`: the results of one seed, a dict of arrays that have the same shapes for every
  seed; one that can recover on a device takes `device` too, "cpu" unless given; or, for a
  federation, `run_round(config, seed, t, state, engine)`: the arrays of round t and the new state,
  from the state after round t - 1. The first state is None; the new state is None after the last
  round. A state is a dict of arrays, or a `FederationState`, in which unchanged clients are not
  copied;
- `summarise(config, arrays)`: the numbers of the summary, from the arrays of all seeds;
- if it compares many methods, `tables(config, summary)`: the `Table`s to print;
- if its settings may name code outside of hopfed, `code_of(config)`: these names, which are
  imported only with permission from the command line.

`hopfed.figures` has a module of the same name with `draw(run)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError

NAMES = (
    "bbp",
    "mp",
    "plan",
    "concentration",
    "isotropic",
    "exposure",
    "heavy_tails",
    "correlated_noise",
    "load",
    "capacity",
    "disentangle",
    "completion",
    "tables",
    "scale",
    "attacker",
    "drift",
    "privacy",
    "ablation",
    "structured",
    "cooperation",
    "novelty",
    "participation",
    "byzantine",
    "sohip",
    "fedssa",
    "fedh2l",
    "knnper",
    "oneshot",
)

ON_DEVICE = ("load", "plan", "scale")  # those whose `run` takes a device

OTHERS = ("fl", "serve")  # experiments with their own commands

PRESET_NAMES = ("quick", "default", "paper")

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Measure:
    """One row of the summary.

    Attributes
    ----------
    label : description of the measured quantity.
    paper : value that the paper reports; empty if it reports none.
    aim : value that this project aims at; empty if there is no aim.
    """

    label: str
    paper: str = ""
    aim: str = ""


@dataclass(frozen=True)
class Record:
    """Claim of an experiment, and the rows of its summary.

    Attributes
    ----------
    claim : one line.
    source : paper and section that make the claim.
    minutes : duration of each preset on two cores, by its name.
    measures : key of the summary -> its row; a value may be a number or a pair (value, spread).
    """

    claim: str
    source: str
    minutes: Mapping[str, float]
    measures: Mapping[str, Measure] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A printed table of results.

    Attributes
    ----------
    title : title, which also heads the column of row names.
    columns : headings of the other columns.
    rows : for each row its name, then its cells.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def find(name: str) -> Any:
    """Import the experiment `name`; an unknown name raises ArgumentError with the nearest name.

    Examples
    --------
    >>> find("bbp").PRESETS["paper"].N
    400
    """
    if name not in (*NAMES, *OTHERS):
        near = get_close_matches(name, NAMES, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ArgumentError("experiment", f"one of {', '.join(NAMES)}{hint}", repr(name))
    return import_module(f"hopfed.experiments.{name}")
