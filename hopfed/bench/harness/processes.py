"""Processes of hopfed that are measured from outside: what they print, when, and what they use."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hopfed.errors import HopfedError

LOOK = 0.01  # seconds between two looks at what a process printed


@dataclass(frozen=True)
class Usage:
    """What a process used so far.

    Attributes
    ----------
    seconds : of processor time.
    peak_bytes : most memory that it held, with the libraries that it shares with others.
    files : open files, connections among them; 0 of a process that has ended.
    """

    seconds: float
    peak_bytes: int
    files: int = 0


class Process:
    """A process of hopfed in a folder; it ends with the context, whatever happens.

    Parameters
    ----------
    folder : where it runs; its files for itself and what it prints are there under its name.
    name : of it.
    arguments : words after `hopfed`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Process(Path(folder), "list", "list") as process:
    ...     moment, found = process.line("(bbp).*", seconds=60.0)
    ...     used = process.end(seconds=60.0)
    >>> found[1], used.peak_bytes > 1e7
    ('bbp', True)
    """

    def __init__(self, folder: Path, name: str, *arguments: str):
        self.name, self.log = name, folder / f"{name}.log"
        # One thread each, as many of them are to share a machine.
        own = {"HOPFED_HOME": str(folder / f"home-{name}"), "HOPFED_NUM_THREADS": "1"}
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hopfed", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=os.environ | own | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            )
        self._seen = 0  # bytes of the log that were looked at
        self._used: Usage | None = None  # in all, of a process that has ended

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.over():
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def line(
        self, pattern: str, seconds: float, beside: Sequence[Process] = ()
    ) -> tuple[float, re.Match[str]]:
        """Wait for the next line that has `pattern`: the moment at which it was seen, and it.

        Parameters
        ----------
        pattern : regular expression.
        seconds : to wait for.
        beside : processes that must not fail meanwhile.

        Raises
        ------
        HopfedError : the process ended without it, `seconds` are over, or one of the others failed.
        """
        end = time.monotonic() + seconds
        while True:
            over = self.over() or time.monotonic() > end
            text = self.log.read_bytes()[self._seen :]
            for whole in re.finditer(rb"[^\n]*\n", text):
                found = re.search(pattern, whole[0].decode(errors="replace"))
                if found:
                    self._seen += whole.end()
                    return time.monotonic(), found
            if over:
                raise HopfedError(f"{self.name} did not say {pattern!r}: {self.last()}")
            for other in beside:
                if other.over():
                    other.check()
            time.sleep(LOOK)

    def usage(self) -> Usage:
        """What it used so far, of a process that is there."""
        own = Path("/proc") / str(self._process.pid)
        ticks = (own / "stat").read_text().rpartition(")")[2].split()[11:13]
        status = (own / "status").read_text()
        peak = re.search(r"VmHWM:\s+(\d+)", status)
        seconds = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        files = len(list((own / "fd").iterdir()))
        return Usage(seconds, 1024 * int(peak[1]) if peak else 0, files)

    def over(self) -> bool:
        """Whether it has ended."""
        if self._used is None:
            pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self._used = Usage(used.ru_utime + used.ru_stime, 1024 * used.ru_maxrss)
        return self._used is not None

    def check(self) -> None:
        """Fail if it ended with another status than 0.

        Raises
        ------
        HopfedError : it did; its last line is in the words.
        """
        if self._process.returncode:
            status = self._process.returncode
            raise HopfedError(f"{self.name} ended with status {status}: {self.last()}")

    def end(self, seconds: float) -> Usage:
        """Wait until it has ended, and return what it used in all.

        Raises
        ------
        HopfedError : `seconds` are over, or it failed.
        """
        end = time.monotonic() + seconds
        while not self.over() or self._used is None:
            if time.monotonic() > end:
                raise HopfedError(f"{self.name} has not ended after {seconds:g} s: {self.last()}")
            time.sleep(LOOK)
        self.check()
        return self._used

    def last(self) -> str:
        """Last line that it printed."""
        lines = self.log.read_text(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it printed nothing")
