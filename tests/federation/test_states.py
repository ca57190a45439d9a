"""States in memory and in files: the budget, what is written when, what is left behind."""

import os
import pickle
import stat

import numpy as np
import pytest
from helpers import assert_close
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hopfed.errors import DataError, RunFileError
from hopfed.federation import states
from hopfed.federation.packing import pack, unpack
from hopfed.federation.states import Held, StateMap, StateStore

KINDS = ("<f4", "<f8", "<i8", "|u1", "|b1", "<c8", "|S7")
ARRAYS = st.sampled_from(KINDS).flatmap(
    lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
)


def state(value, size=100):
    return {"w": np.full(size, float(value)), "steps": np.array(value)}


def in_memory(held):
    return {c for c, h in held.items() if h.arrays is not None}


@given(st.dictionaries(st.text(max_size=5), ARRAYS, max_size=4))
def test_packed_arrays_come_back_as_they_were(arrays):
    got = unpack(pack(arrays))
    assert list(got) == list(arrays)
    for name, array in arrays.items():
        assert got[name].tobytes() == array.tobytes()
        assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape)


@pytest.mark.parametrize("cut", [0, 7, 15, 40, 300, -1])
def test_packed_arrays_that_are_cut_or_foreign_are_refused(cut):
    data = pack({"w": np.zeros(64, np.float32), "x": np.zeros(16, np.float32)})
    with pytest.raises(DataError):
        unpack(data[:cut])
    with pytest.raises(DataError):
        unpack(data[::-1].copy())
    with pytest.raises(DataError, match="cannot be kept"):
        pack({"w": np.array([None])})


def test_what_was_used_longest_ago_goes_to_a_file_and_comes_back(tmp_path):
    store = StateStore(tmp_path / "s", budget=2 * 808)
    held = StateMap.of({c: state(c) for c in range(3)})
    store.keep(held)
    assert in_memory(held.held) == {1, 2}
    assert held[1]["steps"] == 1
    assert_close(held[0]["w"], state(0)["w"])
    assert in_memory(held.held) == {0, 1}  # 2 was used longest ago
    assert store.nbytes == 2 * 808
    written = {p.name: p.stat().st_mtime_ns for p in store.folder.iterdir()}
    for c in (0, 1, 2, 0, 1, 2):
        assert held[c]["steps"] == c
    after = {p.name: p.stat().st_mtime_ns for p in store.folder.iterdir()}
    assert len(after) == 3
    assert written.items() <= after.items()  # a state is written once


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=30), st.integers(0, 5))
def test_a_store_is_a_dict_whatever_its_budget(steps, room):
    store, plain, held = StateStore(budget=room * 808), {}, StateMap()
    for value, (client, write) in enumerate(steps):
        if write:
            plain[client] = value
            held = held.replaced({client: state(value)})
            store.keep(held)
        assert list(held) == list(plain)
        if client in plain:
            assert held[client]["steps"] == plain[client]
            assert (held[client]["w"] == plain[client]).all()
        assert store.nbytes <= room * 808
        assert store.nbytes == sum(h.nbytes for h in held.held.values() if h.arrays is not None)


def test_states_nobody_refers_to_leave_no_file_and_no_memory(tmp_path):
    store = StateStore(tmp_path / "s", budget=0)
    first = StateMap.of({c: state(c) for c in range(3)})
    store.keep(first)
    second = first.replaced({0: state(9)})
    store.keep(second)
    assert len(list(store.folder.iterdir())) == 4  # the first is still held
    assert first[0]["steps"] == 0
    del first
    store.keep(second)
    assert len(list(store.folder.iterdir())) == 3
    assert [int(second[c]["steps"]) for c in range(3)] == [9, 1, 2]


def test_small_states_are_in_the_run_file_and_large_ones_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(states, "OWN_FILE", 1000)
    store = StateStore(tmp_path / "s")
    parts = {"a": Held(state(1)), "b": Held(state(2, 1000)), "c": Held({})}
    data = store.freeze(parts)
    assert len(list(store.folder.iterdir())) == 1
    again = store.freeze(parts | {"a": Held(state(3))})
    assert len(list(store.folder.iterdir())) == 1  # the large one is as it was
    got = StateStore(tmp_path / "s").thaw(again)
    assert list(got) == ["a", "b", "c"]
    assert got["b"].arrays is None
    assert got["a"].read()["steps"] == 3
    assert_close(got["b"].read()["w"], state(2, 1000)["w"])
    assert got["c"].read() == {}
    assert len(data) < 8000 < parts["b"].nbytes


@pytest.mark.parametrize(
    ("damage", "words"), [("missing", "missing"), ("cut", "5 of its 960 bytes")]
)
def test_a_file_that_is_missing_or_cut_is_one_line(tmp_path, monkeypatch, damage, words):
    monkeypatch.setattr(states, "OWN_FILE", 0)
    store = StateStore(tmp_path / "s")
    data = store.freeze({"a": Held(state(1))})
    (path,) = store.folder.iterdir()
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:5])
    else:
        path.unlink()
    with pytest.raises(RunFileError, match=words) as error:
        StateStore(tmp_path / "s").thaw(data)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_state_travels_by_the_name_of_its_file(tmp_path):
    store = StateStore(tmp_path / "s", budget=0)
    held = StateMap.of({0: state(1, 10_000)})
    assert len(pickle.dumps(held)) > 80_000
    store.keep(held)
    sent = pickle.dumps(held)
    assert len(sent) < 1000
    assert pickle.loads(sent)[0]["steps"] == 1


def test_files_of_states_are_for_their_owner_alone(tmp_path):
    """Examples may be among the arrays of a state."""
    before = os.umask(0)
    try:
        store = StateStore(tmp_path / "states", budget=100)
        store.keep(StateMap.of({c: state(c) for c in range(3)}))
    finally:
        os.umask(before)
    files = list((tmp_path / "states").iterdir())
    assert files
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "states").stat().st_mode) == 0o700
