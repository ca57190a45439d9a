"""Errors of one line about all columns of a table that cannot be used, with what to do about them.

Who reads it knows options of the command line (`--ignore`) or arguments of a call (``ignore=``):
`hopfed.tables.options.Choices` says which.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from hopfed.errors import DataError, shown
from hopfed.tables.options import Choices
from hopfed.tables.table import SHOWN, listed
from hopfed.tables.vocabulary import GONE, canonical, meanings, outsiders

SEARCHED = 10_000  # names among which one that is like another is looked for
LONGEST = 60  # characters of a name in a line
NO_ANSWERS = frozenset((7, 8, 9, 66, 77, 88, 97, 98, 99, 777, 888, 997, 998, 999))  # as a rule
LIKE = 0.6  # how alike two names must be, as `difflib` has it


class RefusedColumnError(DataError):
    """A column that cannot be used as it is.

    Attributes
    ----------
    name : of the column.
    why : what is in the way.
    names_rows : whether it could name the rows.
    """

    def __init__(self, name: str, why: str, names_rows: bool = False):
        super().__init__(f"column '{name}' {why}")
        self.name, self.why, self.names_rows = name, why, names_rows


class MixedColumnError(DataError):
    """A column whose words are of two kinds.

    Attributes
    ----------
    where : table, row, column and word, and why it does not fit.
    name : of the column.
    ways : what else may be said of it, beside that it is one of categories.
    first : what is likelier than that; "" if nothing is.
    """

    def __init__(self, where: str, name: str, ways: Sequence[str], first: str = ""):
        super().__init__(where)
        self.where, self.name, self.ways, self.first = where, name, ways, first


def mixture(mixed: Sequence[MixedColumnError], choices: Choices) -> DataError:
    """Return the error about all columns whose words are of two kinds, with what to say of them.

    Parameters
    ----------
    mixed : what is in the way in each of them.
    choices : what was told of the table.

    Examples
    --------
    >>> where = "a.csv: row 8, column 'drv': '4' is a number beside 'f'"
    >>> one = MixedColumnError(where, "drv", ["if there is no answer: --words drv=4=missing"])
    >>> print(mixture([one], Choices(options=True)))  # doctest: +ELLIPSIS
    a.csv: row 8, column 'drv': '4' is a number beside 'f'; if these are categories: --words \
drv=category; if there is no answer: --words drv=4=missing
    """
    names = [each.name for each in mixed]
    one = mixed[0]
    also = f" (and so in {listed(names[1:])})" if len(names) > 1 else ""
    kinds = f"if these are categories: {choices.calling('category', *names)}"
    ways = filter(None, [one.first, kinds, *one.ways])
    return DataError("; ".join([f"{one.where}{also}", *ways]))


def refusal(
    what: str,
    refused: Sequence[RefusedColumnError],
    uncut: Sequence[str],
    shows: str,
    choices: Choices,
    all_of_them: bool = False,
) -> DataError:
    """Return the error about all columns that cannot be used.

    Parameters
    ----------
    what : the table.
    refused : columns that can only be left out.
    uncut : names of columns of numbers of which it is not said where they are cut.
    shows : some of these numbers.
    choices : what was told of the table.
    all_of_them : whether these are all columns, so that none is left without them.

    Examples
    --------
    >>> odd = [("born", "holds dates"), ("b", "holds 250 words")]
    >>> odd = [RefusedColumnError(name, why) for name, why in odd]
    >>> print(refusal("a.csv", odd, [], "", Choices(options=True)))
    a.csv: column 'born' holds dates, and 'b' holds 250 words; leave them out: --ignore born,b
    """
    parts, one = [], len(refused) + len(uncut) == 1
    if refused:
        some = [f"'{shown(each.name, LONGEST)}' {each.why}" for each in refused[:SHOWN]]
        more = f" and {len(refused) - SHOWN:,} more" if len(refused) > SHOWN else ""
        last = f", and {some.pop()}" if len(some) > 1 and not more else ""
        parts.append(f"column {', '.join(some)}{last}{more}")
    if uncut:
        held = "hold" if len(uncut) > 1 else "holds"
        plural, cut = "s" * (len(uncut) > 1), choices.called("binarize")
        parts.append(
            f"column{plural} {listed(uncut)} {held} numbers ({shows}); say where they are cut "
            f"({cut}): {choices.cuts}"
        )
    names = [each.name for each in refused] + list(uncut)
    rows = next((each.name for each in refused if each.names_rows), None)
    ids = f"; or if '{rows}' names the rows: {choices.naming(rows)}" if rows is not None else ""
    them = "it" if one else "them"
    way = f"{'or ' * bool(uncut)}leave {them} out: {choices.leaving(names)}"
    if all_of_them:
        way = "and there is no other column" if not uncut else ""
    return DataError(f"{what}: {'; '.join([*parts, *filter(None, [way])])}{ids}")


@dataclass(frozen=True)
class Unknown:
    """What a coding does not know of a column.

    Attributes
    ----------
    name : of the column.
    row : from 1, in which there is the first word of them.
    words : some of them, that one first.
    why : it is not known.
    signed : whether words stand for +1 and -1 in the column.
    """

    name: str
    row: int
    words: tuple[str, ...]
    why: str
    signed: bool = False


def unknown_words(what: str, columns: Sequence[Unknown]) -> DataError:
    """Return the error about all columns that hold words that a coding does not know.

    Parameters
    ----------
    what : the table.
    columns : what is not known of each of them.

    Examples
    --------
    >>> odd = [Unknown("tree", 2, ("elm",), "was not there"), Unknown("ink", 7, ("red",), "...")]
    >>> print(unknown_words("b.csv", odd))  # doctest: +ELLIPSIS
    b.csv: row 2, column 'tree': 'elm' was not there; and row 7, column 'ink': 'red'; if there is \
