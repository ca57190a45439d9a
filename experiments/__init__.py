"""Experiments: one module per published claim, run by `hopfed run NAME`; see :class:`Experiment`.

What came out stands in experiments/README.md, and in the kept summaries beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from hopfed.errors import ArgumentError

# Name -> claim, and the paper that makes it; `hopfed list` reads these without the modules.
CLAIMS = {
    "bbp": ("outliers and overlaps of archetypes follow the BBP formulas", "Fig. 5"),
    "mp": (
        "noise spectra follow Marchenko-Pastur, and the thresholds keep their false-alarm rates",
        "Sec. 4.1, App. B",
    ),
    "plan": (
        "a study of the planned size sees its archetypes as often as was promised",
        "proposed here (theory/NOTES.md, Power of a study)",
    ),
    "concentration": (
        "the operator concentrates around its mean as M^(-1/2), within an explicit bound",
        "Thm 1",
    ),
    "isotropic": (
        "noise is the same in every direction up to N^(-1/2), and its bulk stays in a band",
        "Thm 3, Lemma 1, eqs. (39), (40)",
    ),
    "exposure": (
        "exposure decides what is retrieved, as theory foresees it for each picture",
        "Sec. 4.1",
    ),
    "heavy_tails": (
        "under heavy tails Tyler's shape matrix counts the archetypes, the covariance does not",
        "supplement",
    ),
    "correlated_noise": (
        "under correlated noise the generalised edge drops false spikes and keeps true ones",
        "supplement",
    ),
    "load": (
        "complete recovery up to loads K/N many times that of the authors' program",
        "proposed here; compare Sec. 5",
    ),
    "capacity": (
        "each rule holds as many patterns as its law says, and more from better cues",
        "laws of Amit et al. 1985, Fachechi et al. 2019, Gardner 1987, Lucibello 2024",
    ),
    "disentangle": (
        "layers that repel each other take a mixture apart, up to a load",
        "proposed here; Sec. 3 for the memory",
    ),
    "completion": (
        "memories fill gaps; graded archetypes come near the best for rows that were not stored",
        "proposed here",
    ),
    "tables": (
        "archetypes of real tables describe unseen rows as well as latent class analysis",
        "proposed here (theory/NOTES.md, Latent class channel)",
    ),
    "scale": (
        "time grows as the larger side, memory as the bits of the examples; nothing is N x N",
        "proposed here",
    ),
    "attacker": ("an attacker's weight collapses and the archetypes are kept", "Fig. 6"),
    "drift": ("w = 0 does not acquire, w = 1 forgets, an adaptive w does both", "Fig. 7"),
    "privacy": (
        "privacy noise hides the weak archetypes first, at the epsilon that theory predicts",
        "supplement and open directions",
    ),
    "ablation": (
        "each ingredient of the recovery from one operator, and the loss without it",
        "supplement",
    ),
    "structured": (
        "correlated pictures are recovered to the last pixel, without false patterns",
        "Section 5.3 and Figs. 9-10",
    ),
    "cooperation": ("noisy clients profit from a clean one, and from one another", "supplement"),
    "novelty": (
        "a new archetype is found in the first round in which theory can see it",
        "Section 5.2, Fig. 8",
    ),
    "participation": (
        "the archetypes found are those that theory predicts from the clients heard",
        "Section 6, open directions",
    ),
    "byzantine": (
        "with few liars, agreement detects an injected pattern; robust means of entries do not",
        "supplement",
    ),
    "sohip": (
        "memories of a few numbers, averaged by a server, help heterogeneous clients",
        "SoHip (arXiv:2603.25614), Table 1, Figs. 3-7",
    ),
    "fedssa": (
        "head rows averaged class by class help heterogeneous clients",
        "FedSSA (arXiv:2312.09006), Tables 1-5, Figs. 4-11",
    ),
    "fedh2l": (
        "predictions on a few public examples improve models on each other's domains",
        "FedH2L (arXiv:2101.11296), Tables II-VIII",
    ),
    "knnper": (
        "a memory of its own examples makes a global model personal",
        "kNN-Per (arXiv:2111.09360), Tables 2-3, Figs. 1-14",
    ),
    "oneshot": (
        "one exchange of additive operators instead of rounds of gradients",
        "proposed here",
    ),
}  # a section or figure alone is one of arXiv:2603.19902

NAMES = tuple(CLAIMS)
OTHERS = ("fl", "serve")  # experiments with their own commands
ON_DEVICE = ("load", "plan", "scale")  # those whose `measure` takes a device
PRESET_NAMES = ("quick", "default", "paper")

Arrays = dict[str, np.ndarray]


class Experiment(Protocol):
    """What a module offers that `hopfed.experiments.runner` runs.

    Attributes
    ----------
    Config : class of its settings, a `hopfed.experiments.settings.Settings`.
    PRESETS : name -> settings that differ from the defaults: quick, default, paper, and parts of
        the question, such as cifar10.
    MINUTES : duration of presets on two cores.
    COMPARED : key of the summary -> its label, or (label, the paper's value, aim).

    It has `measure(seed, config)`, the arrays of one seed, which have the same shapes for every
    seed; one that can recover on a device takes `device` too. Or, for a federation,
    `measure_round(seed, config, t, state, engine)`: the arrays of round t, and the state after it,
    None after the last; a dict of arrays, or a `FederationState`. And it may have
    `tables(config, summary)`, the tables to print; `with_options`, which `--set` goes through; and
    `code_of(config)`, names of code outside of hopfed.
    """

    __name__: str
    Config: Any
    PRESETS: Mapping[str, Mapping[str, Any]]
    MINUTES: Mapping[str, float]
    COMPARED: Mapping[str, str | tuple[str, ...]]

    def summarise(self, config: Any, arrays: Arrays) -> dict[str, Any]:
        """Return the numbers of the summary, from the arrays of all seeds."""


@dataclass(frozen=True)
class Measure:
    """One row of a summary: what it is, the paper's value and the aim; empty for none."""

    label: str
    paper: str = ""
    aim: str = ""


@dataclass(frozen=True)
class Table:
    """A printed table: title, headings of the columns, and rows, each its name and its cells."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def find(name: str) -> Any:
    """Import the experiment `name`; an unknown name raises ArgumentError with the nearest name.

    Examples
    --------
    >>> find("bbp").Config().N
    400
    """
    if name not in (*NAMES, *OTHERS):
        near = get_close_matches(name, NAMES, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ArgumentError("experiment", f"one of {', '.join(NAMES)}{hint}", repr(name))
    return import_module(f"hopfed.experiments.{name}")


def preset(experiment: Any, name: str) -> Any:
    """Return the settings of an experiment that have a name.

    Examples
    --------
    >>> preset(find("bbp"), "paper").seeds
    50
    """
    known = experiment.PRESETS
    if name not in known:
        raise ArgumentError("--preset", f"one of {', '.join(known)}", repr(name))
    return experiment.Config(**known[name])


def compared(experiment: Any) -> dict[str, Measure]:
    """Return what an experiment compares: key of the summary -> its row.

    Examples
    --------
    >>> compared(find("bbp"))["gap"]
    Measure(label='median overlap gap, finite size', paper='.0163', aim='<= .003')
    """
    rows = experiment.COMPARED.items()
    return {key: Measure(*((row,) if isinstance(row, str) else row)) for key, row in rows}
