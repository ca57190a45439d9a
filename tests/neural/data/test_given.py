"""Datasets that are given as arrays: they have a name of their own, in runs and in run files."""

import numpy as np
import pytest
from asked import short_run
from stand_ins import one_line

from hopfed.errors import ArgumentError, DataError, RunFileError
from hopfed.experiments import fl
from hopfed.experiments.runner import execute
from hopfed.neural.data import from_arrays, load
from hopfed.neural.data.dataset import as_named, given
from hopfed.neural.training.task import TaskSpec, task_of
from hopfed.runs import Run

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, 120)
ROWS = RNG.normal(size=(120, 4)) + LABELS[:, None]


def config(data):
    return short_run(data=data, clients=2, rounds=1, partition="iid")


def test_arrays_give_what_a_file_of_them_gives(tmp_path):
    np.savez(tmp_path / "own.npz", x=ROWS, y=LABELS)
    ours = execute(fl, config((ROWS, LABELS))).summary
    assert ours == execute(fl, config(str(tmp_path / "own.npz"))).summary
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
    with pytest.raises(ArgumentError, match="data must be a name, a Dataset, arrays"):
        fl.Config(data=7)
    with pytest.raises(ArgumentError, match="got ndarray"):
        TaskSpec(data=ROWS)
    with pytest.raises(DataError, match="arrays: there are 120 inputs for 6 labels"):
        fl.Config(data=(ROWS, LABELS[:6]))
    with pytest.raises(DataError, match=r"only to the process that got them: .* an \.npz file"):
        load("arrays:mine:0123456789abcdef")


MEASURED = np.random.default_rng(0).normal(size=(300, 4))


@pytest.mark.parametrize("kind", ["object", "category"])
def test_columns_of_pandas_are_labels(kind):
    pandas = pytest.importorskip("pandas")
    data = from_arrays(MEASURED, pandas.Series(["ash", "yew"] * 150, dtype=kind))
    assert data.class_names == ("ash", "yew")


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        (MEASURED[:, 0].round(1), "for classes; numbers can be binned, as by numpy.digitize"),
        ([f"plant {k}" for k in range(300)], "300 different values in 300 rows"),
        (np.arange(300) % 80 * 9, "80 different values in 300 rows"),  # measured whole numbers
        (np.array([None, "yew"] * 150, dtype=object), "label of row 0 is missing"),
        ([0.0, np.nan] * 150, "label of row 1 is missing"),
    ],
)
def test_labels_that_are_no_classes_are_refused(labels, why):
    with pytest.raises(DataError, match=why) as error:
        from_arrays(MEASURED, labels)
    assert one_line(error)
    assert from_arrays(MEASURED, np.arange(300) % 80).classes == 80


def test_tensors_splits_and_datasets_of_pytorch_are_given_too():
    torch = pytest.importorskip("torch")
    x, y, split = torch.as_tensor(ROWS), torch.as_tensor(LABELS), np.arange(120) % 5 > 0
    one = given(as_named((x.float(), y, split)))
    assert one.train.tolist() == split.tolist()
    words = np.where(split, "train", "test").tolist()
    assert as_named((ROWS.astype(np.float32), LABELS, words)) == as_named((x.float(), y, split))
    pairs = torch.utils.data.TensorDataset(torch.rand(12, 3, 8, 8), torch.arange(12) % 4)
    data = given(as_named(pairs))
    assert (data.shape, data.name, data.classes) == ((3, 8, 8), "TensorDataset", 4)
    np.testing.assert_array_equal(data.inputs, pairs.tensors[0])
    with pytest.raises(DataError, match="no pairs of equal shape"):
        as_named(torch.utils.data.TensorDataset(torch.rand(12, 3)))
