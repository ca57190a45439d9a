"""Codings that no row decides, as noise needs them.

Noise hides what a row adds to a sum. Where a row also decides how the others are coded, it moves
their sums too: with a median as its threshold, one row moves whatever lies beside it; a column in
which all say "ash" is +1, and with one "yew" all the others are -1. No noise that is made for one
row hides that.
"""

from __future__ import annotations

from hopfed.data.arrow_cells import number
from hopfed.tables.coding import Code, Coding
from hopfed.tables.options import Choices
from hopfed.tables.vocabulary import FAMILIES, GONE, canonical, family

KNOWN = {
    word: sign for low, high in FAMILIES for side, sign in ((low, -1), (high, 1)) for word in side
}
KNOWN |= {"-1": -1, "0": -1, "1": 1}


def unsettled(coding: Coding, choices: Choices, gaps: bool = False) -> list[str]:
    """Names of the columns that would be coded in another way if a row held something else.

    Where rows with gaps get noise, nor may a row decide what is missing: one -1 in a table of 0 and
    1 makes every 0 a missing entry, unless it is said what 0 stands for. Of columns of numbers that
    are cut those are named, too, that were taken for names of the rows and left out, as one row
    with the number of another would bring them in; and columns that are called by a word that is an
    entry, as that name may have been the first row.

    Parameters
    ----------
    coding : of a table.
    choices : what its reader was told.
    gaps : whether rows with gaps get noise.

    Examples
    --------
    >>> from hopfed import read_table
    >>> unsettled(read_table([[0, 1], [-1, 0]]).coding, Choices(), gaps=True)
    ['column 1', 'column 2']
    >>> table = read_table({"tea": ["yes", "no"], "tree": ["ash", "yew"], "size": [1, 2]})
    >>> unsettled(table.coding, Choices())
    ['tree', 'size']
    >>> said = Choices(words={"ash": -1, "yew": 1, "1": -1, "2": 1})
    >>> again = read_table({"tree": ["ash", "yew"], "size": [1, 2]}, words=said.words)
    >>> unsettled(again.coding, said)
    []
    """
    pairs = zip(coding.names, coding.codes, strict=True)
    found = [
        name
        for name, code in pairs
        if _is_entry(name, code, choices)
        or not _is_settled(name, code, choices)
        or (gaps and _is_zero_gone(name, code, choices))
    ]
    if choices.id is not None:
        return found
    own = (*coding.ids, *coding.ignored)
    out = [name for name in own if name not in choices.among(own).ignore]
    return found + [name for name in out if number(str(choices.cut(name))) is not None]


def _is_entry(name: str, code: Code, choices: Choices) -> bool:
    """Whether the name of a column is a word as its entries are, so that it may be one of them."""
    word, entries = canonical(name), {w for w, _ in code.words if number(w) is None}
    known = word in KNOWN and bool(entries) and family([word, *entries]) is not None
    return known or word in choices.signs(name)


def _is_zero_gone(name: str, code: Code, choices: Choices) -> bool:
    """Whether 0 was taken for a missing entry, as there is a -1 somewhere, and nobody said so."""
    gone = code.kind == "words" and dict(code.words).get("0") == GONE
    return gone and "0" not in choices.signs(name)


def _is_settled(name: str, code: Code, choices: Choices) -> bool:
    """Whether a column would be coded like this, or be refused, whatever a row held."""
    cut = number(str(choices.cut(name)))
    if code.kind != "words":
        return code.kind == "number" and cut is not None
    signs = {word: sign for word, sign in code.words if sign != GONE}
    given = {**KNOWN, **choices.signs(name)}
    if any(given.get(word) != sign for word, sign in signs.items()):
        return False
    values = {word: number(word) for word in signs}  # with a larger one they would be cut
    return cut is None or all(v is None or (v > cut) == (signs[w] > 0) for w, v in values.items())
