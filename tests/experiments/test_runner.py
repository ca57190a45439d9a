"""Running experiments: order, workers, bad arguments; stopped or killed, they end alike."""

import os
import random
import resource
import signal
import stat
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
from helpers import rest_slow
from toy_experiments import WALK, Stop, make, stop_after

from hopfed.errors import ArgumentError, HopfedError, RunFileError
from hopfed.experiments.machinery import checkpoint as _ledger
from hopfed.experiments.machinery.checkpoint import Ledger
from hopfed.experiments.machinery.runner import execute
from hopfed.runs import Run


def test_arrays_are_stacked_by_seed_and_round(walk, federation, tmp_path):
    run = execute(walk, walk.Config(), out=tmp_path / "w.h5")
    assert run.arrays["x"].shape == (6, 4)
    assert run.arrays["a/seed"].tolist() == run.arrays["seeds"].tolist() == list(range(6))
    assert run.arrays["a/seed"].dtype == np.int8
    assert run.summary == {"mean": run.arrays["x"].mean(), "nan": None}
    assert Run.load(tmp_path / "w.h5", complete=True).summary == run.summary
    total = execute(federation, federation.Config()).arrays["total"]
    assert total.shape == (6, 5, 4)
    assert len(np.unique(np.diff(total, axis=1, prepend=0))) == total.size  # no stream comes twice


@pytest.mark.parametrize("name", ["walk", "federation"])
def test_an_interrupted_run_resumes_to_the_same_bytes(name, request, tmp_path):
    """After every single commit in turn; the file is readable and incomplete each time."""
    module = request.getfixturevalue(name)
    config = module.Config(seeds=2)
    whole, out = tmp_path / "whole.h5", tmp_path / "broken.h5"
    execute(module, config, out=whole)
    commits = 0
    while not out.exists() or not Run.load(out).complete:
        with pytest.raises(Stop):
            execute(module, config, out=out, resume=True, report=stop_after(1))
        commits += 1
        if not Run.load(out).complete:
            assert out.read_bytes() != whole.read_bytes()
    assert commits == {"walk": 2, "federation": 10}[name]
    assert out.read_bytes() == whole.read_bytes()
    assert execute(module, config, out=out, resume=True).complete


@pytest.mark.parametrize("options", rest_slow([{}, {"workers": 2}], 2))
def test_where_the_work_is_done_changes_no_byte_and_states_are_for_their_owner(
    federation, tmp_path, options
):
    config = federation.Config(seeds=3)
    one, two = tmp_path / "one.h5", tmp_path / "two.h5"
    execute(federation, config, out=one)
    with pytest.raises(Stop):
        execute(federation, config, out=two, report=stop_after(4), **options)
    assert stat.S_IMODE(two.stat().st_mode) == 0o600
    execute(federation, config, out=two, resume=True, **options)
    assert two.read_bytes() == one.read_bytes()
    assert sorted(p.name for p in tmp_path.glob("*.h5*")) == ["one.h5", "two.h5"]


def test_fast_rounds_are_not_held_up_by_commits(federation, tmp_path, monkeypatch):
    writes = []
    save = Run.save
    monkeypatch.setattr(Run, "save", lambda *a, **k: (writes.append(1), save(*a, **k)))
    monkeypatch.setattr(_ledger, "SHARE", 1e-9)
    config = federation.Config(seeds=2)
    execute(federation, config, out=tmp_path / "a.h5")
    assert len(writes) == 1 + 1  # the first round, and the whole
    execute(federation, config, out=tmp_path / "b.h5", at_once=True)
    assert len(writes) == 2 + 10
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_a_seed_that_fails_keeps_the_others(walk, tmp_path):
    out = tmp_path / "w.h5"
    with pytest.raises(ArgumentError, match="seed must be one that works"):
        execute(walk, walk.Config(fail=2), out=out)
    assert Run.load(out).arrays["seeds"].tolist() == [0, 1]
    with pytest.raises(HopfedError, match="seed must be one that works, got 2"):
        execute(walk, walk.Config(fail=2), workers=2)


def test_a_run_grows_by_seeds_begins_where_one_likes_and_never_shrinks(walk, tmp_path, hopfed):
    out, whole = tmp_path / "w.h5", tmp_path / "whole.h5"
    execute(walk, walk.Config(seeds=2), out=out, first=100)
    run = execute(walk, walk.Config(seeds=5), out=out, resume=True, first=100)
    assert run.arrays["a/seed"].tolist() == [100, 101, 102, 103, 104]
    execute(walk, walk.Config(seeds=5), out=whole, first=100)
    assert out.read_bytes() == whole.read_bytes()
    for seeds, first, words in ((5, 0, "first_seed = 100, not 0"), (4, 100, "must be at least 5")):
        with pytest.raises(HopfedError, match=words):
            execute(walk, walk.Config(seeds=seeds), out=out, resume=True, first=first)
    mp = tmp_path / "mp.h5"
    tiny = ("--preset", "quick", "--set", "N=40", "--set", "nulls=1", "--set", "shuffle=no")
    hopfed.done("run", "mp", *tiny, "--seeds", "100:102", "--out", mp)
    hopfed.done("run", "mp", "--out", mp, "--resume", "--seeds", "100:103")
    assert Run.load(mp).arrays["seeds"].tolist() == [100, 101, 102]


