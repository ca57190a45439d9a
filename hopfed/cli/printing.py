"""Output of commands: tables, status lines and numbers of bytes.

Names of files, columns and metrics may come from strangers. They are printed without markup, and
characters that would control a terminal are printed as escapes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from hopfed.errors import safe_line as harmless


def escape(text: object) -> str:
    """Return a printed `text`, of any length, with escapes for characters that steer a terminal."""
    return harmless(text, sys.maxsize)


class Screen(Console):
    """A console that prints every text without markup, escaped by `escape`."""

    def __init__(self, **options: Any):
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return the printed form of a text, also of one in a table; line breaks are kept."""
        return super().render_str("\n".join(map(escape, text.split("\n"))), **options)

    def note(self, *lines: str) -> None:
        """Print lines without breaking them at a width."""
        for line in lines:
            self.print(line, soft_wrap=True)


human_bytes = decimal  # 1500 is 1.5 kB
out = Screen(soft_wrap=True)
err = Screen(stderr=True)


def say_wrote(*paths: object) -> None:
    """Print for a command the names of written files; None stands for a file not asked for."""
    out.note(*(f"wrote {escape(path)}" for path in paths if path is not None))


def finish_command(
    options: Mapping[str, Any],
    said: Any,
    show: Callable[[], object],
    draw: Callable[[], Any] | None = None,
) -> None:
    """Print at the end of a command its answer and the written files; draw its figure before."""
    figure = options["figure"]
    if figure is not None and draw is not None:
        from hopfed.figures import save

        save(draw(), figure)
    if options["as_json"]:
        print_json(said)
    else:
        show()
        say_wrote(options.get("out_file"), figure)


def bold_name(name: str, words: str) -> Text:
    """Return a text for printing: a bold name, a colon, and words."""
    return Text.assemble((escape(name), "bold"), f": {escape(words)}")


def print_table(heads: Iterable[object], rows: Iterable[Sequence[object]], left: int = 0) -> None:
    """Print a table of any command in the house style, whose first columns begin at the left."""
    grid = Table(box=None, header_style="bold", pad_edge=False)
    for place, name in enumerate(heads):
        grid.add_column(escape(name), justify="left" if place < left else "right", overflow="fold")
    for row in rows:
        grid.add_row(*map(escape, row))
    out.print(grid)


def print_json(held: Any) -> None:
    """Print values as JSON for any command, as a run file holds them."""
    from hopfed.runs import to_json_values

    print(json.dumps(to_json_values(held)))
