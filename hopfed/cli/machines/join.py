"""`hopfed join`: the owner of a file as a client of a federation across machines.

Before a server is asked, a table is looked at: whether it is fit, and what would leave.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.outputs import RUN
from hopfed._lib.settings import require
from hopfed.cli.machines import address, say
from hopfed.cli.options import FINITE, NUMBER, PATH, command, flag, option, out_option
from hopfed.cli.printing import human_bytes, out
from hopfed.cli.reading import (
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
CUT = "--binarize COLUMN=NUMBER"

KNOWN_SIGNS = {
    word: sign for low, high in FAMILIES for side, sign in ((low, -1), (high, 1)) for word in side
} | {"-1": -1, "0": -1, "1": 1}


@command("join")
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
    from hopfed.hopfield.announcement import in_order
    from hopfed.hopfield.ledger import Ledger
    from hopfed.hopfield.owner import Owner, as_recorded
    from hopfed.tables.examples import as_examples
    from hopfed.tables.table import is_made_up

    noisy = _check_options(options)
    if noisy:  # else one "+" makes it a -1 in all rows
        options["words"] = ("-=missing", *options["words"])
    weights = None if options["weights"] is None else weights_in([data], options)[0]
    outcome = None if options["outcome"] is None else outcome_in(data, options)
    [table] = read([data], options, by_rows=False)
    check_fit(table, choices_of(options), noisy)
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
    for name in ("weights", "outcome"):
        rule = "left out with --epsilon: it takes exact sums (--trust-server)"
        require(options[name] is None or epsilon is None, f"--{name}", rule, options[name])
    require(options["patience"] > 0, "--patience", "a number above 0", options["patience"])
    require(0 < options["delta"] < 1, "--delta", "a number in (0, 1)", options["delta"])
    return epsilon is not None


def _join(owner: Any, filed: np.ndarray, coding: Any, options: dict[str, Any]) -> None:
    """Take part until the federation is over, and keep what it found as columns are `filed`."""
    from hopfed.federation.machines.client import ClientProcess, Node
    from hopfed.federation.machines.keys import authority, client_key
    from hopfed.hopfield.owner import laid_out

    address(options["server"], "--server")
    own, ca = client_key(options["key"]), authority(options["ca"], "--ca")
    if owner.epsilon is None:
        say(TRUST)
    else:
        owner.ledger.check(owner.rows)  # before the server is asked anything
    node = Node(owner.asked, say)
    process = ClientProcess(options["server"], ca, own, node, options["patience"])
    down, rows = node.through(process.run), laid_out(owner.rows, filed)
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
    own = coding if coding is not None and coding.columns == (names or made_up(N)) else None

    def keep() -> str:
        if out_file is None:
            return ""
        found.archetypes(order, names, own).save(out_file)
        return f"; wrote {out_file}"

    K = len(found.patterns)
    say(f"the federation is over: {K} archetype{'s' * (K != 1)}{keep()}")
    if rows is not None and found.means is not None and found.verdict[0] == STATUS:
        say("looking how these classes fit your rows; nothing of it leaves")
        groups = () if coding is None else coding.groups
        verdict = own_verdict(counted([rows])[0], found.means[:, order], groups, names)
        found = replace(found, own=verdict)
        keep()
    say(": ".join(found.verdict))


def check_fit(table: Any, choices: Choices, noisy: bool) -> None:
    """Fail where a column is coded by what the rows hold."""
    coding: Coding = table.coding
    ways: dict[str, list[str]] = {}  # what settles it, for these columns
    for name, code in zip(coding.names, coding.codes, strict=True):
        ways.setdefault(_settled_by(name, code, choices, noisy), []).append(name)
    own = (*coding.ids, *coding.ignored) if noisy and choices.id is None else ()
    for name in own:
        if name not in choices.among(own).ignore and number(str(choices.cut(name))) is not None:
            way = "--id COLUMN, or --id '' where no column names the rows,"
            ways.setdefault(way, []).append(name)
    ways.pop("", None)
    found = [name for names in ways.values() for name in names]
    why = "one row changes others, which the noise of --epsilon does not hide"
    why = why if noisy else "other owners' columns mean something else"
    if found:
        raise DataError(
            f"--data: what the rows hold decides how column {listed(found)} is "
            f"coded, so that {why}; say it yourself, all owners alike, without these rows: "
            + "; ".join(f"{way} for {listed(names)}" for way, names in ways.items())
        )


def _settled_by(name: str, code: Code, choices: Choices, noisy: bool) -> str:
    """What to say so that no row decides how a column is coded; nothing where none does."""
    cut, said = number(str(choices.cut(name))), choices.signs(name)
    signs = {word: sign for word, sign in code.words if sign != GONE}
    word, words = canonical(name), {w for w in signs if number(w) is None}
    if word in said or (word in KNOWN_SIGNS and words and meanings([{word} | words - MISSING])):
        return "another name, as this is a word for an entry," if noisy else ""
    if code.kind == "number":
        return CUT if cut is None else ""
    if code.levels and (len(code.levels) != 2 or choices.of(name)):
        return "--ignore or a column of yes and no for each category,"
    signs = dict(zip(code.levels, (-1, 1), strict=True)) if code.levels else signs
    if code.levels or any({**KNOWN_SIGNS, **said}.get(w) != sign for w, sign in signs.items()):
        spelt = ",".join(f"{shown(word, 40)}={sign:+d}" for word, sign in signs.items())
        return f"--words {shlex.quote(spelt)} (or other signs)"
    if not noisy:
        return ""
    values = {word: number(word) for word in signs}  # with a larger one they would be cut
    if cut is not None and any(
        v is not None and (v > cut) != (signs[w] > 0) for w, v in values.items()
    ):
        return f"{CUT}, not one for all columns,"
    return "--words 0=missing" if dict(code.words).get("0") == GONE and "0" not in said else ""


def show(
    held: Any, rows: Any, epsilon: float | None, delta: float, ledger: Any, outcome: Any
) -> None:
    """Print how a table is read, what would leave, who could learn what, and what left before."""
    M, N = rows.shape
    names, codes = held.coding.names, map(str, held.coding.codes)
    out.print(f"{M:,} rows of {N:,} columns, read so, as all owners must read theirs:")
    for code, columns in by_code(dict(zip(names, codes, strict=True)))[:READ]:
        out.print(f"  {code}: {columns}")
    for line in held.notes:
        out.print(f"  {line}")
    out.print(
        "\nWhat would leave, with the number of rows: in how many rows each pair of columns agrees "
        f"({human_bytes(4 * N * (N - 1) // 2)} in whole numbers), or, where the server asks for "
        "classes (serve --graded), sums over classes of rows that it names. No row, and no name of "
        "a column."
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
            out.print(f"Of {outcome.name}: exact sums over classes that the server names.")
        if ledger.released(rows):
            out.print("These rows have a privacy budget: every question is refused, join --epsilon")
    else:
        ledger.check(rows)
        out.print(
            f"With noise on each sum: all answers of all rounds tell of a row what epsilon "
            f"{epsilon:g} and delta {delta:g} say, whatever is asked and whoever runs the server."
        )
        if terms := ledger.terms(rows):
            out.print(
                f"By the ledger in HOPFED_HOME they are released with {terms}: the same is "
                "answered with the same bits, and other terms are refused."
            )
    out.print("Other clients learn the archetypes that the server tells to all.\nNothing was sent.")
