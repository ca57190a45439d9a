"""Datasets that are given as arrays: they have a name of their own, in runs and in run files."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install hopfed[neural]")

from hopfed.errors import ArgumentError, DataError, HopfedError, RunFileError
from hopfed.experiments import fl
from hopfed.experiments.runner import execute
from hopfed.neural.data import from_arrays, load
from hopfed.neural.data.given import as_named, given
from hopfed.neural.training.task import TaskSpec, task_of
from hopfed.runs import Run

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, 120)
ROWS = RNG.normal(size=(120, 4)) + LABELS[:, None]


def config(data, **more):
    more = {"models": ("mlp:8",), "clients": 2, "rounds": 1, "partition": "iid"} | more
    return fl.Config(data=data, **more)


def test_arrays_give_what_a_file_of_them_gives(tmp_path):
    np.savez(tmp_path / "own.npz", x=ROWS, y=LABELS)
    filed, ours, whole = (
        execute(fl, config(data)).summary
        for data in (str(tmp_path / "own.npz"), (ROWS, LABELS), from_arrays(ROWS, LABELS))
    )
    assert ours == filed == whole
    words = np.array(["ash", "oak", "yew"])[LABELS]
    assert execute(fl, config((ROWS.tolist(), words.tolist()))).summary == ours


def test_a_run_is_continued_with_the_same_arrays_only(tmp_path):
    out = tmp_path / "own.h5"
    execute(fl, config((ROWS, LABELS)), out=out)
    assert Run.load(out).config["data"] == as_named((ROWS, LABELS))
    execute(fl, config((ROWS.copy(), LABELS.copy())), out=out, resume=True)
    other = ROWS.copy()
    other[0, 0] += 1
    with pytest.raises(RunFileError, match="made with data = arrays:arrays:"):
        execute(fl, config((other, LABELS)), out=out, resume=True)


def test_what_was_given_does_not_change_with_the_arrays():
    images = np.zeros((6, 5, 4), np.uint8)
    name = as_named((images, LABELS[:6]))
    images[:] = 1
    assert not given(name).inputs.any()
    assert as_named((images, LABELS[:6])) != name
    assert task_of(TaskSpec(data=load("digits"), clients=2)).classes == 10


def test_what_is_no_data_and_what_another_process_was_given():
    with pytest.raises(ArgumentError, match="data must be a name, a Dataset, or a pair of arrays"):
        fl.Config(data=7)
    with pytest.raises(ArgumentError, match="got ndarray"):
        TaskSpec(data=ROWS)
    with pytest.raises(DataError, match="arrays: there are 120 inputs for 6 labels"):
        fl.Config(data=(ROWS, LABELS[:6]))
    with pytest.raises(DataError, match="arrays: labels are numbers or words"):
        fl.Config(data=(ROWS, [None] * 120))
    with pytest.raises(DataError, match=r"only to the process that got them: .* an \.npz file"):
        load("arrays:mine:0123456789abcdef")


@pytest.mark.slow
def test_worker_processes_say_that_they_were_not_given_arrays():
    with pytest.raises(HopfedError, match="only to the process that got them"):
        execute(fl, config((ROWS, LABELS), seeds=2), workers=2)
