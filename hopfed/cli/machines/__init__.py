"""Commands of a federation across machines; lines of their log, and addresses."""

from __future__ import annotations

import re
import time

from hopfed.cli.printing import err
from hopfed.errors import ArgumentError, shown

LONGEST = 2_000  # characters of a line of the log


def say(words: str) -> None:
    """Print a line with the time."""
    err.print(f"{time.strftime('%H:%M:%S')} {shown(words, LONGEST)}", soft_wrap=True)


def address(text: str, argument: str) -> tuple[str, int]:
    """Return the host and the port that HOST:PORT names."""
    found = re.fullmatch(r"\[?(.+?)\]?:([0-9]{1,5})", text)
    if not found or int(found[2]) > 65535:
        raise ArgumentError(argument, "HOST:PORT, such as 127.0.0.1:9443", text)
    return found[1], int(found[2])
