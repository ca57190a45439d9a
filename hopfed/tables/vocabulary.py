"""Words that cells hold: which of them mean yes, no, or that there is no entry."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from functools import lru_cache

from hopfed.data.arrow_cells import number

GONE = 0  # code of a missing entry; -1 and +1 are the two others
# Of each family the words for -1 and those for +1. A column is of one family.
FAMILIES: tuple[tuple[frozenset[str], frozenset[str]], ...] = (
    (frozenset({"no", "n"}), frozenset({"yes", "y"})),
    (frozenset({"false", "f", "0"}), frozenset({"true", "t", "1"})),
    (frozenset({"nay"}), frozenset({"aye", "yea"})),
    (frozenset({"absent"}), frozenset({"present"})),
    (frozenset({"-"}), frozenset({"+"})),
    (frozenset({"nein", "nee", "nej"}), frozenset({"ja"})),
    (frozenset({"non"}), frozenset({"oui"})),
    (frozenset({"no"}), frozenset({"si", "sí", "sì"})),
    (frozenset({"não", "nao"}), frozenset({"sim"})),
    (frozenset({"falsch"}), frozenset({"wahr"})),
    (frozenset({"faux"}), frozenset({"vrai"})),
    (frozenset({"✗", "✘"}), frozenset({"✓", "✔"})),
)
MISSING = frozenset({"", "na", "n/a", "n.a.", "#n/a", "<na>", "null", "none", "nan", "nat"})
MISSING |= frozenset({"?", ".", "-"})
MAYBE_LEVEL = frozenset({"none"})  # beside other categories it is one of them
KNOWN = MISSING.union(*(low | high for low, high in FAMILIES))  # no names of columns
# Names of rows that sum up others.
SUMS = frozenset({"total", "totals", "sum", "mean", "average", "gesamt", "summe", "mittelwert"})

JOINING = (";", "|", ",", "/")  # what stands between several answers in one cell
SHORT = 40  # characters of a word whose form is kept
EXACT = 2.0**53  # from which several whole numbers are one float
ZEROS = re.compile(r"0[0-9]+")


def token(word: str) -> str:
    """Return a word in the form in which words are compared: stripped, in lower case.

    Examples
    --------
    >>> token(" Yes ")
    'yes'
    """
    return word.strip().lower()


def is_sum(word: str) -> bool:
    """Whether a name of a row is one that a row of totals would have.

    Examples
    --------
    >>> is_sum("Total:"), is_sum("Totnes")
    (True, False)
    """
    return token(word).rstrip(" :") in SUMS


def spelt(value: float) -> str:
    """Return the one word that stands for a number in whatever spelling.

    Examples
    --------
    >>> spelt(1.0), spelt(-0.0), spelt(0.25), spelt(1e300)
    ('1', '0', '0.25', '1e+300')
    """
    if abs(value) < 1e15 and value == round(value):
        return str(round(value))
    return repr(value)


def canonical(word: str) -> str:
    """Return a word as codings know it: a number by its value, others as their token.

    Examples
    --------
    >>> canonical(" YES"), canonical("1.0")
    ('yes', '1')
    """
    return _canonical_short(word) if len(word) <= SHORT else _canonical(word)


def _canonical(word: str) -> str:
    value = _exact(word)
    return token(word) if value is None else spelt(value)


def _exact(word: str) -> float | None:
    """Return the number that a word is; None if it is none, or one of several words of one float.

    Longer codes, of 17 digits and more, are names: as numbers many of them would be one.
    """
    value = number(word)
    exact = value is not None and (abs(value) < EXACT or math.isinf(value))
    return value if exact else None


# The columns of a wide table hold the same few words; long ones would fill the memory.
_canonical_short = lru_cache(maxsize=1 << 12)(_canonical)


def family(tokens: Collection[str]) -> dict[str, int] | None:
    """Return the code of each of these words, if they are of one family.

    Parameters
    ----------
    tokens : words of a column, missing ones among them.

    Examples
    --------
    >>> family(["yes", "n", "?"]), family(["t", "n"]), family(["+", "-", ""])
    ({'yes': 1, 'n': -1, '?': 0}, None, {'+': 1, '-': -1, '': 0})
    """
    for low, high in FAMILIES:
        said = [t for t in tokens if t in low or t in high]
        if not said or ("-" in low and "+" not in said):
            continue
        if all(t in low or t in high or t in MISSING for t in tokens):
            return {t: 1 if t in high else -1 if t in low else GONE for t in tokens}
    return None


def meanings(parts: Iterable[Collection[str]]) -> dict[str, int] | None:
    """Return the code of each word that a column may hold, those that it holds first.

    Owners may differ in their words, if those of each are of one family.

    Parameters
    ----------
    parts : words of the column at each owner, without those that say that there is no entry.

    Examples
    --------
    >>> meanings([["yes"], ["n"]])
    {'n': -1, 'yes': 1, 'no': -1, 'y': 1}
    >>> list(meanings([["1", "0"], ["ja"]]))
    ['0', '1', 'ja', 'f', 'false', 'nee', 'nein', 'nej', 't', 'true']
    >>> meanings([["yes", "nein"], ["1", "0"]]) is None  # two families at one owner
    True
    """
    held = [set(words) for words in parts if words]
    for sets in ([set[str]().union(*held)], held):
        pairs = [_pair(words) for words in sets]
        if None not in pairs:
            low, high = (set[str]().union(*side) for side in zip(*filter(None, pairs), strict=True))
            said = set[str]().union(*held)
            words = sorted(low | high, key=lambda word: (word not in said, word))
            return {word: 1 if word in high else -1 for word in words}
    return None


def _pair(words: set[str]) -> tuple[frozenset[str], frozenset[str]] | None:
    """The family that has all of these words."""
    fits = (pair for pair in FAMILIES if words <= pair[0] | pair[1])
    return next((pair for pair in fits if "-" not in pair[0] or "+" in words), None)


def outsiders(tokens: Collection[str]) -> set[str]:
    """Return the words that are not of the family of most of them; none if two have as many.

    Parameters
    ----------
    tokens : words of a column.

    Examples
    --------
    >>> outsiders(["yes", "n", "y", "unsure", "?"]), outsiders(["yes", "true", "perhaps"])
    ({'unsure'}, set())
    """
    inside = [{t for t in tokens if t in low or t in high} for low, high in FAMILIES]
    largest = max(inside, key=len)
    alone = all(len(some) < len(largest) or some == largest for some in inside)
    return set(tokens) - largest - MISSING if alone else set()


def level(word: str) -> str:
    """Return the category that a word stands for; digits that zeros lead are a name, as of places.

    Examples
    --------
    >>> level(" Oak "), level("2.0"), level("01234")
    ('Oak', '2', '01234')
    """
    word = word.strip()
    value = None if ZEROS.fullmatch(word) else _exact(word)
    return word if value is None else spelt(value)


def several_answers(levels: Collection[str]) -> tuple[str, list[str]] | None:
    """Return what joins the answers that cells hold, and these, where cells hold several of few.

    Parameters
    ----------
    levels : different words of a column of categories.

    Examples
    --------
    >>> several_answers(["bus", "bike", "bus;bike", "bike; train"])
    (';', ['bike', 'bus', 'train'])
    >>> several_answers(["Lyon, France", "Bonn, Germany", "Paris, France"]) is None
    True
    """
    for mark in JOINING:
        joined = sum(mark in word for word in levels)
        parts = {part.strip() for word in levels for part in word.split(mark)} - {""}
        if 3 * joined >= len(levels) and 1 < len(parts) < len(levels):
            return mark, sorted(parts)
    return None


def answers_in(word: str, mark: str) -> set[str]:
    """Return the answers that a cell holds.

    Parameters
    ----------
    word : the cell.
    mark : what stands between them.

    Examples
    --------
    >>> sorted(answers_in("bus; 2.0;", ";")), answers_in("?", ";")
    (['2', 'bus'], set())
    """
    parts = {part for part in word.split(mark) if token(part) not in MISSING - MAYBE_LEVEL}
    return {level(part) for part in parts}


def combined_answers(words: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """Return what stands between answers in a column that is known to hold them, and the answers.

    It is "" where no cell holds several.

    Parameters
    ----------
    words : different cells of the column.

    Examples
    --------
    >>> combined_answers(["bus", "bike; own car, shared"]), combined_answers(["bus"])[0]
    ((';', ('bike', 'bus', 'own car, shared')), '')
    """
    counts = {mark: sum(mark in word for word in words) for mark in JOINING}
    often = max(JOINING, key=lambda mark: counts[mark])  # the first of those that are as often
    mark = (several_answers(words) or (often if counts[often] else "", []))[0]
    held = [answers_in(word, mark) for word in words] if mark else []
    return mark, sorted_levels(set[str]().union(*held))


def sorted_levels(levels: Iterable[str]) -> tuple[str, ...]:
    """Return categories in order: numbers first, by size.

    Examples
    --------
    >>> sorted_levels(["b", "10", "a", "9"])
    ('9', '10', 'a', 'b')
    """

    def place(level: str) -> tuple[bool, float, str]:
        value = number(level)
        return value is None, value or 0.0, level

    return tuple(sorted(levels, key=place))
