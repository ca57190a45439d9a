"""Every command with arguments of every kind: what it promises, or one line and exit status 2.

What would compute for long, wait for others or measure the machine stops where that would begin.
"""

import json
import os
import re
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from calls import TABLES, a_call, run, spread
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed: `hopfed fl` is one of the commands")
pytest.importorskip("grpc", reason="grpcio is not installed: `hopfed serve` is one of the commands")

FAST, SLOW = 300, 12_000  # cases; test_files.py has the others

pytestmark = pytest.mark.usefixtures("stubs", "little_memory")


def listing(folder):
    """Sizes and times of what is in a folder and no folder itself, by name."""
    held = [entry for entry in os.scandir(folder) if not entry.is_dir()]
    states = {entry.name: entry.stat(follow_symlinks=False) for entry in held}
    return {name: (state.st_size, state.st_mtime_ns) for name, state in states.items()}


def runs_named(inputs, arguments):
    """What is in the files among the inputs that are named as an output."""
    named = {Path(b) for a, b in pairwise(arguments) if a == "--out" and b.endswith(TABLES)}
    return {p.name: p.read_bytes() for p in named if p.parent == inputs and p.is_file()}


def judge(place, arguments):
    """Hold one call to the promise."""
    inputs, outputs = place
    replaceable = runs_named(inputs, arguments)
    before = listing(inputs)
    try:
        status, out, err = run(arguments)
        assert not any(stream.closed for stream in (sys.stdout, sys.stderr)), "they are not its own"
        if status == 1 and err.startswith("predictions that failed"):  # an answer, too
            status = 0
        assert status in (0, 2) or (status == 1 and arguments[0] == "sweep"), err
        assert "Traceback" not in err
        after = listing(inputs)
        changed = dict(before.items() - after.items())
        assert changed.keys() <= (replaceable.keys() & after.keys() if status == 0 else set())
        for name in changed:  # a run took the place of a run, as it was asked to
            (inputs / name).write_bytes(replaceable[name])
        for name in after.keys() - before.keys():  # keys, say, in a folder that is there
            assert status == 0
            (inputs / name).unlink()
        made = sorted(outputs.iterdir())
        if status == 2:
            assert err.startswith("error: ")
            # A line for each column.
            listed = re.search("cannot be read as they are:\n|words that are not known:\n", err)
            assert listed or len(err.splitlines()) == 1
            assert (out, made) == ("", [])
        elif "--json" in arguments:
            json.loads(out)
        else:
            assert out.strip()
        assert all(path.is_dir() or path.stat().st_size > 0 for path in made)
    finally:
        shutil.rmtree(outputs)
        outputs.mkdir()
        os.chdir(outputs)


draws = st.randoms(use_true_random=True)  # a failure prints the seed that repeats it


@pytest.mark.alone  # beside other tests a call now and then finds the capture of pytest closed
@spread(FAST, known=True)
@given(rng=draws)
def test_commands(place, rng):
    judge(place, a_call(rng, place))


@pytest.mark.slow
@spread(SLOW, known=False)
@given(rng=draws)
def test_commands_at_length(place, rng):
    judge(place, a_call(rng, place))
