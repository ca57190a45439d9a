"""Stored summaries of runs, which are the only source of the tables of results.

Run files are large and are not part of the repository. The tables need only the settings, the
summary and the versions of a run; these are stored as one small JSON file per run in
``experiments/summaries``. The output of `hopfed bench --json` is stored there too.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePath
from typing import Any

from hopfed._lib.outputs import replacing
from hopfed.runs import Run

FOLDER = Path(__file__).parents[1] / "summaries"

DIGITS = 6  # significant digits; further ones would change with the machine
PARTS = ("kind", "config", "summary", "provenance")

Summary = dict[str, Any]


def keep(
    path: str | Path, minutes: float | None = None, name: str = "", folder: Path = FOLDER
) -> str:
    """Store the summary of a run file under its kind, or for `hopfed fl run` under ``fl_FILE``.

    Parameters
    ----------
    path : a complete run.
    minutes : measured duration, if known. The run file does not contain it, because an interrupted
        run and an uninterrupted one have the same bytes.
    name : another name for the summary, for a run that is not the preset's.

    Returns
    -------
    The name to `read` it by.

    Raises
    ------
    RunFileError : there is no such run, or it is not complete.
    """
    run = Run.load(path, complete=True)
    name = name or (f"fl_{Path(path).stem}" if run.kind == "fl" else run.kind)
    kept: Summary = {part: getattr(run, part) for part in PARTS}
    if minutes is not None:
        kept["minutes"] = minutes
    with replacing(folder / f"{name}.json") as temporary:
        temporary.write_text(dump(kept))
    return name


def read(name: str, folder: Path = FOLDER) -> Summary | None:
    """Return the summary stored under `name`, or None.

    Examples
    --------
    >>> (read("mp") or {})["config"]["N"], read("dance")
    (500, None)
    """
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    kept: Summary = json.loads(path.read_text())
    return kept


def dump(kept: Summary) -> str:
    """Return the text of a stored file: sorted keys, rounded numbers, paths without folders.

    Examples
    --------
    >>> print(dump({"summary": {"m": [0.98765432, 0.1]}, "config": {"data": "/home/me/x.npz"}}))
    {
     "config": {
      "data": "x.npz"
     },
     "summary": {
      "m": [
       0.987654,
       0.1
      ]
     }
    }
    <BLANKLINE>
    """
    return json.dumps(_short(kept), indent=1, sort_keys=True) + "\n"


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, str) and PurePath(value).is_absolute():
        return PurePath(value).name
    if isinstance(value, list):
        return [_short(v) for v in value]
    if isinstance(value, dict):
        return {k: _short(v) for k, v in value.items()}
    return value
