"""Running experiments: commits, interruptions, resumption, workers, failures."""

import importlib
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hopfed.errors import ArgumentError, HopfedError, RunFileError
from hopfed.experiments import _ledger
from hopfed.experiments._execute import execute
from hopfed.experiments._ledger import Ledger
from hopfed.federation import states
from hopfed.runs import Run

# A federation in small: three rounds that hand a state on, and arrays large enough for most of
# the time to pass inside a commit. `walk` is one seed at a time.
WALK = """
import os, time
from dataclasses import dataclass
import numpy as np
from hopfed.errors import ArgumentError
from hopfed.rng import stream

@dataclass(frozen=True)
class Config:
    N: int = 4
    fail: int = -1
    seeds: int = 6

def run(config, seed):
    if seed == config.fail:
        raise ArgumentError("seed", "one that works", seed)
    return {"x": stream(seed, "walk").standard_normal(config.N), "a/seed": np.int8(seed)}

def summarise(config, arrays):
    return {"mean": arrays["x"].mean(), "nan": np.nan}
"""
ROUNDS = (
    WALK.replace("def run(", "def _unused(")
    + """
def run_round(config, seed, t, state, engine):
    step = stream(seed, "round", t).standard_normal(config.N)
    here = step if state is None else state["here"] + step
    return {"x": here, "t": np.int64(t)}, ({"here": here} if t < 2 else None)
"""
)

# Clients with states of their own, four of six of whom take part in a round.
FEDERATION = (
    WALK.replace("def run(", "def _unused(").replace('["x"]', '["total"]')
    + """
from hopfed.federation.contract import EVERYONE
from hopfed.federation.messages import Field
from hopfed.federation.participation import Participation
from hopfed.federation.rounds import play_round

class Sums:
    exchanges, fresh = 1, False

    def __init__(self, size): self.size = size
    def client_start(self, client, seed): return {"x": np.zeros(self.size)}
    def server_start(self, seed): return {"total": np.zeros(self.size)}
    def expects(self, down, context): return {"x": Field((self.size,), "f")}

    def client_step(self, state, down, context):
        x = state["x"] + context.rng("x").standard_normal(self.size) + down.get("total", 0.0)
        return {"x": x}, {"x": x}, {}

    def server_step(self, state, messages, context):
        total = state["total"] + sum(m["x"] for m in messages.values()) / len(messages)
        return {"total": total}, {EVERYONE: {"total": total}}, {}

def run_round(config, seed, t, state, engine):
    played = play_round(Sums(config.N), state, t, seed=seed, clients=6, engine=engine,
                        participation=Participation(0.7, late=0.1))
    arrays = played.arrays() | {"total": played.state.server["total"]}
    return arrays, (played.state if t < 4 else None)
"""
)


@pytest.fixture
def walk(tmp_path, monkeypatch):
    return make(tmp_path, monkeypatch, "walk", WALK)


@pytest.fixture
def rounds(tmp_path, monkeypatch):
    return make(tmp_path, monkeypatch, "rounds", ROUNDS)


@pytest.fixture
def federation(tmp_path, monkeypatch):
    monkeypatch.setattr(states, "OWN_FILE", 16)  # every client's state is in a file of its own
    return make(tmp_path, monkeypatch, "federation", FEDERATION)


def make(folder, monkeypatch, name, text):
    """Import `text` as a module that worker processes can import too."""
    modules = folder / "modules"
    modules.mkdir(exist_ok=True)
    (modules / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(modules))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(name)


class Stop(BaseException):
    """Stands for whatever ends a run between two commits."""


def stop_after(commits):
    """Answer a report that raises at its n-th call; the first is before the first commit."""
    calls = iter(range(commits + 1))

    def report(done, planned):
        if next(calls) == commits:
            raise Stop

    return report


def test_arrays_are_stacked_by_seed(walk, tmp_path):
    run = execute(walk, walk.Config(), out=tmp_path / "w.h5")
    assert run.arrays["x"].shape == (6, 4)
    assert run.arrays["a/seed"].tolist() == run.arrays["seeds"].tolist() == list(range(6))
    assert run.arrays["a/seed"].dtype == np.int8
    assert run.summary == {"mean": run.arrays["x"].mean(), "nan": None}
    assert run.config == {"N": 4, "fail": -1, "seeds": 6}
    held = Run.load(tmp_path / "w.h5", complete=True)
    assert held.kind == "walk"
    assert held.summary == run.summary


def test_rounds_are_stacked_below_seeds_and_carry_their_state(rounds):
    run = execute(rounds, rounds.Config())
    assert run.arrays["x"].shape == (6, 3, 4)
    assert run.arrays["t"].tolist() == [[0, 1, 2]] * 6
    steps = np.diff(run.arrays["x"], axis=1, prepend=0)
    assert abs(steps).min() > 0
    assert len(np.unique(steps)) == steps.size  # no stream was used twice


