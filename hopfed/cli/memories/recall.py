"""`hopfed recall`: what a stored memory makes of cues."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from hopfed._lib.settings import real, require
from hopfed.cli.memories.named import Named, ordered
from hopfed.cli.memories.named import read as read_named
from hopfed.cli.numbers import COUNT, WHOLE
from hopfed.cli.printing import out, table
from hopfed.cli.tables.reading import NAMES
from hopfed.errors import DataError

ROWS = 40  # of the table; --json and --out hold all
SHOWN = 6  # cues in the figure
STEPS = 3  # pictures between a cue and what is recalled
OUT = (".npy", ".csv", ".h5")
NAMED = 3  # columns, and ways to code them, that are listed
OPPOSITE = (
    "A negative overlap: what was recalled is nearest to the opposite of that pattern, which most "
    "rules hold as well."
)
# Nothing is said of cues that their memory does not know.
_NOTHING: dict[str, Any] = dict.fromkeys(NAMES, ()) | {"id": None}


@click.command("recall")
@click.argument("memory", type=click.Path(path_type=Path))
@click.argument("cues", type=click.Path(path_type=Path))
@click.option(
    "--out",
    "out_file",
    type=click.Path(path_type=Path),
    help="States to .npy or .csv; everything to .h5.",
)
@click.option("--updates", type=COUNT, default=100, show_default=True, help="Most updates.")
@click.option(
    "--temperature",
    default="0",
    show_default=True,
    help="A number, or FROM:TO to cool down to TO evenly.",
)
@click.option(
    "--order",
    type=click.Choice(["serial", "synchronous"]),
    default="serial",
    show_default=True,
    help="One spin at a time, or all at once.",
)
@click.option("--free", is_flag=True, help="Let observed sites of cues with gaps turn as well.")
@click.option("--seed", type=WHOLE, default=0, show_default=True, help="Seed of the noise.")
@click.option("--figure", type=click.Path(path_type=Path), help="Draw cue, steps and result.")
@click.option("--shape", help="Height x width of the patterns in the figure, such as 28x28.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON; nearest counts from 0.")
def recall_command(memory: Path, cues: Path, **options: Any) -> None:
    """Recall patterns from the rows of CUES, with a stored MEMORY.

    MEMORY is what `hopfed store` wrote. Values are +-1 or 0/1; 0 is a gap where a cell of the file
    is -1, or where all are 0, and NaN is one everywhere. Or a table in the words of the one that
    was stored, with its columns in any order; blank cells are gaps.

    Example: hopfed recall memory.h5 cues.npy --out recalled.npy
    """
    _check(options, [memory, cues])
    from hopfed.memory.storage import load
    from hopfed.runs import Run

    stored = load(memory)
    held = Named.of_run(Run.load(memory), memory, len(stored), stored.n_sites)
    given = read_named(cues, _NOTHING, held.coding, least=1)
    asked = as_cues(ordered(given, held.columns, cues), cues, stored.n_sites)
    updates = options["updates"]
    require(updates >= 1, "--updates", "at least 1", updates)
    settings = {
        "updates": updates,
        "temperature": _temperatures(options["temperature"], updates),
        "order": options["order"],
        "hold": not options["free"],
        "seed": options["seed"],
    }
    found = stored.recall(asked, observed=asked != 0, **settings)  # +1 and gaps are no bits
    config = {"memory": str(memory), "cues": str(cues), "rule": repr(stored.rule)}
    run = _as_run(stored, asked, found, settings, config | {k: str(v) for k, v in options.items()})
    names = replace(held, ids=given.ids)
    run = replace(run, arrays=run.arrays | names.arrays(), summary=run.summary | _said(names, held))
    _write(run, options, names)
    if options["as_json"]:
        print(json.dumps(run.summary))
    else:
        _print(run, names.ids, held.ids)
        for name in ("out_file", "figure"):
            if options[name]:
                out.print(f"wrote {options[name]}", markup=False)
        if options["out_file"] and held.coding is not None:
            out.print(_meaning(held.coding), markup=False)


def _said(names: Named, held: Named) -> dict[str, Any]:
    """Names of cues and of patterns for the report, where they have any."""
    both = {"ids": names.ids, "patterns": held.ids}
    return {name: list(ids) for name, ids in both.items() if ids is not None}


def as_cues(cues: np.ndarray, file: Path, n_sites: int) -> np.ndarray:
    """Cues (S, N) of +1, -1, and 0 in gaps."""
    from hopfed.memory.cues import as_signs

    if cues.ndim == 0 or cues.dtype.kind not in "biuf":
        raise DataError(f"{file}: cues must be rows of a table of numbers")
    if not cues.size:
        raise DataError(f"{file}: holds no cues, its shape is {cues.shape}")
    cues = cues.reshape(len(cues), -1) if cues.ndim > 1 else cues[None]
    if cues.shape[1] != n_sites:
        raise DataError(f"{file}: {cues.shape[1]} columns, but the memory has {n_sites} sites")
    cues = as_signs(cues)
    cues = np.where(np.isnan(cues), 0, cues)
    wrong = ~np.isin(cues, (-1, 0, 1))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        what = f"{cues[row, column]:g} at row {row + 1}, column {column + 1}"
        raise DataError(f"{file}: cues must be +-1, 0/1 or gaps, got {what}")
    return cues.astype(np.int8)


def _check(options: dict[str, Any], inputs: list[Path]) -> None:
    """Refuse what cannot work before any file is read."""
    from hopfed._lib.outputs import FIGURE, check_outputs
    from hopfed._lib.random import check_seed
    from hopfed.cli.tables.recover import shape_of

    check_seed(options["seed"])
    shape_of(options["shape"])
    outputs = ("--out", options["out_file"], OUT), ("--figure", options["figure"], FIGURE)
    check_outputs(*outputs, inputs=inputs)


def _temperatures(text: str, updates: int) -> Any:
    """A temperature, or one for each update: it falls over nine tenths of them, then stays."""
    first, colon, last = text.partition(":")
    rule = "a number at least 0, or FROM:TO, falling"
    high, low = (real("--temperature", part, rule) for part in (first, last if colon else first))
    require(math.inf > high >= low >= 0, "--temperature", rule, text)
    if not colon:
        return high
    return high + (low - high) * np.minimum(np.arange(updates) / max(1.0, 0.9 * updates), 1)


def _steps(memory: Any, cues: np.ndarray, found: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """States of the first cues on their way: (marks,) updates made, and the states then."""
    shown = cues[:SHOWN]
    last = int(found.updates[:SHOWN].max(initial=1))
    marks = np.unique(np.geomspace(1, max(last, 1), STEPS + 1).round().astype(int))[:-1]
    states = []
    for mark in marks:
        T = np.broadcast_to(settings["temperature"], (settings["updates"],))
        part = settings | {"updates": int(mark), "temperature": T[:mark]}
        states.append(memory.recall(shown, observed=shown != 0, **part).states)
    none = np.zeros((0, *found.states[:SHOWN].shape), found.states.dtype)
    return {"steps/updates": marks, "steps/states": np.stack(states) if states else none}


def _as_run(
    memory: Any, cues: np.ndarray, found: Any, settings: dict[str, Any], config: dict[str, Any]
) -> Any:
    from hopfed.runs import Run

    best, nearest = np.zeros(found.states.shape[:-1]), np.full(found.states.shape[:-1], -1)
    if len(memory):
        nearest = np.abs(found.overlaps).argmax(axis=-1)
        best = np.take_along_axis(found.overlaps, nearest[..., None], axis=-1)[..., 0]
    arrays = {
        "cues": cues,
        "states": found.states,
        "overlaps": found.overlaps,
        "energy": found.energy,
        "updates": found.updates,
        "converged": found.converged,
        **_steps(memory, cues, found, settings),
    }
    summary = {
        "cues": len(cues),
        "converged": int(found.converged.sum()),
        "nearest": nearest.tolist(),
        "overlap": best.tolist(),
        "energy": found.energy.tolist(),
        "updates": found.updates.tolist(),
    }
    return Run("recall", config, arrays, summary)


def _write(run: Any, options: dict[str, Any], names: Named) -> None:
    path = options["out_file"]
    if path is not None and path.suffix.lower() == ".h5":
        run.save(path)
    elif path is not None:
        from hopfed.runs import replacing
        from hopfed.tables.writers import write

        states = run.arrays["states"]
        flat = states.reshape(-1, states.shape[-1])
        if path.suffix.lower() == ".csv" and (names.columns or names.ids):
            write(path, _columns(flat, names), endings=OUT)
            return
        with replacing(path) as temporary, open(temporary, "wb") as file:
            if path.suffix.lower() == ".npy":
                np.save(file, states)
            else:
                np.savetxt(file, flat, fmt="%d" if flat.dtype.kind == "i" else "%g", delimiter=",")
    if options["figure"]:
        from hopfed.cli.tables.recover import shape_of
        from hopfed.figures import save
        from hopfed.figures.recall import draw

        save(draw(run, shape=shape_of(options["shape"])), options["figure"])


def _columns(states: np.ndarray, names: Named) -> list[Any]:
    """Columns of a table of states (S, N), or (S L, N) with the layers of a cue in a row."""
    from hopfed.tables.table import made_up

    columns = names.columns or made_up(states.shape[1])
    if names.ids is None:
        return list(zip(columns, states.T, strict=True))
    layers = len(states) // max(len(names.ids), 1)
    ids = [name for name in names.ids for _ in range(layers)]
    return [("id", ids), *zip(columns, states.T, strict=True)]


def _print(run: Any, cues: tuple[str, ...] | None, patterns: tuple[str, ...] | None) -> None:
    """Print what every cue was recalled as; cues and patterns by name where they have one."""
    states, overlaps = run.arrays["states"], run.arrays["overlaps"]
    layers = states.shape[1] if states.ndim == 3 else 1
    grid = table(
        "cue", *(["layer"] if layers > 1 else []), "nearest", "overlap", "updates", "rests"
    )
    flat = overlaps.reshape(len(states), layers, -1)
    for s in range(min(len(states), ROWS)):
        for layer in range(layers):
            row = flat[s, layer]
            k = int(np.abs(row).argmax()) if len(row) else -1
            pattern = str(k + 1) if patterns is None else patterns[k]
            near = [pattern, f"{row[k]:.4f}"] if k >= 0 else ["-", "-"]
            cue = str(s + 1) if cues is None else cues[s]
            head = [cue, str(layer + 1)] if layers > 1 else [cue]
            rests = "yes" if run.arrays["converged"][s] else "no"
            grid.add_row(*head, *near, str(run.arrays["updates"][s]), rests)
    out.print(grid)
    if len(states) > ROWS:
        out.print(f"... and {len(states) - ROWS} more (--json or --out holds all)")
    if (np.array(run.summary["overlap"]) < 0).any():
        out.print(OPPOSITE)


def _meaning(coding: Any) -> str:
    """What the numbers of recalled columns stand for in the words of the table."""
    said: dict[str, list[str]] = {}
    for name, code in zip(coding.names, coding.codes, strict=True):
        words = "+1 is the level in the column's name" if code.levels else str(code)
        said.setdefault(words, []).append(name)
    parts = []
    for words, names in said.items():
        more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
        parts.append(f"{words} ({', '.join(names[:NAMED])}{more})")
    more = f"; and {len(parts) - NAMED:,} more codings" if len(parts) > NAMED else ""
    return f"In the states {'; '.join(parts[:NAMED])}{more}."
