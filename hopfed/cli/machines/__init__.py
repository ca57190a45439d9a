"""Commands of a federation across machines; lines of their log, and addresses."""

from __future__ import annotations

import re
import time

from hopfed._lib.settings import require
from hopfed.cli.printing import err
from hopfed.errors import safe_line

LONGEST = 2_000  # characters of a line of the log


def log_line(words: str) -> None:
    """Print a line of the log, with the time, for `hopfed serve` and `hopfed join` alike."""
    err.print(f"{time.strftime('%H:%M:%S')} {safe_line(words, LONGEST)}", soft_wrap=True)


def check_address(text: str, argument: str) -> None:
    """Fail unless an address is HOST:PORT, for `hopfed serve` and `hopfed join` alike."""
    found = re.fullmatch(r"(\[.+\]|[^:]+):([0-9]{1,5})", text)
    fits = found is not None and int(found[2]) <= 65535
    require(fits, argument, "HOST:PORT, such as 127.0.0.1:9443", text)
