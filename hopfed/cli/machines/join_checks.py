"""What is said of a table before a server is asked: whether it is fit, and what would leave."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from hopfed.cli.printing import human_bytes, out
from hopfed.cli.tables.reading import by_code
from hopfed.errors import DataError, shown
from hopfed.tables.coding import Code, Coding
from hopfed.tables.options import Choices
from hopfed.tables.table import listed
from hopfed.tables.words import FAMILIES, GONE, MISSING, canonical, meanings, number

READ = 10  # codings that are printed
TRUST = "whoever runs the server can learn single rows of yours: it subtracts answers"
DIFFERING = ("words", "category", "cut")  # what owners with other rows decide otherwise
WAYS = {
    "category": "--ignore or a column of yes and no for each category, for {}",
    "cut": "--binarize COLUMN=NUMBER for {}",
    "cut at all": "--binarize COLUMN=NUMBER, not one for all columns, for {}",
    "zero": "--words 0=missing",
    "ids": "--id COLUMN, or --id '' where no column names the rows, for {}",
    "name": "another name, as this is a word for an entry, for {}",
}

KNOWN_SIGNS = {
    word: sign for low, high in FAMILIES for side, sign in ((low, -1), (high, 1)) for word in side
} | {"-1": -1, "0": -1, "1": 1}


def check_fit(table: Any, choices: Choices, noisy: bool) -> None:
    """Fail where a column is coded by what the rows hold."""
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


def unsettled(coding: Coding, choices: Choices, gaps: bool = False) -> dict[str, str]:
    """Columns that are coded by what a row holds, each with a reason (`_reason`)."""
    pairs = zip(coding.names, coding.codes, strict=True)
    found = {name: why for name, code in pairs if (why := _reason(name, code, choices, gaps))}
    own = () if choices.id is not None else (*coding.ids, *coding.ignored)
    out = [name for name in own if name not in choices.among(own).ignore]
    return found | {n: "ids" for n in out if number(str(choices.cut(n))) is not None}


def _reason(name: str, code: Code, choices: Choices, gaps: bool) -> str:
    """What decides how a column is coded; nothing where that is the same whatever a row held."""
    cut, told = number(str(choices.cut(name))), choices.signs(name)
    signs = {word: sign for word, sign in code.words if sign != GONE}
    word, words = canonical(name), {w for w in signs if number(w) is None}
    if word in told or (word in KNOWN_SIGNS and words and meanings([{word} | words - MISSING])):
        return "name"
    if code.kind == "number":
        return "cut" if cut is None else ""
    if code.levels:
        return "category"
    if any({**KNOWN_SIGNS, **told}.get(word) != sign for word, sign in signs.items()):
        return "words"
    values = {word: number(word) for word in signs}  # with a larger one they would be cut
    if cut is not None and any(
        v is not None and (v > cut) != (signs[w] > 0) for w, v in values.items()
    ):
        return "cut at all"
    return "zero" if gaps and dict(code.words).get("0") == GONE and "0" not in told else ""


def settling(found: Mapping[str, str], coding: Coding, choices: Choices) -> str:
    """What to say so that no row decides how columns are coded: an option for each reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in found.items():
        by_reason.setdefault(reason, []).append(name)
    codes, signs = dict(zip(coding.names, coding.codes, strict=True)), dict[str, int]()
    for name in by_reason.pop("words", ()):
        signs |= {word: sign for word, sign in codes[name].words if sign != GONE}
    for name in list(by_reason.get("category", ())):
        held = codes[name].levels
        if len(held) == 2 and not choices.of(name):
            signs |= {held[0]: -1, held[1]: 1}
            by_reason["category"].remove(name)
    if signs.get("1") == -1 and signs.get("2") == 1:  # where most codes of answers have yes
        signs |= {"1": 1, "2": -1}
    spelt = ",".join(f"{shown(word, 40)}={sign:+d}" for word, sign in signs.items())
    parts = [f"--words {shlex.quote(spelt)} (or other signs)"] if signs else []
    parts += [WAYS[why].format(listed(names)) for why, names in by_reason.items() if names]
    return "; ".join(parts)


def show(
    held: Any, rows: Any, epsilon: float | None, delta: float, ledger: Any, outcome: Any
) -> None:
    """Print how a table is read, what would leave, who could learn what, and what left before."""
    M, N = rows.shape
    names, codes = held.coding.names, map(str, held.coding.codes)
    out.print(f"{M:,} rows of {N:,} columns, read so, as all owners must read theirs:")
    for code, columns in by_code(dict(zip(names, codes, strict=True)))[:READ]:
        out.print(f"  {shown(code)}: {shown(columns)}")
    for line in held.notes:
        out.print(f"  {shown(line)}")
    pairs = human_bytes(4 * N * (N - 1) // 2)
    out.print(
        "\nWhat would leave, with the number of rows: in how many rows each pair of columns agrees "
        f"({pairs} in whole numbers), or, where the server asks for classes (serve --graded), sums "
        "over classes of rows that it names. No row, and no name of a column."
    )
    if rows.gaps:
        out.print("These rows have gaps: only a server that asks for classes takes them.")
    if epsilon is None:
        out.print(
            "Without noise: exact sums, also of random groups of rows along directions, and of the "
            f"rows nearest to patterns, that the server names. So {TRUST}."
        )
        if rows.counts is not None:
            out.print("Sums are weighted as --weights says, and the sum of the weights leaves too.")
        if outcome is not None:
            out.print(
                f"Of {shown(outcome.name)}, which is no feature: exact sums over classes that the "
                "server names, from which it can learn what single rows hold."
            )
        if ledger.released(rows):
            out.print("These rows have a privacy budget: every question is refused, join --epsilon")
    else:
        ledger.check(rows)
        out.print(
            f"With noise on each sum: all answers of all rounds tell of a row what epsilon "
            f"{epsilon:g} and delta {delta:g} say, whatever is asked and whoever runs the server."
        )
        terms = ledger.terms(rows)
        if terms is not None:
            out.print(
                f"By the ledger in HOPFED_HOME they are released with {terms}: the same is "
                "answered with the same bits, and other terms are refused."
            )
    out.print("Other clients learn the archetypes that the server tells to all.\nNothing was sent.")
