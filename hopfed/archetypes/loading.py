"""What `hopfed.load` reads: a file of archetypes, or of an associative memory."""

from __future__ import annotations

from pathlib import Path

from hopfed._lib.outputs import is_run
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.storage import has_archetypes, loaded
from hopfed.errors import RunFileError
from hopfed.memory import storage
from hopfed.memory.associative import AssociativeMemory
from hopfed.runs import Run


def load(path: str | Path) -> Archetypes | AssociativeMemory:
    """Read archetypes or a memory from the file that their `save`, or a command, wrote.

    `hopfed recover`, `serve` and `join` write archetypes, `hopfed store` a memory.

    Parameters
    ----------
    path : of the file.

    Raises
    ------
    RunFileError : there is no such file, it is damaged, or it holds something else: what, and how
        that is read.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> memory = AssociativeMemory.store(np.array([[1, -1, 1]]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     memory.save(f"{folder}/m.h5")
    ...     load(f"{folder}/m.h5")
    AssociativeMemory(rule=Hebb())
    """
    try:
        run = Run.load(path, complete=True)
    except RunFileError as error:
        table = Path(path).is_file() and not is_run(path)
        way = "; hopfed.read_table reads tables" if table else ""
        raise RunFileError(f"{error}{way}") from error
    if run.kind == storage.KIND:
        return storage.of_run(run, path)
    if run.kind == "serve" or has_archetypes(run):
        return loaded(run, path)
    raise RunFileError(
        f"{path}: holds a run of {run.kind!r} without archetypes; `hopfed show` prints it, and "
        "hopfed.runs.Run.load reads it"
    )
