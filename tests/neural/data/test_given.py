"""Datasets that are given as arrays have a name of their own; tensors of a dataset on a device."""

import numpy as np
import pandas
import pytest
import torch
from asked import short_run
from stand_ins import one_line, plays
from torch.utils.data import TensorDataset

from hopfed.errors import ArgumentError, BackendError, DataError, RunFileError
from hopfed.experiments import fl
from hopfed.experiments.machinery.runner import execute
from hopfed.neural.data import Dataset, from_arrays, load, partition
from hopfed.neural.data.dataset import kept_dataset, name_dataset
from hopfed.neural.data.tensors import ON_CPU, augment_images, to_tensors, torch_generator
from hopfed.neural.training.task import TaskSpec, task_of
from hopfed.runs import Run

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, 120)
ROWS = RNG.normal(size=(120, 4)) + LABELS[:, None]


def config(data):
    return short_run(data=data, clients=2, rounds=1, partition="iid")


def test_arrays_give_what_a_file_of_them_gives(tmp_path):
    np.savez(tmp_path / "own.npz", x=ROWS, y=LABELS)
    words = np.array(["ash", "oak", "yew"])[LABELS]
    given = (ROWS, LABELS), str(tmp_path / "own.npz"), (ROWS.tolist(), words.tolist())
    one, *others = (execute(fl, config(data)).summary for data in given)
    assert others == [one, one]


def test_a_run_is_continued_with_the_same_arrays_only(tmp_path):
    out = tmp_path / "own.h5"
    execute(fl, config((ROWS, LABELS)), out=out)
    assert Run.load(out).config["data"] == name_dataset((ROWS, LABELS))
    execute(fl, config((ROWS.copy(), LABELS.copy())), out=out, resume=True)
    other = ROWS.copy()
    other[0, 0] += 1
    with pytest.raises(RunFileError, match="made with data = arrays:arrays:"):
        execute(fl, config((other, LABELS)), out=out, resume=True)


def test_what_was_given_does_not_change_with_the_arrays():
    images = np.zeros((6, 5, 4), np.uint8)
    name = name_dataset((images, LABELS[:6]))
    images[:] = 1
    assert not kept_dataset(name).inputs.any()
    assert name_dataset((images, LABELS[:6])) != name
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


def test_tensors_splits_columns_and_datasets_of_pytorch_are_given_too():
    x, y, split = torch.as_tensor(ROWS), torch.as_tensor(LABELS), np.arange(120) % 5 > 0
    one = kept_dataset(name_dataset((x.float(), y, split)))
    assert one.train.tolist() == split.tolist()
    words = np.where(split, "train", "test").tolist()
    assert name_dataset((ROWS.astype(np.float32), LABELS, words)) == name_dataset(
        (x.float(), y, split)
    )
    for kind in ("object", "category"):
        column = pandas.Series(["ash", "yew"] * 150, dtype=kind)
        assert from_arrays(MEASURED, column).class_names == ("ash", "yew")
    pairs = TensorDataset(torch.rand(12, 3, 8, 8), torch.arange(12) % 4)
    data = kept_dataset(name_dataset(pairs))
    assert (data.shape, data.name, data.classes) == ((3, 8, 8), "TensorDataset", 4)
    np.testing.assert_array_equal(data.inputs, pairs.tensors[0])
    with pytest.raises(DataError, match="no pairs of equal shape"):
        name_dataset(TensorDataset(torch.rand(12, 3)))


# On a device: normalised, in batches, augmented


def test_tensors_hold_what_the_dataset_holds():
    part = partition("iid", load("digits"), 5)
    tensors = to_tensors(part)
    x, y = tensors.batch(tensors.rows(part.test[3]))
    assert (x.dtype, y.dtype) == (torch.float32, torch.int64)
    np.testing.assert_array_equal(y.numpy(), part.dataset.labels[part.test[3]])
    pixels = x * tensors.std + tensors.mean
    np.testing.assert_allclose(pixels.numpy(), part.dataset.inputs[part.test[3]], atol=1e-4)
    rows = tensors.rows(np.stack([part.train[0][:7], part.train[1][:7]]))
    x, y = tensors.batch(rows)
    assert x.shape == (2, 7, 1, 8, 8)
    assert torch.equal(x[1], tensors.batch(rows[1])[0])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_images_are_normalised_by_training_images_alone(dtype):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 100, size=(60, 3, 4, 4)).astype(dtype)
    images[:, 2] = 7
    part = partition("iid", Dataset("made", images, np.arange(60) % 2, ("a", "b")), 4)
    train = np.concatenate(part.train)
    images[np.setdiff1d(np.arange(60), train)] = 200
    tensors = to_tensors(part)
    x = tensors.batch(tensors.rows(train))[0].double()
    np.testing.assert_allclose(x.mean(dim=(0, 2, 3)), 0, atol=1e-6)
    np.testing.assert_allclose(x.std(dim=(0, 2, 3), correction=0), (1, 1, 0), atol=1e-6)


@pytest.mark.parametrize("count", [0, 2 * ON_CPU + 5])
def test_batches_are_all_examples_in_order(count):
    part = partition("iid", load("digits"), 5)
    tensors, index = to_tensors(part), np.random.default_rng(0).permutation(1797)[:count]
    made = list(tensors.batches(index))
    assert len(made) == max(1, -(-count // ON_CPU))
    assert max(len(y) for _, y in made) <= ON_CPU
    x, y = tensors.batch(tensors.rows(index))
    assert torch.equal(torch.cat([x for x, _ in made]), x)
    assert torch.equal(torch.cat([y for _, y in made]), y)


def test_tokens_stay_whole_numbers_and_bad_devices_are_one_line():
    data = plays(np.random.default_rng(0))
    tensors = to_tensors(partition("role", data))
    x, _ = tensors.batch(tensors.rows(np.arange(5)), torch_generator(0))
    assert x.dtype == torch.int64
    np.testing.assert_array_equal(x.numpy(), data.inputs[:5])
    for device in ("nowhere", "cuda:99"):
        with pytest.raises(BackendError, match=f"device {device}: ") as caught:
            to_tensors(partition("role", data), device)
        assert one_line(caught)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_crops_are_shifts_and_flips_are_mirrors(dtype):
    image = torch.arange(1, 61, dtype=dtype).reshape(2, 5, 6)
    got = augment_images(image.expand(2000, 2, 5, 6), torch_generator(0, "a"))
    padded = [torch.nn.functional.pad(x, [4] * 4) for x in (image, image.flip(-1))]
    known = {
        tuple(shown[:, i : i + 5, j : j + 6].flatten().tolist()): (k, i, j)
        for k, shown in enumerate(padded)
        for i in range(9)
        for j in range(9)
    }
    seen = [known[tuple(one.flatten().tolist())] for one in got]
    assert len(set(seen)) == 162  # a draw misses one of them with probability 7e-4
    assert 900 < sum(k for k, _, _ in seen) < 1100
