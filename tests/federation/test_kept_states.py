"""States kept for a server: it cannot name a way out of their folder, nor fill the disk."""

import numpy as np
import pytest
from asking import N, ask, method, site

from hopfed.errors import DataError, LocalError
from hopfed.federation.machines.node import KEPT, RUNS, KeptStates
from hopfed.federation.packing import unpack

STATE = {"rows": np.arange(50)}
AWAY = ["..", "", "../x", "a/b", "/etc/passwd", ".hidden", "x" * 81, "a\0b", "\u202e"]


@pytest.mark.parametrize("run", AWAY, ids=lambda run: repr(run[:20]))
def test_a_run_cannot_name_a_folder_outside(tmp_path, run):
    inner = tmp_path / "site" / "states"
    inner.parent.mkdir()
    (tmp_path / "site" / "0").mkdir()
    (tmp_path / "site" / "0" / "mine").write_text("kept")
    kept = KeptStates(inner)
    for act in (
        lambda: kept.put(run, 0, 0, 0, STATE),
        lambda: kept.get(run, 0, b"x"),
        lambda: kept.drop(run, 0),
    ):
        with pytest.raises(DataError, match="cannot be the name of a run") as error:
            act()
        assert str(error.value).isprintable()
        assert len(str(error.value)) < 400
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["0", "mine", "site"]


def test_a_server_that_invents_runs_and_clients_does_not_fill_the_disk(tmp_path):
    kept = KeptStates(tmp_path / "states")
    names = {}
    for i in range(30):
        for client in range(i % 7):
            names[i, client] = kept.put(f"run-{i}", client, i, 0, STATE | {"n": np.array(i)})
    assert len(list((tmp_path / "states").iterdir())) == RUNS
    assert all(len(list(run.iterdir())) <= RUNS for run in (tmp_path / "states").iterdir())
    for t in range(3 * KEPT):
        name = kept.put("run-29", 0, t, 0, STATE | {"n": np.array(t)})
    assert len(list((tmp_path / "states" / "run-29" / "0").iterdir())) == KEPT
    assert len(kept._held) <= KEPT
    assert int(KeptStates(tmp_path / "states").get("run-29", 0, name)["n"]) == 3 * KEPT - 1
    with pytest.raises(DataError, match="no longer has the state"):
        kept.get("run-0", 0, names[27, 0])


def test_no_state_holds_rows(tmp_path):
    node = site(tmp_path)
    first = ask(node, method(2), base=b"")
    basis = {"basis": np.eye(N, 2, dtype="f4")}
    assert not ask(site(tmp_path), method(2), 0, 1, first.state, basis).fault, "started anew"
    for path in tmp_path.rglob("*.state"):
        assert set(unpack(np.fromfile(path, np.uint8))) == {"plasticity", "salt"}


@pytest.mark.parametrize("place", ["states", "states/run", "states/run/0"])
def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path, place):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("kept")
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).symlink_to(outside)
    kept = KeptStates(tmp_path / "states")
    with pytest.raises(LocalError, match="a link is in its place"):
        kept.put("run", 0, 0, 0, STATE)
    kept.drop("run", 0)
    assert [p.name for p in outside.iterdir()] == ["mine"]


def test_a_state_that_somebody_changed_is_not_used(tmp_path):
    name = KeptStates(tmp_path / "states").put("run", 0, 0, 0, STATE)
    (path,) = (tmp_path / "states").rglob("*.state")
    for damaged in (
        b"",
        b"garbage",
        path.read_bytes()[:-70],
        path.read_bytes().replace(b"\7", b"\1"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="no longer has the state"):
            KeptStates(tmp_path / "states").get("run", 0, name)
