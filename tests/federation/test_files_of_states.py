"""Files of states take no other file away, and lead to none."""

import numpy as np
import pytest

from hopfed.errors import RunFileError
from hopfed.experiments.ledger import Ledger
from hopfed.federation.states import OWN_FILE, Held, StateMap, StateStore


def test_states_of_a_run_take_no_other_file_away(tmp_path):
    others = tmp_path / "others"
    others.mkdir(mode=0o755)
    kept = [others / "00000001.state", others / "of the union.state"]
    for path in kept:
        path.write_text("mine")
    (tmp_path / "run.h5.states").symlink_to(others)
    with pytest.raises(RunFileError, match="a link"):
        Ledger("fl", {"seeds": 1}, dict, by_round=True, rounds=1, path=tmp_path / "run.h5")
    store = StateStore(others, budget=0)
    (others / "00000002.state").symlink_to(tmp_path / "precious")
    (tmp_path / "precious").write_text("mine")
    store._count = 1
    store.keep(StateMap.of({0: {"w": np.zeros(10)}}))
    assert (tmp_path / "precious").read_text() == "mine"
    store.close()
    assert list(others.iterdir()) == [kept[1]]


def test_a_state_that_is_a_link_is_not_followed(tmp_path):
    """It led a run to the rows of another owner's run, or to any file of that name."""
    store = StateStore(tmp_path / "states", budget=0)
    frozen = store.freeze({"a": Held({"x": np.zeros(OWN_FILE, np.uint8)})})
    (state,) = (tmp_path / "states").iterdir()
    elsewhere = state.rename(tmp_path / "elsewhere.h5")
    state.symlink_to(elsewhere)
    with pytest.raises(RunFileError, match="a link"):
        store.thaw(frozen)
