"""Lines of the log of `hopfed serve` and `hopfed join`, and addresses."""

from __future__ import annotations

import re
import time

from hopfed.cli.printing import err
from hopfed.errors import ArgumentError, shown

LONGEST = 2_000  # characters of a line of the log


def say(words: str) -> None:
    """Print a line with the time."""
    line = f"{time.strftime('%H:%M:%S')} {shown(words, LONGEST)}"
    err.print(line, markup=False, soft_wrap=True)


def address(text: str, argument: str) -> tuple[str, int]:
    """Return the host and the port that HOST:PORT names."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise ArgumentError(argument, "HOST:PORT, such as 127.0.0.1:9443", text)
    return host.strip("[]"), int(port)
