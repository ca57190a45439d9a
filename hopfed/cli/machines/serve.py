"""`hopfed serve`: the server of a Hopfield federation across machines; `hopfed certs`: its keys."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click

from hopfed._lib.settings import require
from hopfed.cli import options as kinds
from hopfed.cli.machines import LONGEST, check_address, log_line
from hopfed.cli.options import COUNT, NUMBER, PATH, RUN, command, flag, option, out_option
from hopfed.cli.printing import out
from hopfed.errors import ArgumentError, HopfedError, safe_line

MOST_BYTES = 1 << 26  # largest file of names
LATE = 30.0  # seconds to wait for clients of a run that is complete: they may have to start


@click.command("certs")
@click.argument("folder", type=PATH)
@option("--clients", "Number of clients.", COUNT, required=True)
@option(
    "--host hosts",
    "Name or address of the server, as clients call it; may be given several times.",
    default=("127.0.0.1", "localhost"),
    multiple=True,
)
@option("--days", "Days of validity.", COUNT, 365)
@kinds.overwrite_option
def certs_command(folder: Path, clients: int, hosts: tuple[str, ...], days: int) -> None:
    """Make the certificates and keys of a federation in FOLDER.

    The server keeps server.key; client 0 gets ca.pem, the certificate of their authority, and
    client-0.key, over a channel that you trust, and so on.

    Example: hopfed certs keys --clients 3 --host federation.example.org
    """
    from hopfed.federation.machines.keys import make_keys

    patterns = ("ca.pem", "server.key", "client-*.key")
    with kinds.set_files_aside(*(path for pattern in patterns for path in folder.glob(pattern))):
        files = make_keys(folder, clients, hosts, days)
    ways = f"give client N {folder}/ca.pem and {folder}/client-N.key; keep the rest here"
    out.print(f"wrote {len(files)} files to {folder}: good for {days} days\n{ways}")


@command("serve")
@option(
    "--columns",
    "Number of columns of every client; or a file of their names, one a line, sent to clients.",
    metavar="NUMBER|FILE",
)
@option("--clients", "Number of clients. [default: 3]", COUNT)
@option("--rounds", "Rounds, over which clients divide their rows. [default: 1]", COUNT)
@option("--minimum", "Smallest number of clients of a round. [default: more than half]", COUNT)
@option(
    "--epsilon",
    "Ask for sums with noise of this epsilon; without it, clients join with --trust-server.",
    NUMBER,
)
@option("--delta", "Delta of the noise. [default: 1e-05]", NUMBER)
@flag("--graded", "Ask for sums over classes: rows may have gaps, and columns rates of their own.")
@option("--archetypes", "With --graded: number of archetypes. [default: estimated]", COUNT)
@option(
    "--relate",
    "With --graded: relate archetypes to an outcome of the clients (join --outcome): its means, or "
    "rates of these words.",
    metavar="COLUMN[=WORD,...]",
)
@option("--byzantine", "Share of clients that may lie. [default: 0.1; with --graded 0]", NUMBER)
@option("--support", "Smallest number of examples behind an archetype. [default: 50]", NUMBER)
@option(
    "--set settings",
    "Change a setting, such as claim=5, check=no or quorum=0.5.",
    multiple=True,
    metavar="KEY=VALUE",
)
@option("--keys", "Folder of `hopfed certs`.", PATH, required=True)
@option("--listen", "HOST:PORT.", default="127.0.0.1:9443")
@option("--timeout", "Seconds to wait for an answer.", NUMBER, 60.0)
@option("--wait", "Seconds to wait for clients.", NUMBER, 600.0)
@option("--limit", "Largest answer in MB.", NUMBER, 256.0)
@out_option("Run file.", RUN, required=True)
@flag("--resume", "Continue the run in --out, if it exists.")
def serve_command(out_file: Path, resume: bool, **options: Any) -> None:
    """Serve a federation to clients that run `hopfed join`, over TLS.

    Only clients with a certificate of `hopfed certs` come in. A client that does not answer in time
    is left out of that round, as long as --minimum clients answer. The run file is written after
    every round; `hopfed export`, `assign` and `complete` read it.

    With --epsilon clients are asked for sums with noise, with --graded for sums over classes of
    rows. With both a round finds four classes at most, or eight, each less exactly, with
    --set looks=3.

    With --columns FILE columns are matched by name, in any order, and a client with other columns
    is refused. With --columns NUMBER they are matched by place.

    Clients may lie. The server broadcasts an archetype only if clients show it besides its
    strongest supporters, a share --byzantine of all, rounded up, and if --support examples stand
    behind it. A claim of more examples than three medians counts as three, unless --byzantine is 0.
    With --graded and --byzantine extremes of every entry are left out, which biases classes of
    owners that differ.

    Example: hopfed serve --keys keys --columns 784 --clients 3 --rounds 2 --out run.h5
    """
    import numpy as np

    from hopfed.archetypes.run_file import put_into_run
    from hopfed.cli.answers import print_relation
    from hopfed.cli.runs import print_summary
    from hopfed.experiments import find_experiment
    from hopfed.experiments.machinery.runner import execute
    from hopfed.federation.contract import TooFewClientsError
    from hopfed.federation.machines.server import Server
    from hopfed.federation.machines.wire import STOPPED
    from hopfed.hopfield.announcement import read
    from hopfed.runs import Run, blame_file

    experiment = find_experiment("serve")
    for name, most in (("timeout", 1e9), ("wait", 1e9), ("limit", 2_000)):
        fits = 0 < options[name] <= most
        require(fits, f"--{name}", f"a number above 0, at most {most:g}", options[name])
    config = _config(experiment, out_file, resume, options)
    where, limit = options["listen"], int(options["limit"] * 1e6)
    check_address(where, "--listen")
    about = config.clients, log_line, options["timeout"], config.names, limit
    with Server(where, options["keys"], *about) as server:
        host = where.rpartition(":")[0]
        log_line(f"listening on {host}:{server.port} for {config.clients} clients")
        if resume and out_file.exists() and Run.load(out_file).complete:
            # A client that lacks the last message asks for it every few seconds.
            with suppress(HopfedError):
                server.wait(config.clients, min(options["wait"], LATE))
        else:
            server.wait(config.least, options["wait"])
        try:
            with kinds.set_files_aside(out_file):
                run = execute(
                    experiment, config, out=out_file, resume=resume, engine=server, at_once=True
                )
        except HopfedError as error:
            advice = "continue with --resume"
            if isinstance(error, TooFewClientsError) and error.refused:
                server.announce(config.make().client, {STOPPED: np.ones(())})
                advice = "serve anew with settings that clients allow (--columns FILE for names)"
            raise HopfedError(f"{error}; {advice}") from None
        with blame_file(out_file, run.kind):  # rows that no client would take are not sent
            last = read(experiment.announcement(config, run.arrays).message(), config.columns)
        put_into_run(run, last.archetypes(columns=config.names or None)).save(out_file)
        server.announce(config.make().client, last.message())
    print_summary(run)
    status, advice = last.verdict
    out.print(f"\n{safe_line(f'{status}: {advice}', LONGEST)}")
    if config.relate:
        print_relation(experiment.relation_of_run(config, run.arrays))
    out.print(f"\nwrote {safe_line(out_file)}")


def _columns(text: str) -> tuple[int, tuple[str, ...]]:
    """Parse --columns: the number of columns, and their names if a file gives them."""
    if re.fullmatch("[+-]?[0-9]{1,9}", text):
        return int(text), ()
    from hopfed._lib.guarded_reading import guard_reading, open_file
    from hopfed.hopfield.announcement import column_order
    from hopfed.tables.table import name_columns

    fault = "cannot be read as names of columns"
    with guard_reading(text, fault), open_file(text) as file:
        lines = file.read(MOST_BYTES).decode("utf-8-sig").split("\n")
    names, notes = name_columns([name for line in lines if (name := line.strip())], text)
    rule, got = "a file of two names or more that differ, of 200 characters at most", len(names)
    require(got > 1 and not notes, "--columns", rule, notes[0] if notes else f"{got} in {text}")
    return len(names), tuple(names[j] for j in column_order(names))


def _config(experiment: Any, out_file: Path, resume: bool, options: dict[str, Any]) -> Any:
    """Settings of the resumed run, or else the defaults, changed by the given options."""
    from hopfed._lib.settings import describe, to_plain, with_settings
    from hopfed.cli.runs import continued_run, held_settings
    from hopfed.experiments.machinery.checkpoint import require_settings
    from hopfed.runs import Run

    held, columns = continued_run({"out_file": out_file, "resume": resume}), options.pop("columns")
    if held is None and columns is None:
        raise ArgumentError("--columns", "given: the columns of the clients' files", "none")
    config = experiment.Config() if held is None else held_settings(experiment, held)[0]
    if columns is not None:
        number, names = _columns(columns)
        kept = config.names if number == config.columns else ()  # names of the resumed run
        config = replace(config, columns=number, names=names or kept)
    given = {part.name: options.get(part.name) for part in fields(config)}
    said = [f"{n}={describe(v)}" for n, v in given.items() if v is not None and v is not False]
    config = with_settings(config, [*said, *options["settings"]])
    if held is not None:
        require_settings(Run.load(held), to_plain(config), out_file)
    return config
