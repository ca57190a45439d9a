"""`hopfed join`: the owner of a file as a client of a federation across machines.

Before a server is asked, a table is looked at: whether it is fit, and what would leave.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from hopfed._lib.outputs import RUN
from hopfed._lib.settings import require
from hopfed.cli.machines.lines import address, say
from hopfed.cli.options import FINITE, NUMBER, PATH, check_outputs, flag, option, out_option
from hopfed.cli.printing import human_bytes, out
from hopfed.cli.reading import (
    NAMES,
    by_code,
    choices_of,
    outcome_in,
    read,
    table_options,
    weights_in,
)
from hopfed.errors import ArgumentError, DataError, HopfedError, shown
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


@click.command("join")
@option("--data", "Your examples.", PATH, required=True)
@table_options
@option(
    "--weights",
    "Numbers that are no feature: how often a row counts, or of a survey; with --trust-server.",
    metavar="COLUMN",
)
@option(
    "--outcome",
    "No feature, but what serve --relate asks for; with --trust-server.",
    metavar="COLUMN",
)
@option("--server", "HOST:PORT of `hopfed serve`.")
@option("--ca", "ca.pem of `hopfed certs`.", PATH)
@option("--key", "Your key, client-*.key.", PATH)
@option("--epsilon", "Send nothing without noise of this epsilon.", FINITE)
@option("--delta", "Its delta.", FINITE, 1e-5)
@flag("--trust-server", "Send exact sums: whoever runs the server may learn single rows.")
@option("--patience", "Seconds without a server.", NUMBER, 600.0)
@out_option("Archetypes: a .h5, which `hopfed assign`, `complete` and `export` read.", RUN)
@flag("--dry-run", "Send nothing; print what a server may ask.")
def join_command(data: Path, dry_run: bool, **options: Any) -> None:
    """Take part in a federation; your file stays on this machine.

    A table of examples, as for `hopfed recover`. Columns are matched with the names that the server
    tells, in whatever order they are; yours do not leave. Tables without names go by place. If it
    is killed and started again, it goes on where it was.

    Say how you take part. With --epsilon the server is not trusted: every sum has noise, and all
    answers together tell of a row what epsilon and delta say, whatever is asked. What was answered
    is recorded in the folder `privacy` of HOPFED_HOME, and counts in every later federation with
    the same rows. With --trust-server sums are exact, and whoever runs the server may learn single
    rows: it is for servers of people to whom you would show them. Rows never leave.

    Owners do not see each other's rows, so all of them say alike what words stand for, and at which
    number numbers are cut: --dry-run names what is lacking. Categories, medians, means and
    quantiles are refused, as the rows of each owner would decide what they are.

    Example: hopfed join --data museum.npy --epsilon 4 --server 127.0.0.1:9443 --ca ca.pem --key
    client-0.key
    """
    from hopfed._lib.home_folder import home
    from hopfed.archetypes.weights import counted, is_survey
    from hopfed.hopfield.columns import in_order
    from hopfed.hopfield.ledger import Ledger
    from hopfed.hopfield.owner import Owner, as_recorded
    from hopfed.tables.examples import as_examples
    from hopfed.tables.table import is_made_up

    named = [path for path in (data, options["ca"], options["key"]) if path is not None]
    check_outputs(("--out", options["out_file"], RUN), inputs=named)
    noisy = _check_options(options)
    if noisy:  # else one "+" makes it a -1 in all rows
        options["words"] = ("-=missing", *options["words"])
    weights = None if options["weights"] is None else weights_in([data], options)[0]
    outcome = None if options["outcome"] is None else outcome_in(data, options)
    [table] = read([data], options, by_rows=False)
    check_fit(table, choices_of(options), noisy)
    for name in (*NAMES, "weights", "outcome"):
        del options[name]
    rows = as_examples(table.rows, name=str(data), gaps=True)
    if weights is not None:
        rows = replace(rows, counts=weights)
        if not is_survey(rows):
            rows = counted([rows])[0][:]
            outcome = outcome and outcome[np.repeat(np.arange(len(weights)), weights.astype(int))]
    ledger = Ledger(home() / "privacy", look=dry_run)
    rows = as_recorded(rows, table.columns, ledger)
    if dry_run:
        show(table, rows, options["epsilon"], options["delta"], ledger, outcome)
        return
    for name in ("server", "ca", "key"):
        if options[name] is None:
            raise ArgumentError(f"--{name}", "given, unless with --dry-run", "none")
    for line in table.notes:
        say(line)
    order = in_order(table.columns)
    names = () if is_made_up(table.columns) else tuple(table.columns[j] for j in order)
    owner = Owner(rows, ledger, options["epsilon"], options["delta"], names, outcome)
    _join(owner, np.argsort(order), table.coding, options)


def _check_options(options: dict[str, Any]) -> bool:
    """Refuse what cannot work before anything is read; return whether answers have noise."""
    choices_of(options)
    epsilon, trust = options["epsilon"], options.pop("trust_server")
    if (epsilon is None) == (not trust):
        raise HopfedError(
            "say how you take part, in one of two ways: --epsilon E, where the server is not "
            f"trusted and every sum has noise, or --trust-server: {TRUST}"
        )
    require(epsilon is None or epsilon > 0, "--epsilon", "a number above 0", epsilon)
    rules = {
        "weights": "left out with --epsilon, which bounds answers about rows that count once",
        "outcome": "left out with --epsilon: classes are related by exact sums (--trust-server)",
    }
    for name, rule in rules.items():
        require(options[name] is None or epsilon is None, f"--{name}", rule, options[name])
    require(options["patience"] > 0, "--patience", "a number above 0", options["patience"])
    require(0 < options["delta"] < 1, "--delta", "a number in (0, 1)", options["delta"])
    return epsilon is not None


def _join(owner: Any, filed: np.ndarray, coding: Any, options: dict[str, Any]) -> None:
    """Take part until the federation is over, and keep what it found as columns are `filed`."""
    from hopfed.federation.machines.client import ClientProcess, Node, Sparing
    from hopfed.federation.machines.keys import client_key, read
    from hopfed.hopfield.owner import laid_out

    address(options["server"], "--server")
    own = client_key(options["key"])
    if owner.epsilon is None:
        say(TRUST)
    else:
        owner.ledger.check(owner.rows)  # before the server is asked anything
    node, ca = Node(owner.asked, Sparing(say)), read(options["ca"], "--ca")
    process = ClientProcess(options["server"], ca, own, node, options["patience"], say)
    down, rows = node.through(process.run).down, laid_out(owner.rows, filed)
    names = tuple(owner.names[j] for j in filed) if owner.names else None
    _finish(down, len(filed), options["out_file"], filed, names, coding, rows)


def _finish(
    down: dict[str, np.ndarray],
    N: int,
    out_file: Path | None,
    order: np.ndarray | slice = slice(None),
    names: tuple[str, ...] | None = None,
    coding: Any = None,
    rows: Any = None,
) -> None:
    """Keep what the federation found, with its N columns in this order, and as they are called."""
    from hopfed.archetypes.weights import counted
    from hopfed.hopfield.announcement import STATUS
    from hopfed.hopfield.announcement import read as read_last
    from hopfed.hopfield.verdict import own_verdict
    from hopfed.tables.table import made_up

    found = read_last(down, N)
    K, kept = len(found.patterns), ""
    own = coding if coding is not None and coding.columns == (names or made_up(N)) else None
    if out_file is not None:
        found.archetypes(order, names, own).save(out_file)
        kept = f"; wrote {out_file}"
    say(f"the federation is over: {K} archetype{'s' * (K != 1)}{kept}")
    if rows is not None and found.means is not None and found.verdict[0] == STATUS:
        first = f"; {out_file} is kept, whatever happens now" if kept else ""
        say(f"looking how these classes fit your rows; nothing of it leaves{first}")
        groups = () if coding is None else coding.groups
        own_rows: Any = counted([rows])[0]
        found = replace(found, own=own_verdict(own_rows, found.means[:, order], groups, names))
        if out_file is not None:
            found.archetypes(order, names, own).save(out_file)
    say(": ".join(found.verdict))


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
