"""Runs in processes of their own that are killed, lose a worker, or run out of disk."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toy_experiments import WALK, make

from hopfed.errors import HopfedError
from hopfed.experiments.runner import execute
from hopfed.runs import Run

BEGIN = (
    "import sys; sys.path.insert(0, sys.argv[1])\n"
    "import {name}\n"
    "from hopfed.experiments import ledger as _ledger\n"
    "from hopfed.experiments.runner import execute\n"
    "from hopfed.federation import states\n"
    "_ledger.SHARE = 1e9\n"  # a commit after every round
    "states.OWN_FILE = 16\n"
    "if __name__ == '__main__':\n"
    "    config = {name}.Config({settings})\n"
    "    execute({name}, config, out=sys.argv[2], resume=True, workers={workers})\n"
)


def start(folder, out, name, settings, workers=1, **options):
    """Start an experiment in a process of its own."""
    script = folder / "begin.py"
    script.write_text(BEGIN.format(name=name, settings=settings, workers=workers))
    command = [sys.executable, str(script), str(folder / "modules"), str(out)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


def kill_and_resume(module, tmp_path, kills, seed):
    """Kill at random moments, most of them inside a commit; then compare with a quiet run."""
    config = module.Config(N=20_000, seeds=8)
    whole, out = tmp_path / "whole.h5", tmp_path / "killed.h5"
    execute(module, config, out=whole)
    moments = random.Random(seed)
    for _ in range(kills):
        before = out.stat().st_mtime_ns if out.exists() else 0
        process = start(tmp_path, out, module.__name__, "N=20_000, seeds=8")
        while process.poll() is None and (
            not out.exists() or out.stat().st_mtime_ns == before
        ):  # the imports are over with the first commit
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert Run.load(out).planned == 8
    execute(module, config, out=out, resume=True)
    assert out.read_bytes() == whole.read_bytes()
    assert sorted(p.name for p in tmp_path.glob(".*")) == []
    assert not out.with_name("killed.h5.states").exists()


@pytest.mark.parametrize("name", ["rounds", "federation"])
def test_kill_and_resume(name, request, tmp_path):
    kill_and_resume(request.getfixturevalue(name), tmp_path, kills=2, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rounds", "federation"])
@pytest.mark.parametrize("seed", range(3))
def test_kill_and_resume_ten_times(name, request, tmp_path, seed):
    kill_and_resume(request.getfixturevalue(name), tmp_path, kills=10, seed=seed)


def children(pid):
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_workers_do_not_outlive_a_killed_run(rounds, tmp_path):
    out = tmp_path / "w.h5"
    process = start(tmp_path, out, "rounds", "N=20_000, seeds=500", workers=2)
    deadline = time.monotonic() + 60
    while not (out.exists() and Run.load(out).arrays.keys() - {"seeds"}):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    while any(alive(pid) for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(workers) >= 2


def test_a_worker_that_dies_is_told_in_words(tmp_path, monkeypatch):
    out = tmp_path / "w.h5"
    # The worker dies after the other seed is committed, so that there is something to keep.
    dies = f"""from hopfed.runs import Run
        end = time.monotonic() + 60
        while time.monotonic() < end and not Run.load({str(out)!r}).committed:
            time.sleep(0.01)
        os._exit(1)"""
    text = WALK.replace('raise ArgumentError("seed", "one that works", seed)', dies)
    module = make(tmp_path, monkeypatch, "dying", text)
    with pytest.raises(HopfedError, match="a worker process died"):
        execute(module, module.Config(fail=1), out=out, workers=2)
    kept = Run.load(out)
    assert not kept.complete
    assert 0 in kept.arrays["seeds"]


def test_a_disk_that_fills_up_keeps_what_is_committed(walk, tmp_path):
    out = tmp_path / "w.h5"
    limit = 200_000  # bytes: room for two seeds of 80 kB and the probe, not for three
    process = start(
        tmp_path,
        out,
        "walk",
        "N=10_000, seeds=6",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    _, errors = process.communicate()
    assert process.returncode == 1
    assert errors.strip().endswith("cannot be written: File too large")
    assert Run.load(out).arrays["seeds"].tolist() == [0, 1]
    execute(walk, walk.Config(N=10_000), out=out, resume=True)
    assert Run.load(out).complete
    assert os.listdir(tmp_path / "modules")