def test_what_cannot_be_run_or_resumed(walk, federation, tmp_path, monkeypatch):
    out = tmp_path / "w.h5"
    execute(walk, walk.Config(seeds=1), out=out)
    again = {"out": out, "resume": True}
    for options, words in (
        ({"workers": 0}, "workers must be at least 1"),
        ({"out": tmp_path / "absent" / "w.h5"}, "in a folder that exists"),
        ({"engine": "pool"}, "local or dask: this is not a federation"),
        ({"device": "cuda:0"}, "device must be cpu: walk computes there only"),
        ({"out": out}, "a new file, or one to continue with --resume"),
        ({"N": 5} | again, "made with N = 4, not 5"),
        ({"experiment": federation} | again, "made with experiment = walk, not federation"),
    ):
        experiment, N = options.pop("experiment", walk), options.pop("N", 4)
        with pytest.raises(HopfedError, match=words):
            execute(experiment, experiment.Config(N=N, seeds=1), **options)
    monkeypatch.setattr(
        "hopfed.experiments.machinery.checkpoint.provenance", lambda: {"numpy": "9.9"}
    )
    with pytest.raises(RunFileError, match=r"made with numpy .*, here is 9\.9"):
        execute(walk, walk.Config(), **again)
    ledger = Ledger(walk, walk.Config(seeds=2))
    ledger.commit(0, {"x": np.zeros(2)})
    ledger.commit(1, {"x": np.zeros(3)})
    with pytest.raises(ValueError, match="'x' must be the same"):
        ledger.run()


def test_rounds_of_another_kind_are_refused(federation, tmp_path):
    out = tmp_path / "r.h5"
    with pytest.raises(Stop):
        execute(federation, federation.Config(), out=out, report=stop_after(1))
    with h5py.File(out, "r+") as file:
        shape = file["unfinished/0/total"].shape
        del file["unfinished/0/total"]
        file["unfinished/0/total"] = np.full(shape, b"no")
    with pytest.raises(RunFileError, match=r"cannot be used.*array 'total' must"):
        execute(federation, federation.Config(), out=out, resume=True)


# In a process of its own, which is killed or has too little room

BEGIN = """
import sys; sys.path.insert(0, sys.argv[1])
import {name}
from hopfed.experiments.machinery import checkpoint, runner
checkpoint.SHARE = 1e9  # a commit after every round
if __name__ == "__main__":
    runner.execute({name}, {name}.Config({settings}), out=sys.argv[2], resume=True)
"""


def start(folder, out, name, settings, **options):
    """Start an experiment in a process of its own."""
    script = folder / "begin.py"
    script.write_text(BEGIN.format(name=name, settings=settings))
    command = [sys.executable, str(script), str(folder / "modules"), str(out)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


def test_a_killed_run_resumes_to_the_same_bytes(federation, tmp_path):
    """Killed at random moments, most of them inside a commit."""
    config = federation.Config(N=20_000, seeds=6)
    whole, out = tmp_path / "whole.h5", tmp_path / "killed.h5"
    execute(federation, config, out=whole)
    moments = random.Random(0)
    for _ in range(2):
        before = out.stat().st_mtime_ns if out.exists() else 0
        process = start(tmp_path, out, "federation", "N=20_000, seeds=6")
        while process.poll() is None and (not out.exists() or out.stat().st_mtime_ns == before):
            time.sleep(0.002)  # the imports are over with the first commit
        time.sleep(moments.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert Run.load(out).planned == 6
    execute(federation, config, out=out, resume=True)
    assert out.read_bytes() == whole.read_bytes()
    assert sorted(p.name for p in tmp_path.glob(".*")) == []


def test_a_worker_that_dies_is_told_in_words(tmp_path, monkeypatch):
    out = tmp_path / "w.h5"
    # The worker dies after the other seed is committed, so that there is something to keep.
    dies = f"""end = time.monotonic() + 60
        while time.monotonic() < end and not os.path.exists({str(out)!r}):
            time.sleep(0.01)
        os._exit(1)"""
    text = WALK.replace('raise ArgumentError("seed", "one that works", seed)', dies)
    module = make(tmp_path, monkeypatch, "dying", text)
    with pytest.raises(HopfedError, match="a worker process died"):
        execute(module, module.Config(fail=1), out=out, workers=2)
    assert 0 in Run.load(out).arrays["seeds"]


def test_a_disk_that_fills_up_keeps_what_is_committed(walk, tmp_path):
    out = tmp_path / "w.h5"
    room = (200_000, 200_000)  # bytes: for two seeds of 80 kB and the probe, not for three

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, room)

    process = start(tmp_path, out, "walk", "N=10_000, seeds=6", preexec_fn=limited)
    _, errors = process.communicate()
    assert process.returncode == 1
    assert errors.strip().endswith("cannot be written: File too large")
    assert Run.load(out).arrays["seeds"].tolist() == [0, 1]
    execute(walk, walk.Config(N=10_000), out=out, resume=True)
    assert Run.load(out).complete
    assert os.listdir(tmp_path / "modules")