@pytest.mark.parametrize("name", ["walk", "rounds", "federation"])
def test_an_interrupted_run_resumes_to_the_same_bytes(name, request, tmp_path):
    """After every single commit in turn; the file is readable and incomplete each time."""
    module = request.getfixturevalue(name)
    config = module.Config(seeds=3)
    whole, out = tmp_path / "whole.h5", tmp_path / "broken.h5"
    execute(module, config, out=whole)
    commits = 0
    while not out.exists() or not Run.load(out).complete:
        with pytest.raises(Stop):
            execute(module, config, out=out, resume=True, report=stop_after(1))
        commits += 1
        if not Run.load(out).complete:
            assert out.read_bytes() != whole.read_bytes()
            assert Run.load(out).summary == {}
    assert commits == {"walk": 3, "rounds": 9, "federation": 15}[name]
    assert not out.with_name("broken.h5.states").exists()
    assert out.read_bytes() == whole.read_bytes()
    assert execute(module, config, out=out, resume=True).complete


def test_workers_give_the_same_bytes(rounds, tmp_path):
    config = rounds.Config(seeds=4)
    one, two = tmp_path / "one.h5", tmp_path / "two.h5"
    execute(rounds, config, out=one)
    with pytest.raises(Stop):
        execute(rounds, config, out=two, workers=2, report=stop_after(5))
    assert not Run.load(two).complete
    execute(rounds, config, out=two, workers=2, resume=True)
    assert two.read_bytes() == one.read_bytes()


@pytest.mark.parametrize("options", [{"memory": 0}, {"workers": 2}, {"memory": 100, "workers": 2}])
def test_where_the_states_of_clients_are_changes_no_byte(federation, tmp_path, options):
    config = federation.Config(seeds=3)
    one, two = tmp_path / "one.h5", tmp_path / "two.h5"
    execute(federation, config, out=one)
    with pytest.raises(Stop):
        execute(federation, config, out=two, report=stop_after(4), **options)
    assert list(tmp_path.glob("two.h5.states/*.state"))
    execute(federation, config, out=two, resume=True, **options)
    assert two.read_bytes() == one.read_bytes()
    assert sorted(p.name for p in tmp_path.glob("*.h5*")) == ["one.h5", "two.h5"]
    again = execute(federation, config, **options)
    np.testing.assert_array_equal(again.arrays["total"], Run.load(one).arrays["total"])


def test_a_commit_writes_the_states_that_are_new(federation, tmp_path):
    """Four of six clients took part, so a commit adds four files, the server's and its word."""
    config, out = federation.Config(seeds=1), tmp_path / "f.h5"
    folder = tmp_path / "f.h5.states"
    before = {}
    for _ in range(4):
        with pytest.raises(Stop):
            execute(federation, config, out=out, resume=True, report=stop_after(1))
        after = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
        kept = before.keys() & after.keys()
        assert all(before[name] == after[name] for name in kept)
        assert len(after.keys() - before.keys()) <= 4 + 2 + 2  # those late are written each time
        before = after
    assert len(before) >= 6


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_state_that_is_damaged_is_told_before_anything_runs(federation, tmp_path, damage):
    out = tmp_path / "f.h5"
    with pytest.raises(Stop):
        execute(federation, federation.Config(seeds=1), out=out, report=stop_after(2))
    path = sorted((tmp_path / "f.h5.states").iterdir())[0]
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.unlink()
    with pytest.raises(RunFileError, match=rf"{path.name}: .*the run must start anew") as error:
        execute(federation, federation.Config(seeds=1), out=out, resume=True)
    assert "\n" not in str(error.value)
    assert not Run.load(out).complete


def test_leftovers_of_a_killed_run_are_removed(federation, tmp_path):
    out, folder = tmp_path / "f.h5", tmp_path / "f.h5.states"
    with pytest.raises(Stop):
        execute(federation, federation.Config(seeds=1), out=out, report=stop_after(2))
    held = len(list(folder.iterdir()))
    for name in ("00009999.state", ".00009999-abcd1234.state"):  # before the run file, and within
        (folder / name).write_bytes(b"half of it")
    with pytest.raises(Stop):
        execute(federation, federation.Config(seeds=1), out=out, resume=True, report=stop_after(0))
    left = [path.name for path in folder.iterdir()]
    assert len(left) == held
    assert not [name for name in left if "9999" in name]
    execute(federation, federation.Config(seeds=1), out=out, resume=True)
    folder.mkdir()
    (folder / "00000001.state").touch()  # killed between the last commit and the removal
    execute(federation, federation.Config(seeds=1), out=out, resume=True)
    assert not folder.exists()


def test_an_unfinished_run_of_the_older_format_is_shown_but_not_resumed(rounds, tmp_path):
    out = tmp_path / "old.h5"
    arrays = {
        "seeds": np.arange(0),
        "unfinished/0/state/here": np.ones(4),
        "unfinished/0/rounds/x": np.ones((1, 4)),
    }
    config = {"N": 4, "fail": -1, "seeds": 6}
    Run("rounds", config, arrays, {}, committed=0, planned=6).save(out)
    assert Run.load(out).arrays.keys() == arrays.keys()
    with pytest.raises(RunFileError, match="begun by an older hopfed"):
        execute(rounds, rounds.Config(), out=out, resume=True)


