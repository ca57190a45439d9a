"""Running experiments: what comes out, in what order, on how many workers, and bad arguments."""

import numpy as np
import pytest
from toy_experiments import Stop, stop_after

from hopfed.errors import ArgumentError, HopfedError
from hopfed.experiments import ledger as _ledger
from hopfed.experiments.runner import execute
from hopfed.experiments.ledger import Ledger
from hopfed.runs import Run


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


def test_workers_give_the_same_bytes(rounds, tmp_path):
    config = rounds.Config(seeds=4)
    one, two = tmp_path / "one.h5", tmp_path / "two.h5"
    execute(rounds, config, out=one)
    with pytest.raises(Stop):
        execute(rounds, config, out=two, workers=2, report=stop_after(5))
    assert not Run.load(two).complete
    execute(rounds, config, out=two, workers=2, resume=True)
    assert two.read_bytes() == one.read_bytes()


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


def test_a_seed_that_fails_keeps_the_others(walk, tmp_path):
    out = tmp_path / "w.h5"
    with pytest.raises(ArgumentError, match="seed must be one that works"):
        execute(walk, walk.Config(fail=2), out=out)
    assert Run.load(out).arrays["seeds"].tolist() == [0, 1]
    with pytest.raises(HopfedError, match="seed must be one that works, got 2"):
        execute(walk, walk.Config(fail=2), workers=2)


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


def test_seeds_begin_where_one_likes(walk, tmp_path, hopfed):
    late = execute(walk, walk.Config(seeds=3), first=100, out=tmp_path / "late.h5")
    assert late.arrays["seeds"].tolist() == [100, 101, 102]
    assert late.arrays["a/seed"].tolist() == [100, 101, 102]
    assert late.config["first_seed"] == 100
    with pytest.raises(ArgumentError, match="from 100 on"):
        execute(walk, walk.Config(seeds=4), out=tmp_path / "late.h5", resume=True)
    more = execute(walk, walk.Config(seeds=4), first=100, out=tmp_path / "late.h5", resume=True)
    assert more.arrays["x"].shape == (4, 4)
    np.testing.assert_array_equal(more.arrays["x"][:3], late.arrays["x"])

    out = tmp_path / "mp.h5"
    asked = ("run", "mp", "--preset", "quick", "--seeds", "100:102", "--out", out)
    assert hopfed(*asked)[0] == 0
    assert Run.load(out).arrays["seeds"].tolist() == [100, 101]
    assert hopfed("show", out)[0] == 0
    assert hopfed("run", "mp", "--out", out, "--resume")[0] == 0
    assert hopfed("run", "mp", "--out", out, "--resume", "--seeds", "100:103")[0] == 0
    assert Run.load(out).arrays["seeds"].tolist() == [100, 101, 102]
    for wrong in ("5:5", "7:3", "-1:2", "a:b", "3:"):
        status, _, errors = hopfed("run", "mp", "--seeds", wrong)
        assert status == 2
        assert len(errors.splitlines()) == 1
