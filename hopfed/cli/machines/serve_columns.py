"""Names of columns for `hopfed serve`: which there are, and how those of clients match."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hopfed.errors import ArgumentError, DataError, HopfedError

if TYPE_CHECKING:
    from hopfed.federation.messages import Message

MOST_BYTES = 1 << 26  # of a file of names
SEPARATORS = {".csv": ",;|\t", ".tsv": "\t"}
PAUSE = 0.2  # seconds before it is looked again who is there
NAMED = 10  # clients that a line names


def given(text: str) -> tuple[int, tuple[str, ...]]:
    """Number of columns, and their names where a file with them is given."""
    if re.fullmatch("[+-]?[0-9]{1,9}", text):
        return int(text), ()
    from hopfed.tables.source import named

    names, notes = named(_read(Path(text)), text)
    rows = _row_names(Path(text))
    names = tuple(name for name in names if name not in rows)
    if len(names) < 2 or notes:
        rule = "a file of two names or more that differ, of 200 characters at most"
        raise ArgumentError("--columns", rule, notes[0] if notes else f"{len(names)} in {text}")
    return len(names), names


def _row_names(path: Path) -> tuple[str, ...]:
    """Column that names the rows of a table, where the file is one and not just a header."""
    from hopfed.cli.printing import err, shown
    from hopfed.tables.reading import read_table

    if path.suffix.lower() not in SEPARATORS:
        return ()
    ids: tuple[str, ...] = ()
    for cut in (None, "median"):  # which decides nothing here: clients say how columns are read
        with suppress(HopfedError):  # only a header, or columns that cannot be read like this
            coding = read_table(path, binarize=cut).coding
            ids = () if coding is None else coding.ids
            break
    for name in ids:
        err.print(f"column '{shown(name)}' names the rows, and is none of the federation's")
    return ids


def _read(path: Path) -> list[str]:
    """Names in a file; blank ones are those of no column."""
    from hopfed.tables.files import opened, reading

    with reading(path, "cannot be read as names of columns"), opened(path) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise DataError(f"{path}: more than {MOST_BYTES / 1e6:.0f} MB of names")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{path}: names of columns that are no UTF-8 text") from None
    separators = SEPARATORS.get(path.suffix.lower())
    cells = text.split("\n") if separators is None else _first_row(text, separators)
    return [name for cell in cells if (name := cell.strip())]


def _first_row(text: str, separators: str) -> list[str]:
    def parsed(separator: str) -> list[str]:
        try:
            return next(csv.reader(io.StringIO(text), delimiter=separator), [])
        except csv.Error:
            return []

    return max(map(parsed, separators), key=len)


def said_of(config: Any) -> Message:
    """What a server with these settings says of its columns."""
    from hopfed.hopfield.columns import told_names

    if config.names:
        return told_names(config.names)
    digest = config.order.removeprefix("sorted ")
    return {"sorted": np.frombuffer(bytes.fromhex(digest), np.uint8)} if digest else {}


def settle(server: Any, engine: Any, config: Any, wait: float, say: Callable[[str], None]) -> str:
    """Ask the clients that are there how their columns are called: `Config.order`."""
    from hopfed.federation.machines.server import GRACE
    from hopfed.hopfield.columns import settled
    from hopfed.hopfield.guard import suspects

    clients = config.clients
    fewest, liars = min(config.least, clients // 2 + 1), suspects(config.liars, clients)
    heard: dict[int, bytes] = {}
    asked: set[int] = set()
    began = time.monotonic()
    while True:
        new = [c for c in server.online() if c not in asked]
        answers, late = _introduced(engine, new) if new else ({}, set())
        asked |= set(new) - late  # those are asked again
        heard |= answers
        waited = time.monotonic() - began
        named, all_asked = any(heard.values()), len(asked) == clients
        if all_asked or waited >= GRACE or not named:  # else for the others, as in an exchange
            last = all_asked or waited > wait
            found = settled(heard, fewest, liars, last)
            if found is not None or last:
                break
        time.sleep(PAUSE)
    if found is None and heard:
        raise HopfedError(
            f"{len(heard)} of {clients} clients are there, and fewer than {fewest} name the same "
            "columns: tell them which, with --columns FILE"
        )
    if found is None or not found.digest:
        return ""
    for line in _lines(found.kept, heard):
        say(line)
    return f"sorted {found.digest.hex()}"


def _introduced(engine: Any, clients: Sequence[int]) -> tuple[dict[int, bytes], set[int]]:
    """Answers of clients about their names, and who did not answer in time.

    Those that do not know the question have no names.
    """
    from hopfed.federation.contract import Context
    from hopfed.federation.engines import Call
    from hopfed.federation.faults import Fault
    from hopfed.hopfield.columns import Headers, heard_of

    calls = [Call({}, {}, Context(0, 0, 0, c)) for c in clients]
    found: dict[int, bytes] = {}
    late: set[int] = set()
    for c, outcome in zip(clients, engine.step(Headers(), calls), strict=True):
        if outcome.fault == Fault.TIMED_OUT:
            late.add(c)
        elif outcome.fault == Fault.RAISED:
            found[c] = b""
        elif not outcome.fault and (digest := heard_of(outcome.message)) is not None:
            found[c] = digest
    return found, late


def matched(
    calls: Sequence[Any],
    outcomes: Sequence[Any],
    told: Message,
    by_place: set[int],
    say: Callable[[str], None],
) -> list[Any]:
    """Refuse answers of clients that go by place where columns are in the order of their names.

    Where names are told the place may be right, and it is said once for each such client.
    """
    from hopfed.federation.engines import Outcome
    from hopfed.federation.faults import Fault
    from hopfed.hopfield.columns import BY_NAME, kind_of

    kind, found = kind_of(told), []
    for call, outcome in zip(calls, outcomes, strict=True):
        c, placed = call.context.client, not outcome.fault and BY_NAME not in outcome.metrics
        if placed and kind == "sorted":
            reason = "it goes by place, and the federation by names of columns"
            found.append(Outcome(fault=Fault.MALFORMED, reason=reason))
            continue
        if placed and kind == "names" and c not in by_place:
            by_place.add(c)
            say(f"client {c} goes by place: its table has no names, or its hopfed knows of none")
        found.append(outcome)
    return found


def _lines(kept: Sequence[int], heard: dict[int, bytes]) -> list[str]:
    """What was found, in words."""
    others = [c for c in heard if c not in kept]
    unnamed = [c for c, digest in heard.items() if not digest]
    lines = [f"columns are those of {len(kept)} clients, in the order of their names"]
    if others:
        lines.append(f"refused: {_listed(others)}, whose names of columns are others, or none")
    if unnamed:
        lines.append(f"serve --columns FILE takes those without names: {_listed(unnamed)}")
    return lines


def _listed(clients: Sequence[int]) -> str:
    more = f" and {len(clients) - NAMED} more" if len(clients) > NAMED else ""
    return f"client {', '.join(map(str, clients[:NAMED]))}{more}"
