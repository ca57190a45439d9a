import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError, BackendError, DataError
from hopfed.figures.partition import draw
from hopfed.neural.data import (
    Dataset,
    Partition,
    allocate,
    hold_out,
    load,
    partition,
    rotate,
    splits,
)
from hopfed.neural.data.tensors import Augment, generator, moments, to_tensors

DATA = Path(os.environ.get("HOPFED_DATA", Path(__file__).parents[3] / "shared" / "data"))

seeds = st.integers(0, 2**32)
numbers = st.integers(1, 8)


@st.composite
def labelled(draw, classes=6, most=40, least=1):
    """Labels in random order, every class with at least `least` examples."""
    counts = draw(st.lists(st.integers(least, most), min_size=2, max_size=classes))
    labels = np.repeat(np.arange(len(counts)), counts)
    return draw(st.randoms(use_true_random=False)).sample(labels.tolist(), len(labels))


def dataset(labels, **columns):
    labels = np.asarray(labels, dtype=np.int64)
    images = np.arange(len(labels), dtype=np.uint8).reshape(-1, 1, 1, 1)
    names = tuple(map(str, range(int(labels.max()) + 1)))
    return Dataset("made", images, labels, names, **columns)


def plays(rng, roles=6, speeches=8):
    """Tokens whose labels vary inside a speech, by role and speech."""
    lengths = rng.integers(5, 30, size=roles * speeches)
    group = np.repeat(np.arange(roles * speeches), lengths)
    n = len(group)
    labels, tokens = rng.integers(0, 9, size=n), rng.integers(0, 9, size=(n, 4))
    names = tuple(map(str, range(9)))
    writer, roles = group // speeches, tuple(f"role {k}" for k in range(roles))
    return Dataset("play", tokens, labels, names, writer=writer, writer_names=roles, group=group)


def rows_of(part):
    parts = zip(part.train, part.validation, part.test, strict=True)
    return [np.concatenate(three) for three in parts]


