"""Clients whose images are turned by angles of their own."""

import numpy as np
import pytest
from stand_ins import disjoint, real, rows_of

from hopfed.neural.data import load, partition, rotate


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_turning_is_clockwise_and_exact_at_right_angles(dtype):
    images = np.random.default_rng(0).integers(0, 256, size=(3, 2, 7, 7)).astype(dtype)
    assert rotate.turn(images, 0) is images
    for k in (1, 2, 3):
        turned = rotate.turn(images, 90 * k)
        assert turned.dtype == dtype
        np.testing.assert_allclose(turned, np.rot90(images, -k, axes=(2, 3)), atol=1e-3)
    there = rotate.turn(np.pad(images, ((0, 0), (0, 0), (5, 5), (5, 5))), 30)
    assert there.max() > 0


@pytest.mark.parametrize("clients", [None, 6])
def test_no_image_is_in_two_rotated_domains(clients):
    digits = load("digits")
    part = partition("rotation:0,20,90:40", digits, clients, seed=7)
    data = part.dataset
    assert disjoint([data.group])
    assert np.bincount(data.labels).tolist() == [3 * 40] * 10
    assert data.domain_names == ("0°", "20°", "90°")
    assert part.unused == 0
    np.testing.assert_array_equal(data.labels, digits.labels[data.group])
    for k, angle in enumerate((0, 20, 90)):
        rows = np.flatnonzero(data.domain == k)
        want = rotate.turn(digits.inputs[data.group[rows]], angle)
        np.testing.assert_array_equal(data.inputs[rows], want)
    assert set(data.domain[rows_of(part)[0]]) == {0}
    assert len(part) == (clients or 3)


@pytest.mark.parametrize("clients", [None, 8])
def test_the_same_images_in_all_domains_are_in_the_same_part(clients):
    part = partition("rotation:0,20,40,60:50:same", load("digits"), clients, seed=7)
    data = part.dataset
    assert np.unique(data.group, return_counts=True)[1].tolist() == [4] * 500
    three = [np.concatenate(p) for p in (part.train, part.validation, part.test)]
    assert [len(rows) for rows in three] == [1600, 200, 200]
    groups = [set(data.group[rows]) for rows in three]
    assert sum(map(len, groups)) == 500
    assert np.bincount(data.labels[three[2]]).tolist() == [20] * 10
    assert part.names[0] == "0°"


def test_as_many_images_per_class_as_there_are():
    digits = load("digits")
    fewest = np.bincount(digits.labels).min()
    data = partition("rotation:0,90", digits, seed=1).dataset
    assert np.bincount(data.labels[data.domain == 0]).tolist() == [fewest // 2] * 10
    data = partition("rotation:0,90:same", digits, seed=1).dataset
    assert np.bincount(data.labels[data.domain == 0]).tolist() == [100] * 10


def test_real_rotated_mnist():
    part = partition("rotation:0,20,40,60", real("mnist"))
    assert part.sizes.tolist() == [[800, 100, 100]] * 4
