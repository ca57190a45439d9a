"""The folder for what outlives a process."""

from __future__ import annotations

import os
from pathlib import Path

from hopfed.errors import ArgumentError

HOME = "HOPFED_HOME"  # the variable that names it


def home() -> Path:
    """Folder for what outlives a process: `HOPFED_HOME`, or `.hopfed` in the home folder."""
    try:
        return Path(os.environ.get(HOME) or Path.home() / ".hopfed")
    except RuntimeError:  # whoever has no home folder
        raise ArgumentError(HOME, "given: this user has no home folder", "none") from None
