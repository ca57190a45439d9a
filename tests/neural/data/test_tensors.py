"""A partition on a device: normalised, in batches, augmented."""

import numpy as np
import pytest
from stand_ins import plays

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.errors import ArgumentError, BackendError  # noqa: E402
from hopfed.neural.data import Dataset, load, partition  # noqa: E402
from hopfed.neural.data.tensors import ON_CPU, Augment, generator, moments, to_tensors  # noqa: E402
from hopfed.neural.training import task  # noqa: E402


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
    data = Dataset("made", images, np.arange(60) % 2, ("a", "b"))
    part = partition("iid", data, 4)
    train = np.concatenate(part.train)
    held = np.setdiff1d(np.arange(60), train)
    images[held] = 200
    tensors = to_tensors(part)
    x = tensors.batch(tensors.rows(train))[0].double()
    np.testing.assert_allclose(x.mean(dim=(0, 2, 3)), 0, atol=1e-6)
    np.testing.assert_allclose(x.std(dim=(0, 2, 3), correction=0), (1, 1, 0), atol=1e-6)
    mean, std = moments(images, part.train)
    np.testing.assert_allclose(mean, images[train].mean(axis=(0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(std[:2], images[train].std(axis=(0, 2, 3))[:2], rtol=1e-6)


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


def test_tokens_stay_whole_numbers():
    data = plays(np.random.default_rng(0))
    tensors = to_tensors(partition("role", data))
    x, _ = tensors.batch(tensors.rows(np.arange(5)), Augment(), generator(0))
    assert x.dtype == torch.int64
    np.testing.assert_array_equal(x.numpy(), data.inputs[:5])


@pytest.mark.parametrize(
    ("data", "model", "message"),
    [
        (
            load("digits"),
            "lstm:8",
            "model must be any but lstm for the inputs of digits, got 'lstm",
        ),
        (
            plays(np.random.default_rng(0)),
            "lenet",
            "model must be lstm for the inputs of .*'lenet'",
        ),
    ],
)
def test_a_model_that_does_not_read_the_data_is_named(data, model, message, monkeypatch):
    monkeypatch.setattr(task, "load", lambda _: data)
    with pytest.raises(ArgumentError, match=message):
        task.task_of(task.TaskSpec(f"as {model}", "iid", 3, (model,)))


def test_bad_devices_and_a_missing_generator():
    part = partition("iid", load("digits"), 3)
    for device in ("nowhere", "cuda:99"):
        with pytest.raises(BackendError, match=f"device {device}: ") as caught:
            to_tensors(part, device)
        assert "\n" not in str(caught.value)
    tensors = to_tensors(part)
    with pytest.raises(ArgumentError, match="generator must be given with augment"):
        tensors.batch(tensors.rows(np.arange(3)), Augment())
    with pytest.raises(ArgumentError, match="padding must be 0 or more"):
        Augment(padding=-1)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_crops_are_shifts_and_flips_are_mirrors(dtype):
    image = torch.arange(1, 61, dtype=dtype).reshape(2, 5, 6)
    many = image.expand(60, 10, 2, 5, 6)
    got = Augment(padding=2)(many, generator(0, "a")).reshape(-1, 2, 5, 6)
    seen = set()
    for one in got:
        found = None
        for mirrored in (False, True):
            source = image.flip(-1) if mirrored else image
            padded = torch.nn.functional.pad(source, [2] * 4)
            for i in range(5):
                for j in range(5):
                    if torch.equal(one, padded[:, i : i + 5, j : j + 6]):
                        found = (mirrored, i, j)
        assert found is not None
        seen.add(found)
    assert len(seen) == 50  # 600 draws miss one of 50 with probability 3e-4
    kept = Augment(padding=0, flip=False)(many, generator(0, "a"))
    assert torch.equal(kept, many)
    mirrored = Augment(padding=0)(many, generator(0, "a")).reshape(-1, 2, 5, 6)
    flips = [torch.equal(one, image.flip(-1)) for one in mirrored]
    assert all(f or torch.equal(o, image) for f, o in zip(flips, mirrored, strict=True))
    assert 240 < sum(flips) < 360
