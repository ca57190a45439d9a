"""Output of commands: tables, status lines and numbers of bytes.

Names of files, columns and metrics may come from strangers. They are printed without markup, and
characters that would control a terminal are printed as escapes.
"""

from __future__ import annotations

import math
import re
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

# Control and format characters, which include the escape and marks of direction; surrogates;
# line separators. Unassigned characters are harmless and stay.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def shown(text: object) -> str:
    """Return `text` with an escape for every character that would control a terminal."""
    return _UNSAFE.sub(_spelt, str(text))


def _spelt(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # Python's form of a file name's byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return match[0].encode("unicode_escape").decode()


class Screen(Console):
    """A console that prints every text without markup, escaped by `shown`."""

    def __init__(self, **options: Any):
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return the printed form of a text, also of one in a table; line breaks are kept."""
        return super().render_str("\n".join(map(shown, text.split("\n"))), **options)


out = Screen(soft_wrap=True)
err = Screen(stderr=True)


def progress_bar(*columns: Any) -> Any:
    """Return a bar of rich on standard error, gone in the end, and none where no terminal is."""
    from rich.progress import Progress

    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


def say_wrote(*paths: object) -> None:
    """Say which files were written; None for those that were not asked for."""
    for path in paths:
        if path is not None:
            out.print(f"wrote {shown(path)}")


def named(name: str, words: str) -> Text:
    """Return a text of a bold name, a colon, and words."""
    return Text.assemble((shown(name), "bold"), f": {shown(words)}")


def human_bytes(count: float) -> str:
    """Return a number of bytes as a text with its unit, such as 1.5 kB."""
    if count < 1000:
        return f"{count:.0f} B"
    power = min(int(math.log(count, 1000)), 3)
    return f"{count / 1000**power:.1f} {('B', 'kB', 'MB', 'GB')[power]}"


def table(*columns: str) -> Table:
    """Return an empty table with right-aligned columns in the house style."""
    grid = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        grid.add_column(name, justify="right")
    return grid
