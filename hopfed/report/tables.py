"""Tables of a run's results, for the command line and for pages."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.outputs import replacing
from hopfed._lib.settings import describe, require
from hopfed.errors import ArgumentError, RunFileError
from hopfed.experiments import NAMES, OTHERS, Table, compared, config_of, find_experiment
from hopfed.runs import Run, require_seeds
from hopfed.tables.writers import write

KNOWN = (*NAMES, *OTHERS)
NONE = (np.nan, np.nan)  # a mean and a deviation that a run does not have


def load_complete(path: str | Path, begun: bool = False) -> Run:
    """Load a complete run for tables of results, checked against its experiment.

    With `begun`, load also the results so far of an interrupted federation of networks.
    """
    run = Run.load(path)
    begun = begun and run.kind == "fl"
    if begun and not run.complete:
        from hopfed.experiments.machinery.checkpoint import results_so_far

        run = results_so_far(run)
    if not (begun and run.committed):
        run.require_complete(path)
    if run.kind in KNOWN:
        config = settings_in(run, path)
        rounds = getattr(config, "units", getattr(config, "rounds", 1))
        require_seeds(
            run, path, rounds if hasattr(find_experiment(run.kind), "measure_round") else None
        )
    return run


def settings_in(run: Run, path: str | Path) -> Any:
    """Settings, for tables of results, in the file of a run of an experiment."""
    try:
        return config_of(run)
    except (ArgumentError, TypeError) as error:
        raise RunFileError(f"{path}: these are not settings of {run.kind}: {error}") from None


def differing_rows(held: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Rows of a table of results, or of settings, that differ: name, value in each."""
    names = dict.fromkeys(name for each in held for name in each)
    rows = [(name, *(describe(each.get(name)) for each in held)) for name in names]
    return [row for row in rows if len(set(row[1:])) > 1]


def tables_of(run: Run) -> list[Table]:
    """Tables of a run's results: its experiment's own, or its summary with the paper's values."""
    experiment: Any = find_experiment(run.kind) if run.kind in KNOWN else None
    if hasattr(experiment, "tables"):
        return list(experiment.tables(config_of(run), run.summary))
    measures = compared(run.kind)
    if not measures:
        return [
            Table("summary", ("",), tuple((k, format_value(v)) for k, v in run.summary.items()))
        ]
    shown = [(measure, run.summary[key]) for key, measure in measures.items() if key in run.summary]
    rows = [
        (measure.label, format_spread(value), measure.paper, measure.aim)
        for measure, value in shown
    ]
    heads = ("", "measured", "paper", "aim")
    filled = [i for i in range(4) if i < 2 or any(row[i] for row in rows)]
    cells = tuple(tuple(row[i] for i in filled) for row in rows)
    return [Table("", tuple(heads[i] for i in filled[1:]), cells)]


def compare_summaries(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """Table of several runs' results: rows (label, value in each run) of all their summaries."""
    measures = compared(runs[0].kind) if len({run.kind for run in runs}) == 1 else {}
    names = list(measures) or list(dict.fromkeys(name for run in runs for name in run.summary))
    labels = {name: measures[name].label if measures else name for name in names}
    held = [name for name in names if any(run.summary.get(name) is not None for run in runs)]
    form = format_spread if measures else format_value
    return [(labels[name], *(form(run.summary.get(name)) for run in runs)) for name in held]


HEADS = {  # numbers of a federation of networks -> heads of their columns in a paper
    "test": "accuracy", "decile": "worst tenth", "auc": "AUC", "f1": "F1",
    "balanced": "balanced accuracy", "loss": "test loss", "megabytes_up": "MB up",
    "megabytes_down": "MB down", "gigaflops": "GFLOP", "epsilon": "epsilon",
    "record_epsilon": "epsilon of an example",
}  # fmt: skip


def write_for_papers(runs: Sequence[Run], path: Path) -> None:
    """Write a table of results for papers: means and standard errors, a row for each run of `fl`.

    The file is a .csv, or a tabular of LaTeX, which needs no package.
    """
    kinds = {run.kind for run in runs}
    require(kinds == {"fl"}, "RUN", "runs of hopfed fl run", ", ".join(sorted(kinds)))
    methods = [str(run.config["method"]) for run in runs]
    if len(set(methods)) < len(methods):
        options = [f" ({run.config['options']})" if run.config["options"] else "" for run in runs]
        methods = [method + own for method, own in zip(methods, options, strict=True)]
    found, roots = {}, np.sqrt([run.config["seeds"] for run in runs])
    for key, head in HEADS.items():
        if any(key in run.summary for run in runs):
            means, deviations = np.array([run.summary.get(key) or NONE for run in runs], float).T
            found[head] = means, deviations / roots
    if path.suffix.lower() == ".csv":
        pairs = (((head, m), (f"{head} standard error", e)) for head, (m, e) in found.items())
        write(path, [("method", methods), *chain.from_iterable(pairs)])
        return
    columns = [[*map(_in_latex, *pair)] for pair in found.values()]
    rows = [["method", *found], *zip(methods, *columns, strict=True)]
    lines = [re.sub(r"(?<!\\)([_#%])", r"\\\1", " & ".join(row) + r" \\") for row in rows]
    body = "\n".join((r"\hline", lines[0], r"\hline", *lines[1:], r"\hline"))
    made = f"\\begin{{tabular}}{{l{'r' * len(found)}}}\n{body}\n\\end{{tabular}}\n"
    with replacing(path) as temporary:
        temporary.write_text(made, encoding="utf-8")


def _in_latex(mean: float, error: float) -> str:
    """A number, with its standard error to two digits."""
    if not np.isfinite(mean):
        return "--"
    if not error > 0:  # one seed
        return f"{mean:.4g}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    return rf"${mean:.{digits}f} \pm {error:.{digits}f}$"


def format_spread(value: Any) -> str:
    """Return a number in a table of results, or a pair of number and spread, as a text."""
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)) and len(value) == 2:
        middle, spread = (format_spread(v) for v in value)
        return middle if spread in ("-", "nan") else f"{middle} ± {float(value[1]):.2g}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def format_value(value: Any) -> str:
    """Return any value in a table of results as a text of one line."""
    if isinstance(value, list):
        shown = ", ".join(format_value(v) for v in value[:6])
        return f"{shown}, ... ({len(value)})" if len(value) > 6 else shown
    return format_spread(value)
