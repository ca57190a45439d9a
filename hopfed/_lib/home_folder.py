"""The folder for what is kept between runs, and the form of the records in it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hopfed.errors import ArgumentError, LocalError

HOME = "HOPFED_HOME"  # the variable that names it


def home() -> Path:
    """Return the folder for what is kept: `HOPFED_HOME`, or `.hopfed` in the home folder.

    A `~` at its beginning stands for the home folder, as services and files of settings pass it on.
    """
    given = os.environ.get(HOME)
    try:
        found = Path(given).expanduser() if given else Path.home() / ".hopfed"
    except RuntimeError:  # whoever has no home folder
        raise ArgumentError(HOME, "given: this user has no home folder", given or "none") from None
    if not found.is_absolute():
        raise ArgumentError(HOME, "an absolute path, the same wherever you are", given or found)
    return found


def require_no_lost_link(folder: Path) -> None:
    """Refuse a folder that is a link to nothing, such as a disk that is not there.

    A new, empty folder in its place would know nothing of what the one that is lost holds.
    """
    if folder.is_symlink() and not folder.exists():
        raise LocalError(
            f"{folder}: a link to what is not there, so nobody knows what was released: put it back"
        )


def parse_record(text: str | bytes) -> Any:
    """Return the content of a record in JSON."""
    return json.loads(text, object_pairs_hook=_each_once)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key that is there twice")
    return made