def same(one, other):
    pairs = zip(rows_of(one), rows_of(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def disjoint(arrays):
    together = np.concatenate(arrays)
    return len(np.unique(together)) == len(together)


# Who has what


@given(labelled(), numbers, seeds)
def test_iid_deals_out_everything_evenly(labels, clients, seed):
    assume(clients <= len(labels))
    own = allocate.iid(np.array(labels), clients, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate(own)), np.arange(len(labels)))
    assert max(map(len, own)) - min(map(len, own)) <= 1


@given(labelled(least=8), numbers, seeds, st.data())
def test_classes_are_exact_balanced_and_shared_out_whole(labels, clients, seed, data):
    labels = np.array(labels)
    classes = len(np.unique(labels))
    k = data.draw(st.integers(1, classes))
    own = allocate.by_classes(labels, clients, seed, k)
    held = np.array([np.bincount(labels[rows], minlength=classes) > 0 for rows in own])
    assert (held.sum(axis=1) == k).all()
    assert np.ptp(held.sum(axis=0)) <= 1
    assert disjoint(own)
    everything = np.isin(labels, np.flatnonzero(held.any(axis=0))).sum()
    assert sum(map(len, own)) == everything


def test_the_holders_of_a_class_get_unequal_shares_of_it():
    labels = np.repeat(np.arange(10), 1000)
    own = allocate.by_classes(labels, 50, seed=3, per_client=2)
    counts = np.array([np.bincount(labels[rows], minlength=10) for rows in own])
    shares = [c[c > 0] / c.sum() for c in counts.T]
    spread = np.array([s.max() / s.min() for s in shares])
    assert (spread < 1.5 + 0.02).all()  # weights in [0.4, 0.6], and rounding
    assert spread.mean() > 1.2
    assert len(set(counts.sum(axis=1))) > 30


@given(labelled(), numbers, seeds, st.sampled_from([1e-3, 0.1, 1.0, 100.0]))
def test_dirichlet_deals_out_everything(labels, clients, seed, alpha):
    assume(clients <= len(labels))
    labels = np.array(labels)
    own = allocate.dirichlet(labels, clients, seed, alpha, redistribute=True)
    np.testing.assert_array_equal(np.sort(np.concatenate(own)), np.arange(len(labels)))
    assert min(map(len, own)) >= 1


@given(labelled(), numbers, seeds, st.integers(1, 6), st.sampled_from([1e-3, 0.1, 1.0]))
def test_redistribution_moves_no_more_than_is_short(labels, clients, seed, minimum, alpha):
    labels = np.array(labels)
    assume(clients * minimum <= len(labels))
    own = allocate.dirichlet(labels, clients, seed, alpha, minimum=minimum, redistribute=True)
    free = allocate.dirichlet(labels, clients, seed, alpha, minimum=0)
    assert disjoint(own)
    assert sum(map(len, own)) == len(labels)
    assert min(map(len, own)) >= minimum
    short = sum(max(minimum - len(rows), 0) for rows in free)
    moved = sum(len(np.setdiff1d(a, b)) for a, b in zip(own, free, strict=True))
    assert moved == short


@pytest.mark.parametrize("alpha", [0.2, 1.0, 5.0])
def test_dirichlet_shares_have_the_moments_of_the_law(alpha):
    labels, m = np.repeat(np.arange(400), 500), 8
    own = allocate.dirichlet(labels, m, seed=5, alpha=alpha)
    shares = np.stack([np.bincount(labels[rows], minlength=400) for rows in own]) / 500
    mean, variance = 1 / m, (1 / m) * (1 - 1 / m) / (m * alpha + 1)
    se = np.sqrt(variance / 400)
    assert np.abs(shares.mean(axis=1) - mean).max() < 4.5 * se
    np.testing.assert_allclose(shares.var(), variance, rtol=0.1)


def test_a_large_alpha_is_even():
    labels = np.repeat(np.arange(5), 1000)
    own = allocate.dirichlet(labels, 10, seed=1, alpha=1e6)
    counts = np.array([np.bincount(labels[rows]) for rows in own])
    assert np.abs(counts - 100).max() <= 3


@given(
    st.lists(st.integers(1, 25), min_size=2, max_size=9),
    numbers,
    seeds,
    st.sampled_from([1e-4, 0.3, 50.0]),
    st.sampled_from([1e-4, 10.0]),
)
def test_pachinko_gives_all_the_same_number_without_replacement(sizes, clients, seed, alpha, beta):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    assume(clients <= len(labels))
    coarse = np.arange(len(sizes)) % 3
    own = allocate.pachinko(labels, clients, seed, coarse, alpha, beta)
    assert disjoint(own)
    assert {len(rows) for rows in own} == {len(labels) // clients}


def test_pachinko_is_a_dirichlet_law_over_coarse_and_over_fine_labels():
    coarse = np.repeat(np.arange(10), 5)
    labels = np.repeat(np.arange(50), 4000)  # a stock that the first clients hardly touch
    own = allocate.pachinko(labels, 500, 0, coarse, 0.3, 10.0)[:80]
    first = np.array([np.bincount(labels[rows], minlength=50) for rows in own], dtype=float)
    first = first.reshape(80, 10, 5)
    over_coarse = first.sum(axis=2) / 400
    want = 0.1 * 0.9 / (10 * 0.3 + 1)
    np.testing.assert_allclose(over_coarse.mean(), 0.1)
    np.testing.assert_allclose(over_coarse.var(), want, rtol=0.15)
    big = first.sum(axis=2) > 100
    over_fine = first[big] / first[big].sum(axis=1, keepdims=True)
    counted = first[big].sum(axis=1)
    want = 0.2 * 0.8 * (1 / 51 + (1 / counted).mean())  # of the law, and of drawing from it
    np.testing.assert_allclose(over_fine.var(), want, rtol=0.25)


def test_writers_become_clients():
    writer = np.array([0, 2, 2, 0, 2, 1, 0, 2])
    units = np.arange(8)
    own = allocate.by_group(writer, None, 0, units=units, minimum=2)
    assert [rows.tolist() for rows in own] == [[0, 3, 6], [1, 2, 4, 7]]
    some = {len(allocate.by_group(writer, 1, s, units=units, minimum=1)[0]) for s in range(30)}
    assert some == {1, 3, 4}
    with pytest.raises(ArgumentError, match="within the writers with enough examples, 2, got 3"):
        allocate.by_group(writer, 3, 0, units=units, minimum=2)
    with pytest.raises(DataError, match="no writer has 5 examples"):
        allocate.by_group(writer, None, 0, units=units, minimum=5)
    speech = np.array([0, 1, 1, 0, 2, 3, 0, 4])
    own = allocate.by_group(writer, None, 0, units=speech, minimum=2)
    assert [rows.tolist() for rows in own] == [[1, 2, 4, 7]]


def test_domains_become_one_client_or_several():
    domain = np.array([0, 1, 1, 0, 1, 1, 0])
    own = allocate.by_domain(domain, None, 0)
    assert [rows.tolist() for rows in own] == [[0, 3, 6], [1, 2, 4, 5]]
    own = allocate.by_domain(domain, 4, 0)
    assert [set(domain[rows]) for rows in own] == [{0}, {0}, {1}, {1}]
    assert sorted(np.concatenate(own)) == list(range(7))
    for clients in (0, 3):
        with pytest.raises(ArgumentError, match="a multiple of the 2 domains"):
            allocate.by_domain(domain, clients, 0)


# The parts of a client


@given(labelled(), seeds, st.tuples(*[st.integers(1, 9)] * 3))
def test_parts_are_stratified_to_less_than_one_example(labels, seed, shares):
    labels = np.array(labels)
    n = len(labels)
    assume(n >= 3)
    parts = splits.stratified(labels, shares, np.random.default_rng(seed))
    sizes = np.bincount(parts, minlength=3)
    assert sizes.tolist() == splits.part_sizes(n, shares)
    assert sizes.min() >= 1
    classes, counts = np.unique(labels, return_counts=True)
    test = np.array([(parts[labels == k] == splits.TEST).sum() for k in classes])
    assert (np.abs(test - sizes[2] * counts / n) < 1).all()
    validation = np.array([(parts[labels == k] == splits.VALIDATION).sum() for k in classes])
    assert (np.abs(validation - sizes[1] * (counts - test) / (n - sizes[2])) < 1).all()


@given(st.integers(3, 500), st.tuples(*[st.floats(0.01, 1)] * 3))
def test_part_sizes_add_up_and_are_near_their_shares(n, shares):
    sizes = np.array(splits.part_sizes(n, shares))
    assert sizes.sum() == n
    assert sizes.min() >= 1
    want = np.array(shares) / sum(shares) * n
    assert (np.abs(sizes - want) <= 2).all()


@given(st.lists(st.integers(1, 30), min_size=3, max_size=20), seeds)
def test_groups_stay_whole_and_no_part_is_empty(sizes, seed):
    group = np.repeat(np.arange(len(sizes)), sizes)
    parts = splits.grouped(group, (8, 1, 1), np.random.default_rng(seed))
    assert all(len(set(parts[group == g])) == 1 for g in range(len(sizes)))
    assert set(parts) == {0, 1, 2}


def test_groups_keep_the_shares_where_they_can():
    group = np.repeat(np.arange(1000), np.random.default_rng(0).integers(1, 20, size=1000))
    parts = splits.grouped(group, (8, 1, 1), np.random.default_rng(1))
    np.testing.assert_allclose(np.bincount(parts) / len(parts), (0.8, 0.1, 0.1), atol=0.003)
    long, labels = np.repeat(np.arange(21), [100] + [5] * 20), np.arange(200) % 2
    for seed in range(40):  # a speech of half of all examples never becomes the test set
        parts = splits.split(labels, long, (8, 1, 1), np.random.default_rng(seed))
        assert parts[0] == splits.TRAIN
    with pytest.raises(DataError, match="2 groups of examples cannot be split into 3 parts"):
        splits.grouped(np.array([0, 0, 1]), (8, 1, 1), np.random.default_rng(0))


# Partitions

SCHEMES = ("iid", "classes:2", "dirichlet:0.5:redistribute", "pachinko:0.5:5", "domain", "writer")


def full(labels):
    """A dataset with everything that any scheme asks for."""
    n, classes = len(labels), max(labels) + 1
    return dataset(
        labels,
        domain=np.arange(n) % 2,
        domain_names=("a", "b"),
        writer=np.arange(n) % 4,
        writer_names=tuple("wxyz"),
        coarse=np.arange(classes) % 2,
        train=np.arange(n) % 5 > 0,
    )


@given(labelled(least=12), st.sampled_from(SCHEMES), seeds)
def test_a_partition_is_disjoint_and_a_function_of_labels_and_seed(labels, scheme, seed):
    data = full(labels)
    part = partition(scheme, data, 4, seed)
    assert disjoint([*part.train, *part.validation, *part.test])
    assert part.sizes.min() >= 1
    left = {"classes:2": None, "pachinko:0.5:5": len(labels) % 4}.get(scheme, 0)
    assert left is None or part.unused == left
    assert part.counts().sum() == part.sizes.sum()
    copy = replace(data, inputs=255 - data.inputs, name="other")
    assert same(part, partition(scheme, copy, 4, seed))
    other = partition(scheme, data, 4, seed, shares=(6, 2, 2))
    rows = zip(rows_of(part), rows_of(other), strict=True)
    assert all(np.array_equal(np.sort(a), np.sort(b)) for a, b in rows)


@given(labelled(least=30), st.sampled_from(SCHEMES[:4]))
def test_another_seed_gives_another_partition(labels, scheme):
    data = full(labels)
    assert not same(partition(scheme, data, 4, 0), partition(scheme, data, 4, 1))


@given(st.sampled_from(("iid", "classes:2", "domain", "writer")), seeds)
def test_the_published_split_stays_what_it_is(scheme, seed):
    data = full(np.arange(401) % 3)
    part = partition(scheme, data, 4, seed, published=True)
    assert not data.train[np.concatenate(part.test)].any()
    assert data.train[np.concatenate([*part.train, *part.validation])].all()
    free = partition(scheme, data, 4, seed)
    rows = zip(rows_of(part), rows_of(free), strict=True)
    assert all(np.array_equal(np.sort(a), np.sort(b)) for a, b in rows)


def test_the_split_of_a_client_does_not_depend_on_the_others():
    data = full(np.random.default_rng(0).integers(0, 5, size=400))
    one, two = partition("writer", data, seed=3), partition("domain", data, seed=3)
    assert len(one) == 4
    assert len(two) == 2
    blind = data.take(np.flatnonzero(data.writer < 2))
    three = partition("writer", blind, seed=3)
    for k in (0, 1):
        got = np.flatnonzero(data.writer < 2)[three.test[k]]
        np.testing.assert_array_equal(got, one.test[k])


def test_speeches_are_in_one_part_whoever_holds_them():
    data = plays(np.random.default_rng(1))
    for scheme, clients in (("role", None), ("writer", 3), ("iid", 4)):
        part = partition(scheme, data, clients, seed=2)
        groups = [
            set(data.group[np.concatenate(r)]) for r in (part.train, part.validation, part.test)
        ]
        assert not groups[0] & groups[1] | groups[0] & groups[2] | groups[1] & groups[2]
    assert part.unused == 0
    roles = partition("role", data, seed=2)
    assert roles.names == tuple(f"role {k}" for k in range(6))
    assert [set(data.writer[r]) for r in rows_of(roles)] == [{k} for k in range(6)]


@pytest.mark.parametrize(
    ("scheme", "options", "message"),
    [
        ("iid", {}, "clients must be given for this partition"),
        ("iid", {"clients": 0}, "clients must be 1 or more, got 0"),
        ("iid", {"clients": 61}, "clients must be within the examples, 60, got 61"),
        ("iid", {"clients": 25}, "client 0 of 25 gets 2|gets 2 examples, fewer than 3"),
        ("iid", {"clients": 5, "minimum": 13}, "gets 12 examples, fewer than 13"),
        ("iid", {"clients": 5, "minimum": 2}, "minimum must be 3 or more"),
        ("iid", {"clients": 5, "seed": -1}, "seed must be a non-negative integer"),
        ("iid", {"clients": 5, "shares": (8, 2)}, "shares must be three numbers above 0"),
        ("iid", {"clients": 5, "shares": (8, 0, 2)}, "shares must be three numbers above 0"),
        ("iid:2", {"clients": 5}, "partition must be of the form iid, got 'iid:2'"),
        ("classes", {"clients": 5}, "of the form classes:K"),
        ("classes:two", {"clients": 5}, "of the form classes:K"),
        ("classes:0", {"clients": 5}, "classes per client must be from 1 to the 3 classes there"),
        ("classes:4", {"clients": 5}, "classes per client must be from 1 to the 3 classes there"),
        ("classes:3", {"clients": 21}, "clients must be few enough for one example of each class"),
        ("dirichlet", {"clients": 5}, "of the form dirichlet:ALPHA"),
        ("dirichlet:0", {"clients": 5}, "alpha must be a number above 0"),
        ("dirichlet:-1", {"clients": 5}, "alpha must be a number above 0"),
        ("dirichlet:1e999", {"clients": 5}, "alpha must be a number above 0"),
        ("dirichlet:nan", {"clients": 5}, "of the form dirichlet:ALPHA"),
        ("dirichlet:0.3", {"clients": 21}, "within the examples, 60 with 3 each, got 21"),
        ("dirichlet:0.001", {"clients": 9}, "take a larger alpha, fewer clients, or redistribute"),
        ("pachinko", {"clients": 5}, "made: pachinko needs superclasses"),
        ("writer", {}, "made: there are no writers or roles"),
        ("domain", {}, "made: there are no domains"),
        ("rotation:", {}, "of the form rotation:ANGLES"),
        ("rotation:0,360", {}, "angles must be one or more different angles"),
        ("rotation:0,20:11", {}, "images per class must be from 1 to 10, got 11"),
        ("rotation:0,20:21:same", {}, "images per class must be from 1 to 20, got 21"),
        ("rotation:0,20:0", {}, "images per class must be from 1 to 10, got 0"),
        ("dirichel:1", {}, r"did you mean dirichlet\?"),
        ("", {}, "one of iid, classes"),
    ],
)
def test_bad_requests_get_one_line(scheme, options, message):
    data = dataset(np.arange(60) % 3)
    with pytest.raises((ArgumentError, DataError), match=message) as caught:
        partition(scheme, data, **options)
    assert "\n" not in str(caught.value)


def test_what_a_dataset_lacks_or_a_client_would_miss():
    with pytest.raises(DataError, match="made: there is no published split"):
        partition("iid", dataset(np.zeros(60)), 5, published=True)
    train = np.arange(60) < 59
    with pytest.raises(DataError, match=r"client \d of 5 gets no test examples"):
        partition("iid", dataset(np.zeros(60), train=train), 5, published=True)
    with pytest.raises(DataError, match=r"0 examples cannot be split into 2 parts \(client 0 of 5"):
        partition("iid", dataset(np.zeros(60), train=train & False), 5, published=True)
    data = replace(plays(np.random.default_rng(0)), group=None)
    with pytest.raises(DataError, match="only images can be rotated"):
        partition("rotation:0,90", data)


def test_unseen_clients():
    part = partition("iid", load("digits"), 10, seed=4)
    seen, unseen = hold_out(part, 0.2, seed=1)
    assert (len(seen), len(unseen)) == (8, 2)
    assert sorted(seen.ids + unseen.ids) == list(range(10))
    for side in (seen, unseen):
        assert isinstance(side, Partition)
        for k, client in enumerate(side.ids):
            np.testing.assert_array_equal(side.test[k], part.test[client])
    assert hold_out(part, 0.2, seed=1)[1].ids == unseen.ids
    assert len({hold_out(part, 0.2, seed=s)[1].ids for s in range(20)}) > 5
    assert len(hold_out(part, 0.999)[0]) == len(hold_out(part, 0.001)[1]) == 1
    for share in (0, 1, -0.2):
        with pytest.raises(ArgumentError, match="share must be between 0 and 1"):
            hold_out(part, share)
    with pytest.raises(ArgumentError, match="part must be one of train, validation, test or all"):
        part.counts("tests")
    with pytest.raises(ArgumentError, match="two clients or more"):
        hold_out(part.take([0]))


# Rotations


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


# Tensors


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
    mean, std = moments(images, train)
    np.testing.assert_allclose(mean, images[train].mean(axis=(0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(std[:2], images[train].std(axis=(0, 2, 3))[:2], rtol=1e-6)


def test_tokens_stay_whole_numbers():
    data = plays(np.random.default_rng(0))
    tensors = to_tensors(partition("role", data))
    x, _ = tensors.batch(tensors.rows(np.arange(5)), Augment(), generator(0))
    assert x.dtype == torch.int64
    np.testing.assert_array_equal(x.numpy(), data.inputs[:5])


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


def test_augmentation_is_a_function_of_its_generator():
    images = torch.randint(256, (9, 1, 8, 8), generator=generator(1), dtype=torch.uint8)
    before = images.clone()
    one, two, other = (Augment()(images, generator(s, "augment")) for s in (5, 5, 6))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert torch.equal(images, before)


# The figure


@pytest.mark.parametrize(("scheme", "clients"), [("dirichlet:1:redistribute", 5), ("iid", 40)])
def test_the_figure_shows_counts_and_sizes(scheme, clients):
    part = partition(scheme, load("digits"), clients)
    figure = draw(part)
    above, below = figure.axes[:2]
    heights = np.array([[bar.get_height() for bar in bars] for bars in above.containers])
    np.testing.assert_array_equal(heights.T, part.sizes)
    (mesh,) = below.collections
    np.testing.assert_array_equal(np.asarray(mesh.get_array()).reshape(10, -1), part.counts().T)
    assert above.get_title(loc="left") == f"digits, {scheme}, {clients} clients"
    figure.draw_without_rendering()


def test_the_figure_names_domains_and_what_is_unused():
    figure = draw(partition("rotation:0,20:10", load("digits")))
    assert [t.get_text() for t in figure.axes[1].get_xticklabels()] == ["0°", "20°"]
    figure = draw(partition("classes:2", load("digits"), 4))
    assert figure.axes[0].get_title(loc="left").endswith("unused")


# The real data, where they are at hand


def real(name):
    if not any(DATA.glob(f"{name}*.npz")):
        pytest.skip(f"{name} not at hand; set HOPFED_DATA to its folder")
    return load(name, root=DATA)


def test_real_roles():
    data = real("shakespeare")
    part = partition("role", data)
    assert len(part) > 200
    sizes = part.sizes[part.sizes.sum(axis=1) > 5000]
    np.testing.assert_allclose(sizes.sum(axis=0) / sizes.sum(), (0.8, 0.1, 0.1), atol=0.02)


def test_real_rotated_mnist():
    part = partition("rotation:0,20,40,60", real("mnist"))
    assert part.sizes.tolist() == [[800, 100, 100]] * 4
