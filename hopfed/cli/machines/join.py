"""`hopfed join`: the owner of a file as a client of a federation across machines."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.outputs import RUN
from hopfed._lib.settings import require
from hopfed.cli.inputs import by_code, choices_of, outcome_in, read_files, table_options, weights_in
from hopfed.cli.machines import check_address, log_line
from hopfed.cli.options import FINITE, NUMBER, PATH, command, flag, option, out_option
from hopfed.cli.printing import human_bytes, out
from hopfed.errors import DataError, HopfedError, safe_line
from hopfed.tables.choosing import Choices
from hopfed.tables.coding import FAMILIES, GONE, MISSING, Code, Coding, canonical, meanings, number
from hopfed.tables.table import list_names

READ = 10  # largest number of printed codings
ALIKE = {  # help of options that may not let rows decide how a column is coded
    "words": "Meaning of words in all columns; in one, COLUMN=WORD=...; may be repeated.",
    "binarize": "Cut numbers at a number; may be repeated.",
    "ordinal": "Refused, as categories are.",
}
TRUST = "people at the server can learn single rows of yours: they subtract answers"

KNOWN_SIGNS = {
    word: sign for low, high in FAMILIES for side, sign in ((low, -1), (high, 1)) for word in side
} | {"-1": -1, "0": -1, "1": 1}


@command("join")
@option("--data", "Your examples.", PATH, required=True)
@lambda command: table_options(command, **ALIKE)
@option("--weights", "Column of counts or survey weights; needs --trust-server.", metavar="COLUMN")
@option("--outcome", "Column of serve --relate, no feature; with --trust-server.", metavar="COLUMN")
@option("--server", "HOST:PORT of `hopfed serve`.")
@option("--ca", "ca.pem of `hopfed certs`.", PATH)
@option("--key", "Your key, client-*.key.", PATH)
@option("--epsilon", "Send nothing without noise of this epsilon.", FINITE)
@option("--delta", "Delta of the noise.", FINITE, 1e-5)
@flag("--trust-server", "Send exact sums: the people at the server may learn single rows.")
@option("--patience", "Seconds to wait for a server.", NUMBER, 600.0)
@out_option("Archetypes: a .h5, which `hopfed assign`, `complete` and `export` read.", RUN)
@flag("--dry-run", "Send nothing; print the questions that a server may ask.")
def join_command(data: Path, dry_run: bool, **options: Any) -> None:
    """Take part in a federation; your file stays on this machine.

    The table is read as by `hopfed recover`. The server sends names of columns, and yours are
    matched with them without leaving; tables without names are matched by place. A client that was
    killed goes on where it was.

    Say how you take part. With --epsilon the server is not trusted: every sum has noise, and all
    answers together reveal of a row at most what epsilon and delta allow, whatever the server asks.
    Answers are recorded in the folder `privacy` of HOPFED_HOME, and count in every later federation
    with the same rows. With --trust-server sums are exact, and the people at the server may learn
    single rows: choose it if you would show them your rows. Rows never leave.

    All owners must give words the same meaning and cut numbers at the same place: --dry-run names
    missing options. Categories, levels, several answers, medians, means and quantiles are refused.

    Example: hopfed join --data museum.npy --epsilon 4 --server 127.0.0.1:9443 --ca ca.pem --key
    client-0.key
    """
    from hopfed._lib.home_folder import home
    from hopfed.archetypes.row_weights import is_survey, repeat_rows
    from hopfed.hopfield.announcement import column_order
    from hopfed.hopfield.owner import Owner, sort_columns
    from hopfed.hopfield.privacy_ledger import Ledger
    from hopfed.kernels.examples import as_examples
    from hopfed.tables.table import is_made_up

    noisy = _check_options(options)
    if noisy:  # else a single "+" would make each "-" a -1
        options["words"] = ("-=missing", *options["words"])
    weights = None if options["weights"] is None else weights_in([data], options)[0]
    outcome = None if options["outcome"] is None else outcome_in(data, options)
    [table] = read_files([data], options, by_rows=False)
    check_fit(table, choices_of(options), noisy)
    rows = as_examples(table.rows, name=str(data), gaps=True)
    if weights is not None:
        rows = replace(rows, counts=weights)
        if not is_survey(rows):
            rows = repeat_rows([rows])[0][:]
            outcome = outcome and outcome[np.repeat(np.arange(len(weights)), weights.astype(int))]
    ledger, order = Ledger(home() / "privacy", look=dry_run), column_order(table.columns)
    names = () if is_made_up(table.columns) else tuple(table.columns[j] for j in order)
    recorded = sort_columns(rows, table.columns, ledger)
    owner = Owner(recorded, ledger, options["epsilon"], options["delta"], names, outcome)
    if dry_run:
        show_dry_run(table, owner)
        return
    for name in ("server", "ca", "key"):
        require(options[name] is not None, f"--{name}", "given, unless with --dry-run", "none")
    for line in table.notes:
        log_line(line)
    _join(owner, np.argsort(order), table.coding, options)


def _check_options(options: dict[str, Any]) -> bool:
    """Refuse wrong options before any reading; return whether answers have noise."""
    from hopfed.privacy.integer_noise import concentrated_rho

    choices_of(options)
    epsilon, trust = options["epsilon"], options.pop("trust_server")
    if (epsilon is None) == (not trust):
        raise HopfedError(
            "say how you take part, in one of two ways: --epsilon E, where the server is not "
            f"trusted and every sum has noise, or --trust-server: {TRUST}"
        )
    for name in ("weights", "outcome"):
        rule = "left out with --epsilon: it takes exact sums (--trust-server)"
        require(options[name] is None or trust, f"--{name}", rule, options[name])
    if epsilon is not None:
        concentrated_rho(epsilon, options["delta"])  # checks them
    return not trust


def _join(owner: Any, filed: np.ndarray, coding: Any, options: dict[str, Any]) -> None:
    """Take part until the federation is over, and save its result, with columns as `filed`."""
    from hopfed.federation.machines.client import ClientNode, ClientProcess
    from hopfed.federation.machines.keys import own_key, read_authority
    from hopfed.hopfield.owner import reorder_columns

    check_address(options["server"], "--server")
    own, ca = own_key(options["key"], "--key"), read_authority(options["ca"], "--ca")
    if owner.epsilon is None:
        log_line(TRUST)
    else:
        owner.ledger.check(owner.rows)  # before any message to the server
    node = ClientNode(owner.asked, log_line)
    process = ClientProcess(options["server"], ca, own, node, options["patience"])
    down, rows = node.through(process.run), reorder_columns(owner.rows, filed)
    names = tuple(owner.names[j] for j in filed) if owner.names else None
    _finish(down, options["out_file"], filed, names, coding, rows)


def _finish(
    down: Any, out_file: Path | None, order: np.ndarray, names: Any, coding: Any, rows: Any = None
) -> None:
    """Save and print the result of the federation, with columns in this order and their names."""
    from hopfed.archetypes.row_weights import repeat_rows
    from hopfed.hopfield import announcement
    from hopfed.hopfield.class_verdict import own_verdict
    from hopfed.tables.table import made_up_names

    N = len(order)
    found = announcement.read(down, N)
    own = coding if coding is not None and coding.columns == (names or made_up_names(N)) else None

    def keep() -> str:
        if out_file is None:
            return ""
        found.archetypes(order, names, own).save(out_file)
        return f"; wrote {out_file}"

    K = len(found.patterns)
    log_line(f"the federation is over: {K} archetype{'s' * (K != 1)}{keep()}")
    if rows is not None and found.means is not None and found.verdict[0] == announcement.STATUS:
        log_line("checking how these classes fit your rows; the result stays here")
        groups = () if coding is None else coding.groups
        verdict = own_verdict(repeat_rows([rows])[0], found.means[:, order], groups, names)
        found = replace(found, own=verdict)
        keep()
    log_line(": ".join(found.verdict))


def check_fit(table: Any, choices: Choices, noisy: bool) -> None:
    """Fail if the rows, and not the options of `hopfed join`, decide how a column is coded."""
    coding: Coding = table.coding
    codes = dict(zip(coding.names, coding.codes, strict=True))
    found = [n for n, code in codes.items() if not _is_settled(n, code, choices, noisy)]
    words = {w: sign for n in found for w, sign in _signs(codes[n]).items()}
    own = (*coding.ids, *coding.ignored) if noisy and choices.id is None else ()
    ignored = choices.resolve_names(own).ignore
    found += [n for n in own if n not in ignored and number(str(choices.cut(n))) is not None]
    why = "one row changes others, which the noise of --epsilon does not hide"
    why = why if noisy else "other owners' columns may mean something else"
    if found:
        spelt = ",".join(f"{safe_line(word, 40)}={sign:+d}" for word, sign in words.items())
        raise DataError(
            f"--data: the rows decide how column {list_names(found)} is coded, so that "
            f"{why}; set the coding by options, all owners alike, for any rows: --binarize "
            f"COLUMN=NUMBER, --words {shlex.quote(spelt or '0=missing')} (or other signs), --id "
            "COLUMN ('' for none), or --ignore COLUMN"
        )


def _signs(code: Code) -> dict[str, int]:
    """Words of a column that has two of them, and their signs."""
    if code.levels:
        return dict(zip(code.levels, (-1, 1), strict=True)) if len(code.levels) == 2 else {}
    return {word: sign for word, sign in code.words if sign != GONE}


def _is_settled(name: str, code: Code, choices: Choices, noisy: bool) -> bool:
    """Whether all owners code a column alike; with noise, also whatever rows they have."""
    cut, said, signs = number(str(choices.cut(name))), choices.signs(name), _signs(code)
    known = {**KNOWN_SIGNS, **said}
    if code.kind == "number" or code.levels:
        return code.kind == "number" and cut is not None
    if any(known.get(word) != sign for word, sign in signs.items()):
        return False
    word, words = canonical(name), {w for w in signs if number(w) is None}
    as_entry = word in KNOWN_SIGNS and words and meanings([{word} | words - MISSING])
    values = {word: number(word) for word in signs}  # a third number would cut them
    cut_apart = cut is not None and any(
        v is not None and (v > cut) != (signs[w] > 0) for w, v in values.items()
    )
    gone = dict(code.words).get("0") == GONE and "0" not in said
    return not (noisy and (word in said or as_entry or cut_apart or gone))


def show_dry_run(table: Any, owner: Any) -> None:
    """Print for `hopfed join --dry-run` how a table is read, the sums it would send, the risk."""
    rows, ledger, epsilon = owner.rows, owner.ledger, owner.epsilon
    M, N = rows.shape
    lines = [f"{M:,} rows of {N:,} columns, with this coding, which all owners must share:"]
    codes = dict(zip(table.coding.names, map(str, table.coding.codes), strict=True))
    lines += [f"  {code}: {columns}" for code, columns in by_code(codes)[:READ]]
    lines += [f"  {line}" for line in table.notes]
    lines.append(
        "\nThese would leave: the number of rows, in how many of them each pair of columns agrees "
        f"({human_bytes(4 * N * (N - 1) // 2)} in whole numbers), or, where the server asks for "
        "classes (serve --graded), sums over classes of rows that it names. No row, and no name of "
        "a column."
    )
    if rows.gaps:
        lines.append("These rows have gaps: only a server that asks for classes takes them.")
    if epsilon is None:
        lines.append(
            "Without noise: exact sums, also of random groups of rows along directions, and of the "
            f"rows nearest to patterns, that the server names. So {TRUST}."
        )
        if rows.counts is not None or owner.outcome is not None:
            lines.append("Sums of --weights and of --outcome leave, too.")
        if ledger.released(rows):
            lines.append("These rows have a privacy budget: every question is refused.")
    else:
        ledger.check(rows)
        budget = f"at most what epsilon {epsilon:g} and delta {owner.delta:g} allow"
        lines.append(f"With noise on each sum: all answers together reveal of a row {budget}.")
        if terms := ledger.terms(rows):
            less = terms.epsilon > epsilon or terms.delta > owner.delta
            refused = "this join" if less else "a server with other terms"
            lines.append(f"They were released with {terms}: {refused} is refused.")
    lines.append("Other clients learn the archetypes that the server sends to all.")
    out.print("\n".join([*lines, "Nothing was sent."]))
