"""`hopfed join`: the owner of a file as a client of a federation across machines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from hopfed._lib.outputs import RUN
from hopfed._lib.settings import require
from hopfed.cli.machines.join_checks import TRUST, check_fit, show
from hopfed.cli.machines.lines import address, say
from hopfed.cli.numbers import FINITE, NUMBER
from hopfed.cli.outputs import check_outputs, overwrite_option
from hopfed.cli.tables.reading import NAMES, choices_of, outcome_in, read, table_options, weights_in
from hopfed.errors import ArgumentError, HopfedError


@click.command("join")
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Your examples.")
@table_options
@click.option(
    "--weights",
    metavar="COLUMN",
    help="Numbers that are no feature: how often a row counts, or of a survey; with "
    "--trust-server.",
)
@click.option(
    "--outcome",
    metavar="COLUMN",
    help="No feature, but what serve --relate asks for; with --trust-server.",
)
@click.option("--server", help="HOST:PORT of `hopfed serve`.")
@click.option("--ca", type=click.Path(path_type=Path), help="ca.pem of `hopfed certs`.")
@click.option("--key", type=click.Path(path_type=Path), help="Your key, client-*.key.")
@click.option("--epsilon", type=FINITE, help="Send nothing without noise of this epsilon.")
@click.option("--delta", type=FINITE, default=1e-5, show_default=True, help="Its delta.")
@click.option(
    "--trust-server",
    is_flag=True,
    help="Send exact sums: whoever runs the server may learn single rows.",
)
@click.option(
    "--patience", type=NUMBER, default=600.0, show_default=True, help="Seconds without a server."
)
@click.option(
    "--out",
    "out_file",
    type=click.Path(path_type=Path),
    help="Archetypes: a .h5, which `hopfed assign`, `complete` and `export` read.",
)
@overwrite_option
@click.option("--dry-run", is_flag=True, help="Send nothing; print what a server may ask.")
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
    from hopfed.federation.machines.client import ClientProcess
    from hopfed.federation.machines.keys import client_key, read
    from hopfed.federation.machines.node import Node, Sparing
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
