"""Results of a federation as one long table: a row for each seed, round and client."""

from typing import Any

import numpy as np

from hopfed.errors import RunFileError
from hopfed.experiments import config_of
from hopfed.runs import Run


def columns(run: Run) -> dict[str, np.ndarray]:
    """Columns of the long table, of one length; RunFileError for a run without rounds of clients.

    `seed`, `round` (from 1) and `client` (from 0) identify a row; in a comparison of
    methods `row` names the cell of its tables. Each array of the run that has a number for every
    seed, round and client is a column of its own name, such as `test` or `traffic/up`.
    """
    shape = np.shape(run.arrays.get("test", 0))
    if len(shape) != 3 or "seeds" not in run.arrays:
        raise RunFileError(f"a run of {run.kind} has no rounds of clients to export")
    seed, unit, client = (axis.ravel() for axis in np.indices(shape))
    found: dict[str, np.ndarray] = {"seed": np.asarray(run.arrays["seeds"])[seed]}
    rounds: int = run.config.get("rounds") or shape[1]
    if shape[1] != rounds:
        from hopfed.experiments.shared.cells import cells_of

        keys = [cell.key for cell in cells_of(config_of(run))]
        found["row"] = np.array(keys)[unit // rounds]
    found |= {"round": unit % rounds + 1, "client": client}
    kinds = {n: a for n, a in sorted(run.arrays.items()) if a.dtype.kind in "biuf"}
    return found | {n: np.ravel(a) for n, a in kinds.items() if np.shape(a) == shape}


def frame(run: Run) -> Any:
    """Return the `columns` of the long table as a frame of pandas."""
    import pandas as pd

    return pd.DataFrame(columns(run))
