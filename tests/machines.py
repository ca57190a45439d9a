"""Servers and clients of `hopfed serve` and `hopfed join` as processes on loopback, for tests."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from hopfed import read_table
from hopfed._lib.random import stream
from hopfed._lib.settings import from_plain
from hopfed.experiments import serve
from hopfed.federation.engines import LocalEngine
from hopfed.federation.machines.keys import make_keys
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.example_sources import BatchSource
from hopfed.runs import Run

COLUMNS = 120
PATIENCE = 90  # seconds that a test waits for a line; machines differ


# A client on a machine that has no torch. None in sys.modules would stop SciPy, which asks every
# module that is there for its tensors: then the client never joined, and the server waited for it.
WITHOUT_TORCH = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Without())
from hopfed.cli import main
main(sys.argv[1:])
"""

# Many clients in one process, each with its key, its connection and its thread. Everything is
# imported, and the libraries of BLAS are found, before there are threads: of two threads that
# import at once one may see half a module, and then its client never comes.
CROWD = """
import sys, threading
import hopfed.cli.machines.join, hopfed.federation.machines.client
import hopfed.hopfield.owner, hopfed.tables.writers
from hopfed._lib.arrays import blas_threads
from hopfed.cli import main
with blas_threads(1):
    pass
def join(c, rest):
    try:
        main([word.replace("@", c) for word in rest])
        failed.remove(c)
    except SystemExit as end:
        if not end.code:
            failed.remove(c)
failed = sys.argv[1].split(",")
threads = [threading.Thread(target=join, args=(c, sys.argv[2:])) for c in list(failed)]
[t.start() for t in threads]
[t.join() for t in threads]
sys.exit(len(failed))
"""


class Machines:
    """Processes in a folder; all of them end with the context."""

    def __init__(self, folder: Path, clients: int, rows: int = 500):
        self.folder, self.clients, self.port = folder, clients, 0
        self.processes: dict[str, subprocess.Popen] = {}
        make_keys(folder / "keys", clients, ["127.0.0.1"])
        rng = stream(0, "machines")
        self.archetypes = rademacher(3, COLUMNS, rng)
        for c in range(clients):
            np.save(folder / f"{c}.npy", draw_examples(self.archetypes, rows, 0.8, rng)[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def start(self, name: str, *arguments: str, code: str = "") -> None:
        """Start hopfed, or Python code; what it prints goes to a file."""
        command = ["-c", code] if code else ["-m", "hopfed"]
        home = {"HOPFED_HOME": str(self.folder / f"home-{name}"), "OMP_NUM_THREADS": "1"}
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, *command, *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=os.environ | home,
                start_new_session=True,
            )

    def serve(self, *arguments: str) -> None:
        """Start the server, at the port of the one before it."""
        before = len(re.findall("listening on", self.log("server")))
        listen = f"127.0.0.1:{self.port}"
        given = ("--keys", "keys", "--listen", listen, "--out", "run.h5", "--timeout", "45")
        columns = ("--columns", str(COLUMNS), "--clients", str(self.clients))
        self.start("server", "serve", *given, *columns, *arguments)
        pattern = r"listening on 127.0.0.1:(\d+)"
        self.port = int(self.wait("server", pattern, before)[1])

    def join(self, c: int, *arguments: str) -> None:
        """Start a client."""
        self.start(f"client-{c}", *self.joining(c, *arguments))

    def join_all(self, *arguments: str, who=None) -> None:
        """Start clients in one process, "clients"; an @ in what is given is their number."""
        (self.folder / "home-clients").mkdir(mode=0o700)  # which all of them would make at once
        numbers = ",".join(map(str, range(self.clients) if who is None else who))
        self.start("clients", numbers, *self.joining("@", *arguments), code=CROWD)

    def joining(self, c: int | str, *arguments: str) -> list[str]:
        """Return the arguments of a client, which trusts the server unless they say epsilon."""
        where = ["--server", f"127.0.0.1:{self.port}", "--ca", "keys/ca.pem"]
        way = [] if "--epsilon" in arguments else ["--trust-server"]
        given = ["--data", f"{c}.npy", *where, "--key", f"keys/client-{c}.key"]
        return ["join", *way, *given, *arguments]

    def kill(self, name: str) -> None:
        """End a process as a power cut does."""
        os.killpg(self.processes[name].pid, signal.SIGKILL)
        self.processes[name].wait()

    def log(self, name: str) -> str:
        """What a process printed so far."""
        path = self.folder / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def wait(self, name: str, pattern: str, before: int = 0) -> re.Match:
        """Wait until a process has printed a line like that once more than `before` times."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = list(re.finditer(pattern, self.log(name)))
            if len(found) > before:
                return found[before]
            if self.processes[name].poll() is not None and not re.search(pattern, self.log(name)):
                break
            time.sleep(0.02)
        raise AssertionError(f"{name} never said {pattern!r}:\n{self.log(name)}")

    def end(self, name: str) -> int:
        """Wait for a process to end; its exit status, or all that was printed where it does not."""
        try:
            return self.processes[name].wait(PATIENCE)
        except subprocess.TimeoutExpired:
            logs = "\n".join(f"--- {each}\n{self.log(each)}" for each in self.processes)
            raise AssertionError(f"{name} did not end in {PATIENCE} s:\n{logs}") from None

    def run(self) -> Run:
        """Return the run, once the server is done."""
        assert self.end("server") == 0, self.log("server")
        return Run.load(self.folder / "run.h5", complete=True)

    def alone(self, run: Run) -> dict[str, np.ndarray]:
        """Arrays of the same federation in one process."""
        config = from_plain(serve.Config, run.config)
        files = [self.folder / f"{c}.npy" for c in range(self.clients)]
        owners = tuple(read_table(path).held for path in files)
        method, state, rounds = config.make(BatchSource(owners, config.rounds)), None, []
        for t in range(config.rounds):
            arrays, state = serve.measure_round(0, config, t, state, LocalEngine(), method)
            rounds.append(arrays)
        return {name: np.stack([arrays[name] for arrays in rounds])[None] for name in rounds[0]}
