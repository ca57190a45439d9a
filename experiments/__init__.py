"""One module per published claim, run by `hopfed run NAME`.

A module of this package offers

- `Config`: a frozen dataclass, its settings; `seeds`, the number of seeds, is one of them;
- `PRESETS`: configs under the names quick, default and paper;
- `RECORD`: what is claimed, by whom, and what the summary is compared with;
- `run(config, seed)`: all that one seed gives, a dict of arrays of the same shapes for every seed;
  or, for a federation, `run_round(config, seed, t, state, engine)`: round t, from the state that
  round t - 1 left (None at the start), to its arrays and the new state, None when it was the last;
  the state is a dict of arrays, or a `FederationState`, whose untouched clients are not copied;
- `summarise(config, arrays)`: the scalars of the summary, from the arrays of all seeds;
- for those that compare many methods, `tables(config, summary)`: the `Table`s to print;
- for those whose settings may name code that is not hopfed's, `code_of(config)`: those names, which
  are imported only if the command line says so;

and `hopfed.figures` a module of the same name with `draw(run)`.
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
    "concentration",
    "heavy_tails",
    "correlated_noise",
    "load",
    "capacity",
    "disentangle",
    "completion",
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
)

OTHERS = ("fl", "serve")  # run by commands of their own

PRESET_NAMES = ("quick", "default", "paper")

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Measure:
    """One row of the summary.

    Attributes
    ----------
    label : what is measured, in words.
    paper : what the paper reports, empty when it does not.
    aim : what this project set out to reach, empty when nothing was set.
    """

    label: str
    paper: str = ""
    aim: str = ""


@dataclass(frozen=True)
class Record:
    """What an experiment is about.

    Attributes
    ----------
    claim : one line.
    source : where the claim is made.
    minutes : duration of each preset on two cores, by its name.
    measures : key of the summary -> its row; a value may be a number or a pair (value, spread).
    """

    claim: str
    source: str
    minutes: Mapping[str, float]
    measures: Mapping[str, Measure] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A table of results, as it is printed.

    Attributes
    ----------
    title : what its rows are.
    columns : headings of all columns but the first.
    rows : first the name of the row, then its cells.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def find(name: str) -> Any:
    """Import the experiment `name`; an unknown one is an error that suggests the nearest.

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
