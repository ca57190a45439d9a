"""`hopfed join`: the owner of a file as a client of a federation across machines."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import click
import numpy as np

from hopfed._lib.outputs import RUN
from hopfed._lib.settings import require
from hopfed.cli.machines.dry_run import TRUST, show
from hopfed.cli.machines.join_checks import check_fit
from hopfed.cli.machines.join_columns import OUT, TRAVELS, Joined, write_found
from hopfed.cli.machines.serve import address, say
from hopfed.cli.numbers import COUNT, FINITE, NUMBER
from hopfed.cli.printing import err, out
from hopfed.cli.tables.reading import NAMES, choices_of, read, table_options
from hopfed.errors import ArgumentError


@click.command("join")
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Your examples.")
@table_options
@click.option("--server", help="HOST:PORT of `hopfed serve`.")
@click.option("--ca", type=click.Path(path_type=Path), help="ca.pem of `hopfed certs`.")
@click.option("--key", type=click.Path(path_type=Path), help="Your key, client-*.key.")
@click.option("--epsilon", type=FINITE, help="Release nothing without noise of this epsilon.")
@click.option("--delta", type=FINITE, default=1e-5, show_default=True, help="Its delta.")
@click.option(
    "--rounds",
    type=COUNT,
    help="Rounds to deal the rows over. [default: as the server asks, see --smallest-batch]",
)
@click.option(
    "--smallest-batch",
    type=COUNT,
    metavar="ROWS",
    help="Compute nothing from fewer rows. [default: twice as many as columns, 400 at least]",
)
@click.option(
    "--smallest-vote",
    type=COUNT,
    metavar="ROWS",
    help="Send no sum of fewer rows that are nearest to a pattern. [default: 10]",
)
@click.option(
    "--smallest-set",
    type=COUNT,
    metavar="ROWS",
    help="Send no operator in which one column or two set fewer rows apart, or rare values give "
    "rows away; 1 does not look. [default: 3]",
)
@click.option(
    "--questions",
    type=COUNT,
    metavar="SETS",
    help="Also answer about directions and patterns that the server names: so many sets of each, "
    "for each row, in all; needs --trust-server. [default: 0, only operators leave]",
)
@click.option(
    "--classes",
    type=COUNT,
    metavar="EXCHANGES",
    help="Also answer about classes of rows that the server names, in so many exchanges a batch; "
    "rows may have gaps. With --epsilon the answers have noise; without it needs --trust-server. "
    "[default: 0]",
)
@click.option(
    "--trust-server",
    is_flag=True,
    help="Whoever runs the server may learn single rows, as --questions lets them, and --classes "
    "without --epsilon.",
)
@click.option(
    "--most-numbers",
    type=COUNT,
    help="Numbers that may leave about a row, over all federations. [default: 4 operators']",
)
@click.option(
    "--other-people",
    is_flag=True,
    help="With --epsilon: rows that equal ones of a file released before are of other people, as "
    "happens where columns are few, and have a budget of their own.",
)
@click.option("--allow-weight", is_flag=True, help="Let the server set the weight of the rows.")
@click.option(
    "--patience", type=NUMBER, default=600.0, show_default=True, help="Seconds without a server."
)
@click.option(
    "--out",
    "out_file",
    type=click.Path(path_type=Path),
    help="Archetypes: a new .h5, which `hopfed assign`, `complete` and `export` read; .npy; or "
    ".csv, .json, .parquet with names of columns, as your file has them.",
)
@click.option("--dry-run", is_flag=True, help="Send nothing; print what a server may ask.")
@click.option("--set", "settings", multiple=True, help="KEY=VALUE of the server, for --dry-run.")
def join_command(data: Path, dry_run: bool, settings: tuple[str, ...], **options: Any) -> None:
    """Take part in a federation; your file stays on this machine.

    A table of examples, as for `hopfed recover`. Columns are matched by name, in whatever order
    they are, and names do not leave: a server that tells no names of its own gets digests of yours.
    Tables without names go by place. If it is killed and started again, it goes on where it was.

    The server is not trusted, unless you say so: whatever it asks, the limits given here hold. What
    was answered about a file is recorded in the folder `released` of HOPFED_HOME, and counts in
    every later federation with the same rows. A row, once dealt to a round, stays in it.

    Only operators leave: tables of how often columns agree. With --questions 1 the server finds
    more archetypes where these are many or faint. It then learns, of each batch, how random groups
    of rows spread along directions of its choice, and the sums of the rows nearest to patterns of
    its choice: what a small part of the batch has in common, and not only all of it.

    With --questions, and with --classes without --epsilon, whoever runs the server can learn single
    rows: it names directions or classes such that answers, or differences of two, hold a row. No
    limit here prevents that, so both need --trust-server, for servers of people to whom you would
    show the rows. With --epsilon answers about classes have noise: all of them together tell of a
    row what epsilon and delta say, whatever is asked. Questions are not answered then.

    Owners do not see each other's rows, so all of them say alike what words stand for, and at which
    number numbers are cut: --dry-run names what is lacking. Categories, medians, means and
    quantiles are refused, as the rows of each owner would decide what they are.

    Example: hopfed join --data museum.npy --server 127.0.0.1:9443 --ca ca.pem --key client-0.key
    """
    from hopfed._lib.outputs import check_outputs
    from hopfed.tables.examples import as_examples
    from hopfed.tables.table import is_made_up
    from hopfed.tables.writers import check_ending

    named = [path for path in (data, options["ca"], options["key"]) if path is not None]
    kinds = check_ending("--out", options["out_file"], OUT)
    check_outputs(("--out", options["out_file"], kinds), inputs=named)
    limits = _limits(options, dry_run)
    _check_options(options)
    if limits.classes and options["epsilon"] is not None:  # else one "+" makes it a -1 in all rows
        options["words"] = ("-=missing", *options["words"])
    [table] = read([data], options, by_rows=False)
    with err.status("looking whether the table gives single rows away"):
        check_fit(table, limits, choices_of(options), options["epsilon"])
    for name in NAMES:
        del options[name]
    rows = as_examples(table.rows, name=str(data), gaps=limits.classes > 0)
    names = () if is_made_up(table.columns) else table.columns
    lying, noisy = rows, options["epsilon"] is not None
    others = options.pop("other_people")
    rows, filed = _as_recorded(rows, table.columns, noisy)  # made-up names have an order, too
    if dry_run:
        show(table, rows, lying, limits, options["epsilon"], options["delta"], settings, others)
        if names:
            out.print(f"\n{TRAVELS.rstrip()}")
        return
    for name in ("server", "ca", "key"):
        if options[name] is None:
            raise ArgumentError(f"--{name}", "given, unless with --dry-run", "none")
    if settings:
        raise ArgumentError("--set", "left out unless with --dry-run: the server decides", settings)
    for line in table.notes:
        say(line)
    for name in TRUST if limits.trust_server else ():
        if getattr(limits, name):
            say(TRUST[name])
    _join(rows, names, filed, limits, coding=table.coding, others=others, **options)


def _as_recorded(rows: Any, names: tuple[str, ...], noisy: bool) -> Any:
    """Put columns in the order in which the records of this home know them."""
    from hopfed._lib.home_folder import home
    from hopfed.hopfield.site.budget import Ledger
    from hopfed.hopfield.site.named_owner import as_recorded

    return as_recorded(rows, names, Ledger(home() / "privacy"), home() / "released", noisy)


def _limits(options: dict[str, Any], dry_run: bool) -> Any:
    """Take the options that are limits; a dry run, and answers with noise, need no trust."""
    from hopfed.hopfield.site.limits import Limits

    fewest = {
        "rounds": 1,
        "smallest_batch": 2,
        "smallest_vote": 2,
        "smallest_set": 1,
        "questions": 0,
        "classes": 0,
        "most_numbers": 1,
    }
    given = {name: number for name in fewest if (number := options.pop(name)) is not None}
    for name, number in given.items():
        option = f"--{name.replace('_', '-')}"
        require(number >= fewest[name], option, f"at least {fewest[name]}", number)
    trust, noise = options.pop("trust_server"), options["epsilon"] is not None
    asking = [name for name in TRUST if given.get(name) and not noise]
    if asking and not (trust or dry_run):
        noisy = "with --epsilon, or " if asking[0] == "classes" else ""
        rule = f"given {noisy}with --trust-server: {TRUST[asking[0]]}"
        raise ArgumentError(f"--{asking[0]}", rule, given[asking[0]])
    trust = bool(asking)  # it opens nothing else
    return Limits(**given, weight=options.pop("allow_weight"), trust_server=trust)


def _check_options(options: dict[str, Any]) -> None:
    """Refuse what cannot work before anything is read."""
    choices_of(options)
    epsilon = options["epsilon"]
    require(epsilon is None or epsilon > 0, "--epsilon", "a number above 0", epsilon)
    require(options["patience"] > 0, "--patience", "a number above 0", options["patience"])
    require(0 < options["delta"] < 1, "--delta", "a number in (0, 1)", options["delta"])


def _join(
    rows: Any,
    names: tuple[str, ...],
    filed: np.ndarray | None,
    limits: Any,
    *,
    server: str,
    ca: Path,
    key: Path,
    epsilon: float | None,
    delta: float,
    patience: float,
    out_file: Path | None,
    coding: Any,
    others: bool = False,
) -> None:
    from hopfed._lib.home_folder import home
    from hopfed.cli.machines.watching import Watching
    from hopfed.federation.engines.flower.client import ClientProcess, client_folder
    from hopfed.federation.engines.flower.kept_states import KeptStates
    from hopfed.federation.engines.flower.keys import private_key, read
    from hopfed.federation.engines.flower.limited_log import Sparing
    from hopfed.federation.engines.flower.node import Node
    from hopfed.hopfield.allowed import ALLOWED
    from hopfed.hopfield.site.budget import Ledger
    from hopfed.hopfield.site.consent import Owner
    from hopfed.hopfield.site.named_owner import NamedOwner, laid_out
    from hopfed.hopfield.site.released import Released

    address(server, "--server")
    keys = private_key(key)
    folder = client_folder(home(), keys[1])
    ledger = Ledger(home() / "privacy", others=others)
    if epsilon is not None:
        ledger.check(rows)  # before the server is asked anything
    records = home() / "released"
    released = Released.of(records, rows)
    owner = Owner(rows, _secret(folder), epsilon, delta, ledger, limits, released)
    joined = Joined(NamedOwner(owner, names, filed), say)
    node = Node(KeptStates(folder / "states"), joined.adapt, trusted=ALLOWED, private=True)
    process = ClientProcess(server, read(ca, "--ca"), keys, node, folder, patience, say)
    # Not in which file: by its name, a digest, who reads this could confirm a guess of the rows.
    say(f"what leaves is recorded in the folder {records}")

    node.say = Sparing(say)
    node.watch = watching = Watching(joined, process.finished, node.say)
    last = watching.through(process.run)
    order, called = joined.order(last)
    own = rows if filed is None else laid_out(rows, filed)
    _finish(last.down, len(order), out_file, order, called, coding, own)


def _finish(
    down: dict[str, np.ndarray],
    N: int,
    out_file: Path | None,
    order: np.ndarray | slice = slice(None),
    names: tuple[str, ...] | None = None,
    coding: Any = None,
    rows: Any = None,
) -> None:
    """Keep what the federation found, with its N columns in this order, and as they are called.

    It is on the disk before it is judged, which may take long, and be stopped. A run file is then
    written again, as a whole, with the verdict.

    rows : of the owner, as its file has their columns; classes are judged by them.
    """
    from hopfed.hopfield.told import read as read_told

    told = read_told(down, N)
    K, kept = len(told.patterns), ""
    if out_file is not None:
        write_found(out_file, told, order, names, coding)
        kept = f"; wrote {out_file}"
    say(f"the federation is over: {K} archetype{'s' * (K != 1)}{kept}")
    if rows is not None and told.means is not None:
        first = f"; {out_file} is kept, whatever happens now" if kept else ""
        say(f"looking how these classes fit your rows; nothing of it leaves{first}")
        told = _judged(told, order, rows, names, coding)
        if out_file is not None and out_file.suffix.lower() in RUN:
            write_found(out_file, told, order, names, coding)
    if told.fits is not None or told.own is not None:
        say(": ".join(told.verdict))


def _judged(told: Any, order: Any, rows: Any, names: Any, coding: Any) -> Any:
    """Told classes, with what the rows of this owner say of them."""
    from dataclasses import replace

    from hopfed.hopfield.site.own_verdict import own_verdict

    n = rows.shape[1]  # of the federation's columns an owner may lack the last
    groups = () if coding is None else coding.groups
    own = own_verdict(rows, told.means[:, order][:, :n], groups, names and names[:n])
    return replace(told, own=own)


def _secret(folder: Path) -> int:
    """Secret of this client, made once."""
    from hopfed.federation.engines.flower.private import replacing_private

    path = folder / "secret"
    try:
        held = int(path.read_bytes()[:100])
    except (OSError, ValueError):  # not there, or a file that was never finished
        held = 0
    if held <= 0:
        held = 1 + secrets.randbits(127)
        with replacing_private(path) as temporary:
            temporary.write_text(str(held))
    return held
