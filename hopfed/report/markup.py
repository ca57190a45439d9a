"""Pieces of a page: tables and foldable parts. Here every text of a run is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from hopfed.errors import shown

LONGEST = 10_000  # characters of a text


class Markup(str):
    """Text that is markup already, and is not escaped."""


def text(words: object, most: int = LONGEST) -> Markup:
    """Return words of somebody else as markup that shows them, as one harmless line.

    Parameters
    ----------
    words : whatever they are.
    most : characters that are shown.

    Examples
    --------
    >>> text("</script>\\x1b[2J"), text(Markup("<b>1</b>"))
    ('&lt;/script&gt;\\\\x1b[2J', '<b>1</b>')
    """
    return words if isinstance(words, Markup) else Markup(escape(shown(words, most)))


def folded(title: str, inner: str) -> Markup:
    """Return a part of the page that a click on its title opens.

    Parameters
    ----------
    title : a text.
    inner : markup.

    Examples
    --------
    >>> folded("Settings", "<p>none</p>")
    '<details><summary>Settings</summary><p>none</p></details>'
    """
    return Markup(f"<details><summary>{text(title)}</summary>{inner}</details>")


def grid(title: str, columns: Iterable[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Return a table, which scrolls by itself where it is too wide.

    Parameters
    ----------
    title : of the first column.
    columns : titles of the others.
    rows : the first cell of a row is its name.

    Examples
    --------
    >>> grid("name", ("size",), [("a<b", 3)]).count("<tr>"), "a&lt;b" in grid("", (), [("a<b",)])
    (2, True)
    """
    head = "".join(f"<th>{text(c)}</th>" for c in (title, *columns))
    lines = [
        f'<tr><th scope="row">{text(row[0])}</th>'
        + "".join(f"<td>{text(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    ]
    table = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return Markup(f'<div class="wide"><table>{table}</table></div>')
