"""Commands where things are not as they should be: interrupted, unread, no home, odd names."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from helpers import sample

from hopfed.cli.printing import escape
from hopfed.runs import Run

RUN = "from hopfed.__main__ import main; main()"
COMMAND = [sys.executable, "-c", RUN]
# Says "here" when the command has begun: as its first import of the command line is looked up.
SAYS_HERE = """
import sys
from hopfed.__main__ import main

class Says:
    def find_spec(self, name, *_):
        if name == "hopfed.cli":
            print("here", flush=True)

sys.meta_path.insert(0, Says())
main()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", sample(3, 48, 300, 0.8, 0)[1])
    Run("mine", {}, {"x": np.ones(3)}, {"n_detected": 2}).save(tmp_path / "run.h5")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(*arguments, **options):
    """What a process of the command prints, as bytes."""
    return subprocess.run([*COMMAND, *arguments], capture_output=True, check=False, **options)


@pytest.mark.parametrize("seconds", [0.05, 0.5])
@pytest.mark.parametrize("command", ["recover a.npy --out x.h5", "run bbp --workers 2 --out x.h5"])
def test_ctrl_c_at_any_time_is_one_line(folder, seconds, command):
    process = subprocess.Popen(
        [sys.executable, "-c", SAYS_HERE, *command.split()],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # A shell's background jobs ignore the signal, and so would their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert process.stdout.readline() == "here\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    if errors:
        assert (process.returncode, errors) == (130, "interrupted\n")
    else:  # it was done, or about to leave
        assert process.returncode in (0, -signal.SIGINT)
    assert {p.name for p in folder.iterdir()} <= {"a.npy", "run.h5", "x.h5"}
    if (folder / "x.h5").exists():
        Run.load("x.h5")


LOST = """
class Met:  # a callback of Python's own, as of an import: what it raises is printed and forgotten
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def run():
    Met()
    time.sleep(20)
"""
REPLACED = """
def run():  # as NumPy's "expected a message argument", when it is cut off while it loads
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        pass
    raise TypeError("expected a message argument")
"""
COMMAND_OF = """
import signal, sys, time
import hopfed.__main__ as command
{}
sys.modules["hopfed.cli"] = type(sys)("hopfed.cli")
sys.modules["hopfed.cli"].main = run
signal.signal(signal.SIGINT, signal.default_int_handler)
command.main()
"""


@pytest.mark.parametrize("library", [LOST, REPLACED])
def test_an_interrupt_that_a_library_loses_or_replaces(library):
    command = [sys.executable, "-c", COMMAND_OF.format(library)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (answer.returncode, answer.stderr) == (130, "interrupted\n")


def test_nobody_reads_on(folder):
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*COMMAND, "list"], **both) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.parametrize("command", ["list", "--help", "show run.h5 --json"])
def test_standard_output_is_full_or_closed(folder, command):
    cases = {">&-": (0, b""), ">/dev/full": (2, b"error: No space left on device\n")}
    for to, expected in cases.items() if os.path.exists("/dev/full") else ():
        words = ["sh", "-c", f'exec "$@" {command} {to}', "sh", *COMMAND]
        answer = subprocess.run(words, stderr=subprocess.PIPE, check=False)
        assert (answer.returncode, answer.stderr) == expected


ODD = ("[/b].h5", "a\x1b[31mred.h5", "two\nlines.h5", "\udcff.h5", "\u202eback.h5")


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_shown_and_not_obeyed(hopfed, folder, name):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    os.rename("run.h5", name)
    assert escape(name) in hopfed.done("compare", name, name)[0].replace("…", "")
    for command, source, ending in (("report", name, "html"), ("recover", "a.npy", "h5")):
        target = f"{name}.{ending}"
        out, err = hopfed.done(command, source, "--out", target)
        assert (err, f"wrote {escape(target)}" in out, os.path.exists(target)) == ("", True, True)
    for text in (out, hopfed.refused("show", f"lost {name}")):
        assert not {"\x1b", "\u202e"} & set(text)


def test_homes_that_take_nothing_and_terminals_that_know_few_letters(folder):
    nowhere = dict.fromkeys(("NUMBA_CACHE_DIR", "MPLCONFIGDIR", "HOPFED_HOME"), "/proc/none")
    name = os.fsdecode("grüß\xff.h5".encode("latin-1"))  # bytes that are no UTF-8
    Run("recover", {"owner": "Müller ± 1"}, {"x": np.ones(3)}, {"n_detected": 2}).save(name)
    few = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for words, env in (
        (("recover", "a.npy", "--figure", "x.png"), nowhere | {"HOME": "/nonexistent"}),
        (("show", os.fsencode(name)), few),
    ):
        answer = told(*words, env=os.environ | env)
        assert (answer.returncode, b"Traceback" in answer.stderr) == (0, False)
    assert b"ller" in answer.stdout


WARNS = """
import warnings
import hopfed.__main__ as command
command.say_own_warnings()
Own = type("Own", (UserWarning,), {"__module__": "hopfed.own"})
for _ in range(2):
    warnings.warn("of\\x1b use", Own)
    warnings.warn("of none", RuntimeWarning)
"""


def test_own_warnings_are_said_once_and_those_of_libraries_are_not():
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONWARNINGS"}
    command = [sys.executable, "-c", WARNS]
    answer = subprocess.run(command, env=clean, capture_output=True, text=True, check=True)
    assert answer.stderr == "warning: of\\x1b use\n"
