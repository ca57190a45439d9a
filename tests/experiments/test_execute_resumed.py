"""Runs that stop between two commits and are resumed, with the states of their clients."""

import h5py
import numpy as np
import pytest
from toy_experiments import Stop, stop_after

from hopfed.errors import ArgumentError, RunFileError
from hopfed.experiments.runner import execute
from hopfed.experiments.ledger import Ledger
from hopfed.runs import Run


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


def test_a_run_grows_by_seeds_and_never_shrinks(walk, tmp_path):
    out, whole = tmp_path / "w.h5", tmp_path / "whole.h5"
    execute(walk, walk.Config(seeds=2), out=out)
    execute(walk, walk.Config(seeds=5), out=out, resume=True)
    execute(walk, walk.Config(seeds=5), out=whole)
    assert out.read_bytes() == whole.read_bytes()
    with pytest.raises(ArgumentError, match="seeds must be at least 5"):
        execute(walk, walk.Config(seeds=4), out=out, resume=True)


def test_what_cannot_be_resumed(walk, rounds, tmp_path, monkeypatch):
    out = tmp_path / "w.h5"
    execute(walk, walk.Config(seeds=1), out=out)
    with pytest.raises(ArgumentError, match="a new file, or one to continue with --resume"):
        execute(walk, walk.Config(seeds=1), out=out)
    with pytest.raises(RunFileError, match="made with N = 4, not 5"):
        execute(walk, walk.Config(N=5), out=out, resume=True)
    with pytest.raises(RunFileError, match="holds a run of walk, not of rounds"):
        execute(rounds, rounds.Config(), out=out, resume=True)
    monkeypatch.setattr("hopfed.experiments.ledger.provenance", lambda: {"numpy": "9.9"})
    with pytest.raises(RunFileError, match=r"made with numpy .*, here is 9\.9"):
        execute(walk, walk.Config(), out=out, resume=True)
    out.write_bytes(out.read_bytes()[:100])
    with pytest.raises(RunFileError, match="not a readable run file"):
        execute(walk, walk.Config(), out=out, resume=True)


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


def test_a_state_without_arrays_is_still_a_state(tmp_path):
    def fresh():
        path = tmp_path / "s.h5"
        return Ledger("toy", {"seeds": 1}, lambda arrays: {}, by_round=True, path=path)

    fresh().commit(0, {"x": np.zeros(2)}, {})
    ledger = fresh()
    ledger.resume()
    assert ledger.position(0) == (1, {})


# States of clients in files beside the run file


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


@pytest.mark.parametrize("damage", [lambda a: a[..., None], lambda a: np.full(a.shape, b"no")])
def test_rounds_of_another_shape_or_kind_are_refused(rounds, tmp_path, damage):
    out = tmp_path / "r.h5"
    with pytest.raises(Stop):
        execute(rounds, rounds.Config(), out=out, report=stop_after(1))
    with h5py.File(out, "r+") as file:
        held = file["unfinished/0/rounds"]
        name = sorted(held)[0]
        changed = damage(held[name][()])
        del held[name]
        held[name] = changed
    with pytest.raises(RunFileError, match=rf"cannot be used.*array '{name}' must") as error:
        execute(rounds, rounds.Config(), out=out, resume=True)
    assert "\n" not in str(error.value)
    with h5py.File(out) as file:
        np.testing.assert_array_equal(file[f"unfinished/0/rounds/{name}"][()], changed)


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