def test_fast_rounds_are_not_held_up_by_commits(rounds, tmp_path, monkeypatch):
    writes = []
    save = Run.save
    monkeypatch.setattr(Run, "save", lambda *a: (writes.append(1), save(*a)))
    monkeypatch.setattr(_ledger, "SHARE", 1e-9)
    execute(rounds, rounds.Config(seeds=2), out=tmp_path / "a.h5")
    assert len(writes) == 1 + 2  # the empty file, and every seed
    monkeypatch.setattr(_ledger, "SHARE", 1e9)
    execute(rounds, rounds.Config(seeds=2), out=tmp_path / "b.h5")
    assert len(writes) == 3 + 1 + 6
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_a_run_grows_by_seeds_and_never_shrinks(walk, tmp_path):
    out, whole = tmp_path / "w.h5", tmp_path / "whole.h5"
    execute(walk, walk.Config(seeds=2), out=out)
    execute(walk, walk.Config(seeds=5), out=out, resume=True)
    execute(walk, walk.Config(seeds=5), out=whole)
    assert out.read_bytes() == whole.read_bytes()
    with pytest.raises(ArgumentError, match="seeds must be at least 5"):
        execute(walk, walk.Config(seeds=4), out=out, resume=True)


def test_a_seed_that_fails_keeps_the_others(walk, tmp_path):
    out = tmp_path / "w.h5"
    with pytest.raises(ArgumentError, match="seed must be one that works"):
        execute(walk, walk.Config(fail=2), out=out)
    assert Run.load(out).arrays["seeds"].tolist() == [0, 1]
    with pytest.raises(HopfedError, match="seed must be one that works, got 2"):
        execute(walk, walk.Config(fail=2), workers=2)


def test_what_cannot_be_resumed(walk, rounds, tmp_path, monkeypatch):
    out = tmp_path / "w.h5"
    execute(walk, walk.Config(seeds=1), out=out)
    with pytest.raises(ArgumentError, match="a new file, or one to continue with --resume"):
        execute(walk, walk.Config(seeds=1), out=out)
    with pytest.raises(RunFileError, match="made with N = 4, not 5"):
        execute(walk, walk.Config(N=5), out=out, resume=True)
    with pytest.raises(RunFileError, match="holds a run of walk, not of rounds"):
        execute(rounds, rounds.Config(), out=out, resume=True)
    monkeypatch.setattr("hopfed.experiments._ledger.provenance", lambda: {"numpy": "9.9"})
    with pytest.raises(RunFileError, match=r"made with numpy .*, here is 9\.9"):
        execute(walk, walk.Config(), out=out, resume=True)
    out.write_bytes(out.read_bytes()[:100])
    with pytest.raises(RunFileError, match="not a readable run file"):
        execute(walk, walk.Config(), out=out, resume=True)


def test_bad_arguments_are_found_before_anything_runs(walk, tmp_path):
    with pytest.raises(ArgumentError, match="workers must be at least 1"):
        execute(walk, walk.Config(), workers=0)
    with pytest.raises(ArgumentError, match="in a folder that exists"):
        execute(walk, walk.Config(), out=tmp_path / "absent" / "w.h5")


def test_arrays_of_unequal_shapes_are_an_error():
    ledger = Ledger("toy", {"seeds": 2}, lambda arrays: {})
    ledger.commit(0, {"x": np.zeros(2)})
    with pytest.raises(ValueError, match="'x' must have one shape"):
        ledger.commit(1, {"x": np.zeros(3)})


def test_a_state_without_arrays_is_still_a_state(tmp_path):
    def fresh():
        path = tmp_path / "s.h5"
        return Ledger("toy", {"seeds": 1}, lambda arrays: {}, by_round=True, path=path)

    fresh().commit(0, {"x": np.zeros(2)}, {})
    ledger = fresh()
    ledger.resume()
    assert ledger.position(0) == (1, {})


BEGIN = (
    "import sys; sys.path.insert(0, sys.argv[1])\n"
    "import {name}\n"
    "from hopfed.experiments import _ledger\n"
    "from hopfed.experiments._execute import execute\n"
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
    config = module.Config(N=50_000, seeds=8)
    whole, out = tmp_path / "whole.h5", tmp_path / "killed.h5"
    execute(module, config, out=whole)
    moments = random.Random(seed)
    for _ in range(kills):
        before = out.stat().st_mtime_ns if out.exists() else 0
        process = start(tmp_path, out, module.__name__, "N=50_000, seeds=8")
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
    process = start(tmp_path, out, "rounds", "N=50_000, seeds=500", workers=2)
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
    text = WALK.replace("raise ArgumentError", "os._exit(1) or ArgumentError")
    module = make(tmp_path, monkeypatch, "dying", text)
    with pytest.raises(HopfedError, match="a worker process died"):
        execute(module, module.Config(fail=1), out=tmp_path / "w.h5", workers=2)
    assert not Run.load(tmp_path / "w.h5").complete


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
