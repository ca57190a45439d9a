"""What `hopfed bench clients` asks for, and prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hopfed._lib.settings import require, whole
from hopfed.bench.clients import NUMBERS, Setting, measure_clients
from hopfed.cli.printing import Screen, human_bytes, out, table

MOST = 1_000  # clients that one machine is asked for


def numbers(options: dict[str, Any]) -> tuple[int, ...]:
    """Numbers of clients to measure.

    Raises
    ------
    ArgumentError : they are none.
    """
    text = options["clients"]
    if text is None:
        return NUMBERS[options["sizes"]]
    rule = f"numbers from 2 to {MOST:,}, such as 5,10,20"
    found = tuple(whole("--clients", word, rule, most=MOST) for word in text.split(","))
    require(min(found) >= 2, "--clients", rule, repr(text))
    return found


def measured(options: dict[str, Any], tell: Callable[[str], Any]) -> dict[str, Any]:
    """Measure what was asked for."""
    setting = Setting(columns=options["columns"] or Setting.columns)
    return measure_clients(numbers(options), tell, setting)


def print_clients(found: dict[str, Any], console: Screen) -> None:
    """Print the table of all numbers of clients, and the lines through its columns."""
    setting = found["setting"]
    out.print(
        f"{setting['columns']} columns; {setting['rows']} rows of a client in each of "
        f"{setting['rounds']} rounds; a round after the first, median"
    )
    times = ("s a round", "server's own s", "server CPU s", "idle CPU s/s")
    grid = table("clients", *times, "up", "down", "loopback", "server", "client", "client CPU s")
    for row in found["clients"]:
        grid.add_row(
            f"{row['clients']}",
            f"{row['seconds']:.2f}",
            f"{row['seconds_alone']:.2f}",
            f"{row['server_seconds']:.2f}",
            f"{row['idle_seconds']:.3f}",
            human_bytes(row["up"]),
            human_bytes(row["down"]),
            human_bytes(row["wire"]),
            human_bytes(row["server_bytes"]),
            human_bytes(row["client_bytes"]),
            f"{row['client_total_seconds']:.1f}",
        )
    console.print(grid)
    for name, line in found["lines"].items():
        if line is not None:
            base, each = f"{line['base']:.3g}", f"{line['each']:.3g}"
            out.print(f"{name}: {base} + {each} a client, at most {line['off']:.0%} off")
    out.print(
        "idle: all but one wait for the last; loopback: bytes both ways with TLS and TCP, also of "
        "others; server, client: peak memory; client CPU: of all rounds and the start"
    )
