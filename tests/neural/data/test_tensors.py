"""A partition on a device: normalised, in batches, augmented."""

import numpy as np
import pytest
import torch
from stand_ins import one_line, plays

from hopfed.errors import BackendError
from hopfed.neural.data import Dataset, load, partition
from hopfed.neural.data.tensors import ON_CPU, augmented, generator, to_tensors


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
    x, _ = tensors.batch(tensors.rows(np.arange(5)), generator(0))
    assert x.dtype == torch.int64
    np.testing.assert_array_equal(x.numpy(), data.inputs[:5])
    for device in ("nowhere", "cuda:99"):
        with pytest.raises(BackendError, match=f"device {device}: ") as caught:
            to_tensors(partition("role", data), device)
        assert one_line(caught)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_crops_are_shifts_and_flips_are_mirrors(dtype):
    image = torch.arange(1, 61, dtype=dtype).reshape(2, 5, 6)
    got = augmented(image.expand(2000, 2, 5, 6), generator(0, "a"))
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