no answer, read it as missing: --words elm=missing,red=missing (words={'elm': 'missing', ...})
    """
    first, *rest = columns
    others = [_place(each) for each in rest[: SHOWN - 1]]
    more = f" and {len(rest) - len(others):,} more columns" if len(rest) > len(others) else ""
    also = f"; and {', '.join(others)}{more}" if others else ""
    words = list(dict.fromkeys(word for each in columns[:SHOWN] for word in each.words))[:SHOWN]
    way = _telling([word for word in words if shown(word, LONGEST) == word], columns)
    return DataError(f"{what}: {_place(first)} {first.why}{also}{way}")


def _telling(words: Sequence[str], columns: Sequence[Unknown]) -> str:
    """What to do about words: say what they stand for, where they may be yes and no, or missing."""
    ways = _signs({canonical(word) for word in words}) if all(c.signed for c in columns) else []
    if ways:
        said = " or ".join(Choices(options=True).meaning(signs) for signs in ways)
        return f"; say what they stand for: {said} ({Choices().meaning(ways[0])})"
    if not words:
        return ""
    told = shlex.quote(",".join(f"{word}=missing" for word in words))
    beside = ", ..." if len(words) > 1 else ""
    return (
        f"; if there is no answer, read it as missing: --words {told} "
        f"(words={{{words[0]!r}: 'missing'{beside}}})"
    )


def _signs(words: set[str]) -> list[dict[str, int]]:
    """What words of yes and no may stand for, others being missing; 1 and 2 may be either.

    Where 2 is new, and 1 is not, it is the other one, or a code of no answer beside 0 and 1.
    """
    held = words & {"-1", "0", "1", "2"}
    gone = dict.fromkeys(sorted(outsiders(words) - held), GONE)
    if held == {"2"}:
        return [{"2": sign} | gone for sign in (-1, GONE)]
    if held in ({"1", "2"}, {"1"}):
        return [
            {word: sign if word == "1" else -sign for word in sorted(held)} | gone
            for sign in (1, -1)
        ]
    if "-1" in held and "2" not in held:
        return [{word: int(word) for word in sorted(held)} | gone]
    known = meanings([words - gone.keys()])
    if known is None or not words - gone.keys():
        return []
    return [{word: known[word] for word in sorted(words - gone.keys())} | gone]


def _place(each: Unknown) -> str:
    return f"row {each.row}, column '{shown(each.name, LONGEST)}': '{shown(each.words[0], 40)}'"


def no_answers(values: Collection[float], choices: Choices, name: str) -> str:
    """Return what to do where numbers are two and a code of those who gave no answer, or nothing.

    Parameters
    ----------
    values : of a column.
    choices : what was told of the table.
    name : of the column.

    Examples
    --------
    >>> no_answers({1.0, 2.0, 9.0}, Choices(options=True), "tea")
    'if 9 means that there is no answer: --words tea=9=missing'
    >>> no_answers({1.0, 2.0, 3.0, 9.0}, Choices(options=True), "tea")
    ''
    """
    codes = sorted(v for v in values if abs(v) in NO_ANSWERS)
    if not codes or set(values) - set(codes) not in ({0.0, 1.0}, {1.0, 2.0}):
        return ""
    way = choices.meaning({f"{code:g}": GONE for code in codes}, name)
    mean = "mean" if len(codes) > 1 else "means"
    return f"if {' and '.join(f'{c:g}' for c in codes)} {mean} that there is no answer: {way}"


def no_columns(what: str, unknown: Sequence[str], names: Sequence[str]) -> DataError:
    """Return the error about columns that are not there, with those that they are like.

    Parameters
    ----------
    what : the table.
    unknown : names that it does not have.
    names : that it has.

    Examples
    --------
    >>> print(no_columns("a.csv", ["Grower"], ["grower", "ash"]))
    a.csv: there is no column 'Grower'; did you mean 'grower'?
    """
    meant = dict.fromkeys(m for name in unknown if (m := _like(name, names)) is not None)
    way = f"; did you mean {listed(list(meant))}?" if meant else ""
    if not meant and names:
        way = f"; there are {listed(names)}"
        blank = sum(name == f"column {j}" for j, name in enumerate(names, start=1))
        if len(names) > blank > len(names) / 2:
            way += "; if a line stands above the names of the columns, remove it"
    return DataError(f"{what}: there is no column {listed(unknown)}{way}")


def _like(name: str, names: Sequence[str]) -> str | None:
    """The name that is most like another one, if any is."""
    if len(names) > SEARCHED:
        names = names[:SEARCHED]
    lower = {each[:LONGEST].strip().lower(): each for each in reversed(names)}
    found = get_close_matches(name[:LONGEST].strip().lower(), lower, n=1, cutoff=LIKE)
    return lower[found[0]] if found else None
