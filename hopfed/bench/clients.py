"""`hopfed bench clients`: a server and real client processes on loopback, and what each uses.

`hopfed serve` and as many `hopfed join` as asked, each a process with its own key, over TLS, at
their defaults. Owners' rows are drawn from the same few archetypes, so that every client has an
answer in every round. First all but one client are there and wait, which costs the server something
as well; then the last one comes, and the rounds begin.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import check_types, require
from hopfed.bench.harness.machine import describe
from hopfed.bench.harness.processes import Process, Usage
from hopfed.errors import BackendError, DataError
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.runs import Run

SUMMARY = "a server and N client processes on loopback: seconds, bytes and memory of a round"

NUMBERS = {"small": (2, 4), "full": (5, 10, 20, 50)}
ROOM = 400e6  # bytes that a client process may need
LONG = 900.0  # seconds after which nothing more is waited for
ARCHETYPES, QUALITY = 3, 0.8

# What is fitted by a line in the number of clients.
LINEAR = ("seconds", "server_seconds", "idle_seconds", "server_bytes", "up", "wire", "files")


@dataclass(frozen=True)
class Setting:
    """A federation whose processes are measured.

    Attributes
    ----------
    columns : of the owners' tables.
    batch : rows of a client in a round; as many as clients want at their defaults, if 0.
    rounds : of the federation, two at least: the first one compiles kernels and loads libraries.
    idle : seconds in which clients wait.
    """

    columns: int = 200
    batch: int = 0
    rounds: int = 6
    idle: float = 10.0

    def __post_init__(self) -> None:
        check_types(self)
        require(self.columns >= 2, "columns", "at least 2", self.columns)
        require(self.batch >= 0, "batch", "at least 0", self.batch)
        require(self.rounds >= 2, "rounds", "at least 2", self.rounds)
        require(self.idle > 0, "idle", "above 0 seconds", self.idle)

    @property
    def rows(self) -> int:
        """Rows of a client in a round."""
        return self.batch or max(2 * self.columns, 400)


def measure_clients(
    numbers: Sequence[int], tell: Callable[[str], Any], setting: Setting | None = None
) -> dict[str, Any]:
    """Measure a federation for each of `numbers` of clients: "rows", "lines", and "machine".

    Parameters
    ----------
    numbers : of clients, each at least 2.
    tell : is told what comes next, once for each number.
    setting : of the federation; the default one when left out.

    Raises
    ------
    BackendError : the system does not say what a process uses, or Flower is not installed.
    DataError : there is not enough memory for so many processes.
    HopfedError : a process failed, or takes too long.
    """
    from hopfed.federation.engines.flower.keys import make_keys  # says if Flower is missing

    if not Path("/proc/self/stat").exists():
        raise BackendError("this system has no /proc, which says what a process uses")
    setting = setting or Setting()
    rows = []
    for number in numbers:
        require(number >= 2, "clients", "at least 2", number)
        if (free := _free()) < number * ROOM:
            raise DataError(
                f"{number} clients want {number * ROOM / 1e9:g} GB, {free / 1e9:g} GB are free"
            )
        tell(f"clients: {number}")
        with TemporaryDirectory(prefix="hopfed-clients-") as folder, ExitStack() as stack:
            make_keys(Path(folder) / "keys", number, ["127.0.0.1"])
            _draw(Path(folder), number, setting)
            rows.append(_row(Path(folder), number, setting, stack))
    return {
        "clients": rows,
        "lines": {
            name: line([r["clients"] for r in rows], [r[name] for r in rows]) for name in LINEAR
        },
        "setting": asdict(setting) | {"rows": setting.rows},
        "machine": describe(),
    }


def line(x: Sequence[float], y: Sequence[float]) -> dict[str, float] | None:
    """Straight line through points: "base", "each", and "off", how far off it is at the worst one.

    Least squares of the shares of `y`, so that small numbers of clients count as large ones do.

    Examples
    --------
    >>> {name: round(value, 6) for name, value in line([5, 10, 20], [13.0, 23.0, 43.0]).items()}
    {'base': 3.0, 'each': 2.0, 'off': 0.0}
    """
    if len(x) < 2 or not min(y) > 0:
        return None
    xs, ys = np.asarray(x, float), np.asarray(y, float)
    shares = np.stack([1 / ys, xs / ys], axis=1)
    base, each = np.linalg.lstsq(shares, np.ones(len(ys)), rcond=None)[0]
    off = float(np.abs(shares @ [base, each] - 1).max())
    return {"base": float(base), "each": float(each), "off": off}


def _draw(folder: Path, number: int, setting: Setting) -> None:
    """Write the table of every client."""
    rng = stream(0, "bench", "clients")
    archetypes = rademacher(ARCHETYPES, setting.columns, rng)
    for c in range(number):
        rows = draw_examples(archetypes, setting.rows * setting.rounds, QUALITY, rng)[0]
        np.save(folder / f"{c}.npy", rows)


def _row(folder: Path, number: int, setting: Setting, stack: ExitStack) -> dict[str, Any]:
    """Run one federation."""
    everyone = ("--clients", str(number), "--minimum", str(number))
    shape = ("--columns", str(setting.columns), "--rounds", str(setting.rounds))
    where = ("--keys", "keys", "--listen", "127.0.0.1:0", "--out", "run.h5")
    patient = ("--wait", str(LONG), "--timeout", str(LONG / 3))
    server = stack.enter_context(
        Process(folder, "server", "serve", *shape, *everyone, *where, *patient)
    )
    _, found = server.line(r"listening on (\S+) for", LONG)
    clients: list[Process] = []

    def join(c: int) -> None:
        known = ("--server", found[1], "--ca", "keys/ca.pem", "--key", f"keys/client-{c}.key")
        few = (
            ("--smallest-batch", str(setting.rows), "--smallest-set", "1") if setting.batch else ()
        )
        words = ("join", "--data", f"{c}.npy", *known, *few)
        clients.append(stack.enter_context(Process(folder, f"client-{c}", *words)))

    for c in range(number - 1):
        join(c)
    for _ in clients[:]:
        server.line("client [0-9]+ joined", LONG, clients)
    waiting = _idle(server, setting.idle)
    join(number - 1)
    rounds = _rounds(server, setting.rounds, clients)
    total = server.end(LONG)
    used = [client.end(LONG) for client in clients]
    run = Run.load(folder / "run.h5", complete=True)
    return {"clients": number} | waiting | rounds | _sent(run) | _used(total, used)


def _idle(server: Process, seconds: float) -> dict[str, float]:
    """What the server uses in a second while all but one client wait, in all."""
    before, wire, began = server.usage(), _loopback(), time.monotonic()
    time.sleep(seconds)
    spent = time.monotonic() - began
    used = (server.usage().seconds - before.seconds) / spent
    return {"idle_seconds": used, "idle_wire": (_loopback() - wire) / spent}


def _rounds(server: Process, rounds: int, clients: Sequence[Process]) -> dict[str, Any]:
    """Times of the rounds after the first one, from the end of an exchange to that of the next."""
    moments, waits, heard, usages, wires = [], [], 0, [], []
    for _ in range(rounds):
        said = r"exchange 0: ([0-9]+) of [0-9]+ answered in ([0-9.]+) s"
        moment, found = server.line(said, LONG, clients)
        moments.append(moment)
        waits.append(float(found[2]))
        usages.append(server.usage())
        wires.append(_loopback())
        heard += int(found[1])
    taken = np.diff(moments)
    return {
        "seconds": float(np.median(taken)),
        "seconds_worst": float(taken.max()),
        "seconds_first": waits[0],
        "seconds_alone": float(np.median(taken - waits[1:])),  # of the server, with all answers
        "server_seconds": float(np.median(np.diff([u.seconds for u in usages]))),
        "wire": float(np.median(np.diff(wires))),
        "files": max(u.files for u in usages),
        "answers": heard,
    }


def _sent(run: Run) -> dict[str, float]:
    """Bytes of messages in a round after the first, of all clients, and that a client sends."""
    up, down = (run.arrays[f"traffic/{way}"][0, 1:] for way in ("up", "down"))
    number = up.shape[1]
    total = {"up": float(up.sum(axis=1).mean()), "down": float(down.sum(axis=1).mean())}
    return total | {"up_each": total["up"] / number, "down_each": total["down"] / number}


def _used(server: Usage, clients: Sequence[Usage]) -> dict[str, float]:
    return {
        "server_total_seconds": server.seconds,
        "server_bytes": server.peak_bytes,
        "client_total_seconds": float(np.mean([used.seconds for used in clients])),
        "client_bytes": max(used.peak_bytes for used in clients),
    }


def _loopback() -> int:
    """Bytes that went over the loopback since the start of the machine, of whoever sent them."""
    for entry in Path("/proc/net/dev").read_text().splitlines():
        name, _, numbers = entry.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[0])
    return 0


def _free() -> float:
    """Bytes of memory that are free for new processes."""
    entries = Path("/proc/meminfo").read_text().splitlines()
    found = (entry.split()[1] for entry in entries if entry.startswith("MemAvailable"))
    return 1024 * float(next(found, 0))
