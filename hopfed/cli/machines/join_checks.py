"""Whether a table is fit for a federation: said before a server is asked, with options to copy."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from hopfed.errors import DataError, shown
from hopfed.tables.coding import Coding
from hopfed.tables.options import Choices
from hopfed.tables.table import listed
from hopfed.tables.words import GONE, number

DIFFERING = ("words", "category", "cut")  # what owners with other rows decide otherwise
SHOWN = 3  # columns of which each gets an option of its own


def check_fit(table: Any, choices: Choices, noisy: bool) -> None:
    """Fail where a column is coded by what the rows hold."""
    from hopfed.tables.choosing import unsettled

    found = unsettled(table.coding, choices, gaps=noisy)
    if not noisy:
        found = {name: reason for name, reason in found.items() if reason in DIFFERING}
    if not found:
        return
    options = settling(found, table.coding, choices)
    why = "one row changes others, which the noise of --epsilon does not hide"
    if not noisy:
        why = "other owners' columns mean something else"
    raise DataError(
        f"--data: what the rows hold decides how column {listed(list(found))} is coded, so that "
        f"{why}; say it yourself, all owners alike, without these rows: {options}"
    )


def settling(found: Mapping[str, str], coding: Coding, choices: Choices) -> str:
    """What to say so that no row decides how columns are coded, in options to copy."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in found.items():
        by_reason.setdefault(reason, []).append(name)
    parts = _words(by_reason, coding, choices)
    if "cut" in by_reason:
        parts.append(_cuts(by_reason["cut"], "NUMBER"))
    if "cut at all" in by_reason:
        parts.append(_own_cuts(by_reason["cut at all"], coding, choices))
    if "zero" in by_reason:
        parts.append("--words 0=missing")
    for name in by_reason.get("ids", ()):
        parts.append(f"{choices.give(id=name)}, or --id '' where no column names the rows")
    if "name" in by_reason:
        named = listed(by_reason["name"])
        parts.append(f"a name that is no word for an entry, for column {named}")
    return "; ".join(parts)


def _words(by_reason: Mapping[str, list[str]], coding: Coding, choices: Choices) -> list[str]:
    """Words of columns, with a sign each; columns of more words than that are to be left out."""
    codes = dict(zip(coding.names, coding.codes, strict=True))
    signs: dict[str, int] = {}
    levels, out = [], []
    for name in by_reason.get("words", ()):
        signs |= {word: sign for word, sign in codes[name].words if sign != GONE}
    for name in by_reason.get("category", ()):
        held = codes[name].levels
        if choices.cut(name) == "levels" and all(number(level) is not None for level in held):
            levels.append(name)
        elif len(held) > 2 or choices.of(name):
            out.append(name)
        else:
            signs |= {level: 2 * (level == held[-1]) - 1 for level in held}
    if signs.get("1") == -1 and signs.get("2") == 1:  # where most codes of answers have yes
        signs |= {"1": 1, "2": -1}
    parts = []
    if signs:
        spelt = ",".join(f"{shown(word, 40)}={sign:+d}" for word, sign in signs.items())
        parts.append(f"--words {shlex.quote(spelt)} (or other signs)")
    if levels:
        parts.append(_cuts(levels, "NUMBER"))
    if out:
        parts.append(
            f"{choices.give(ignore=out)}, as rows decide which categories there are (or make a "
            "column of yes and no of each)"
        )
    return parts


def _cuts(names: list[str], at: str) -> str:
    """Options that say where numbers of some columns are cut."""
    given = [f"--binarize {shlex.quote(f'{shown(name, 60)}={at}')}" for name in names[:SHOWN]]
    more = len(names) - SHOWN
    return " ".join(given) + (f" and so on for {more:,} columns more" if more > 0 else "")


def _own_cuts(names: list[str], coding: Coding, choices: Choices) -> str:
    """What to say where a cut is for columns of numbers, and others hold 0 and 1 or words."""
    codes = zip(coding.names, coding.codes, strict=True)
    cut = [name for name, code in codes if code.kind == "number"]
    everywhere = choices.cut("")
    if any(choices.cut(name) != everywhere for name in names) or not cut:
        return _cuts(names, "0.5")
    return f"{_cuts(cut, str(everywhere))} instead of --binarize {everywhere}"
