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


def unsettled(coding: Coding, choices: Choices, gaps: bool = False) -> dict[str, str]:
    """Columns that would be coded in another way if a row held something else, each with a reason.

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

    Returns
    -------
    Of each such column what decides: its "name", its "words", a "category", a "cut" that rows
    place, whether it is "cut at all", "zero", or whether it is one of "ids".

    Examples
    --------
    >>> from hopfed import read_table
    >>> unsettled(read_table([[0, 1], [-1, 0]]).coding, Choices(), gaps=True)
    {'column 1': 'zero', 'column 2': 'zero'}
    >>> table = read_table({"tea": ["yes", "no"], "tree": ["ash", "yew"], "size": [1, 2]})
    >>> unsettled(table.coding, Choices())
    {'tree': 'category', 'size': 'words'}
    >>> said = Choices(words={"ash": -1, "yew": 1, "1": -1, "2": 1})
    >>> again = read_table({"tree": ["ash", "yew"], "size": [1, 2]}, words=said.words)
    >>> unsettled(again.coding, said)
    {}
    """
    found = {}
    for name, code in zip(coding.names, coding.codes, strict=True):
        reason = "name" if _is_entry(name, code, choices) else _reason(name, code, choices)
        if not reason and gaps and _is_zero_gone(name, code, choices):
            reason = "zero"
        if reason:
            found[name] = reason
    if choices.id is not None:
        return found
    own = (*coding.ids, *coding.ignored)
    out = [name for name in own if name not in choices.among(own).ignore]
    return found | {n: "ids" for n in out if number(str(choices.cut(n))) is not None}


def _is_entry(name: str, code: Code, choices: Choices) -> bool:
    """Whether the name of a column is a word as its entries are, so that it may be one of them."""
    word, entries = canonical(name), {w for w, _ in code.words if number(w) is None}
    known = word in KNOWN and bool(entries) and family([word, *entries]) is not None
    return known or word in choices.signs(name)


def _is_zero_gone(name: str, code: Code, choices: Choices) -> bool:
    """Whether 0 was taken for a missing entry, as there is a -1 somewhere, and nobody said so."""
    gone = code.kind == "words" and dict(code.words).get("0") == GONE
    return gone and "0" not in choices.signs(name)


def _reason(name: str, code: Code, choices: Choices) -> str:
    """What decides how a column is coded; nothing where that is the same whatever a row held."""
    cut = number(str(choices.cut(name)))
    if code.kind == "number":
        return "cut" if cut is None else ""
    if code.levels:
        return "category"
    signs = {word: sign for word, sign in code.words if sign != GONE}
    given = {**KNOWN, **choices.signs(name)}
    if any(given.get(word) != sign for word, sign in signs.items()):
        return "words"
    values = {word: number(word) for word in signs}  # with a larger one they would be cut
    same = (v is None or (v > cut) == (signs[w] > 0) for w, v in values.items() if cut is not None)
    return "" if all(same) else "cut at all"
