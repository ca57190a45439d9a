"""Partitions of a dataset over clients: what holds for all of them, and their picture."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from stand_ins import disjoint, labelled, one_line, plays, rows_of, seeds

from hopfed.errors import ArgumentError, DataError
from hopfed.figures.partition import draw
from hopfed.neural.data import Dataset, load, partition
from hopfed.neural.data.partitions import TEST, TRAIN, group_parts, stratify_parts

SCHEMES = ("iid", "classes:2", "dirichlet:0.5:redistribute", "pachinko:0.5:5", "domain", "writer")


def dataset(labels, **columns):
    labels = np.asarray(labels, dtype=np.int64)
    images = np.arange(len(labels), dtype=np.uint8).repeat(2).reshape(-1, 1, 2, 1)
    names = tuple(map(str, range(int(labels.max()) + 1)))
    return Dataset("made", images, labels, names, **columns)


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


def same(one, other, order=np.asarray):
    pairs = zip(rows_of(one), rows_of(other), strict=True)
    return all(np.array_equal(order(a), order(b)) for a, b in pairs)


def refused(words, scheme, data, *clients, **options):
    """There is no such partition, for a reason of one line."""
    with pytest.raises((ArgumentError, DataError), match=words) as caught:
        partition(scheme, data, *clients, **options)
    assert one_line(caught)


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
    assert same(part, partition(scheme, data, 4, seed, shares=(6, 2, 2)), np.sort)


@pytest.mark.parametrize("scheme", ["iid", "classes:2", "domain", "writer"])
def test_the_published_split_stays_what_it_is(scheme):
    data = full(np.arange(401) % 3)
    part = partition(scheme, data, 4, 1, published=True)
    assert not data.train[np.concatenate(part.test)].any()
    assert data.train[np.concatenate([*part.train, *part.validation])].all()
    assert same(part, partition(scheme, data, 4, 1), np.sort)


def test_speeches_are_in_one_part_whoever_holds_them():
    data = plays(np.random.default_rng(1))
    for scheme, clients in (("writer", 3), ("iid", 4), ("role", None)):
        part = partition(scheme, data, clients, seed=2)
        parts = part.train, part.validation, part.test
        assert disjoint([np.unique(data.group[np.concatenate(rows)]) for rows in parts])
    assert part.unused == 0
    assert part.names == tuple(f"role {k}" for k in range(6))
    assert [set(data.writer[r]) for r in rows_of(part)] == [{k} for k in range(6)]


FIVE = {"clients": 5}


@pytest.mark.parametrize(
    ("scheme", "options", "message"),
    [
        ("iid", {}, "clients must be given for this partition"),
        ("iid", {"clients": 61}, "clients must be within the 60 available, got 61"),
        ("iid", {"clients": 25}, r"clients 10 \(2\), .* of 25, at least 3"),
        ("iid", FIVE | {"shares": (8, 0, 2)}, "shares must be three numbers above 0"),
        ("iid", FIVE | {"published": True}, "made: there is no published split"),
        ("iid", FIVE | {"published": True, "train": 59}, "no test examples for client"),
        ("iid", FIVE | {"published": True, "train": 0}, r"0 examples .* \(client 0 of 5"),
        ("classes:4", FIVE, "classes per client must be from 1 to 3"),
        ("classes:3", {"clients": 21}, "clients must be few enough for one example of each class"),
        ("dirichlet:0", FIVE, "alpha must be a number above 0"),
        ("dirichlet:nan", FIVE, "of the form dirichlet:ALPHA"),
        ("dirichlet:0.001", {"clients": 9}, "larger alpha, or dirichlet:ALPHA:redistribute$"),
        ("pachinko", FIVE, "made: pachinko needs superclasses"),
        ("writer", {}, "made: there are no writers or roles"),
        ("given", {}, "made: the data do not name their clients"),
        ("domain", {}, "made: there are no domains"),
        ("rotation:0,360", {}, "angles must be one or more different angles"),
        ("rotation:0,20:11", {}, "images per class must be from 1 to 10, got 11"),
        ("dirichel:1", {}, r"did you mean dirichlet\?"),
    ],
)
def test_bad_requests_get_one_line(scheme, options, message):
    columns = {n: np.arange(60) < last for n, last in options.items() if n == "train"}
    options = {n: value for n, value in options.items() if n != "train"}
    refused(message, scheme, dataset(np.arange(60) % 3, **columns), **options)


def test_a_partition_that_is_given_or_kept_in_a_file(tmp_path):
    data = full(np.arange(60) % 3)
    part = partition("classes:2", data, 4, seed=1)
    part.save(tmp_path / "kept.npz")
    kept = f"given:{tmp_path}/kept.npz"
    assert same(part, partition(kept, data, seed=2))
    assert same(part, partition(part, data, seed=2))
    rows = rows_of(part)
    listed = partition([own[::-1] for own in rows], data, seed=1)
    assert same(part, listed)
    assert listed.scheme.startswith("given:arrays:")
    (tmp_path / "rows.json").write_text(json.dumps([own.tolist() for own in rows]))
    np.savez(tmp_path / "client.npz", client=part.held["client"])
    for name in ("client.npz", "rows.json"):
        assert same(part, partition(f"given:{tmp_path / name}", data, 4, seed=1))
    np.savez(tmp_path / "cut.npz", client=np.arange(60) % 4, part=2 * (np.arange(60) < 12))
    cut = partition(f"given:{tmp_path}/cut.npz", data, seed=1)
    assert cut.sizes.tolist() == [[11, 1, 3]] * 4
    for wrong in ([[0, 1, 2], [2, 3, 4]], [[0, 1, 60]], [[-1, 2, 3]]):
        refused("disjoint and below 60", wrong, data)
    refused("rows of a client must be a list of integers", [[0.0, 1.0, 2.0]], data)
    refused("partition must be a name, a Partition, or arrays", 3, data)
    refused("known only to the process that got it", "given:arrays:0", data)
    refused("clients must be 4, as in", kept, data, 5)
    refused("kept.npz: .* a partition of 60 rows, not of 30", kept, data.take(np.arange(30)))
    refused("no such file", "given:lost.npz", data)


def test_clients_stay_while_seeds_vary():
    data = full(np.arange(60) % 3)
    fixed = [partition("dirichlet:5@7", data, 4, seed) for seed in (1, 2)]
    assert same(*fixed)
    assert same(fixed[0], partition("dirichlet:5", data, 4, 7))
    assert partition("domain@7", data, 2, 1).names == ("a", "b")


def all_rows(scheme, labels, clients, seed=0, **columns):
    return rows_of(partition(scheme, dataset(labels, **columns), clients, seed))


@given(labelled(least=12), st.integers(1, 4), seeds, st.data())
def test_classes_are_exact_balanced_and_shared_out_whole(labels, clients, seed, draws):
    labels = np.array(labels)
    classes = len(np.unique(labels))
    k = draws.draw(st.integers(1, classes))
    own = all_rows(f"classes:{k}", labels, clients, seed)
    held = np.array([np.bincount(labels[rows], minlength=classes) > 0 for rows in own])
    assert (held.sum(axis=1) == k).all()
    assert np.ptp(held.sum(axis=0)) <= 1
    assert sum(map(len, own)) == np.isin(labels, np.flatnonzero(held.any(axis=0))).sum()


@pytest.mark.parametrize("alpha", [0.2, 5.0])
def test_dirichlet_shares_have_the_moments_of_the_law(alpha):
    labels, m = np.repeat(np.arange(400), 500), 8
    own = all_rows(f"dirichlet:{alpha}", labels, m, seed=5)
    shares = np.stack([np.bincount(labels[rows], minlength=400) for rows in own]) / 500
    mean, variance = 1 / m, (1 / m) * (1 - 1 / m) / (m * alpha + 1)
    assert np.abs(shares.mean(axis=1) - mean).max() < 4.5 * np.sqrt(variance / 400)
    np.testing.assert_allclose(shares.var(), variance, rtol=0.1)


@pytest.mark.slow  # 100,000 draws
def test_pachinko_is_a_dirichlet_law_over_coarse_and_over_fine_labels():
    coarse = np.repeat(np.arange(10), 5)
    labels = np.repeat(np.arange(50), 800)  # a stock that the first clients hardly touch
    every = all_rows("pachinko", labels, 100, 1, coarse=coarse)[:20]
    every += all_rows("pachinko:0.3:10", labels, 100, 0, coarse=coarse)[:20]
    first = np.array([np.bincount(labels[rows], minlength=50) for rows in every], dtype=float)
    first = first.reshape(40, 10, 5)
    over_coarse = first.sum(axis=2) / 400
    want = 0.1 * 0.9 / (10 * 0.3 + 1)
    np.testing.assert_allclose(over_coarse.mean(), 0.1)
    np.testing.assert_allclose(over_coarse.var(), want, rtol=0.25)
    big = first.sum(axis=2) > 100
    over_fine = first[big] / first[big].sum(axis=1, keepdims=True)
    counted = first[big].sum(axis=1)
    want = 0.2 * 0.8 * (1 / 51 + (1 / counted).mean())  # of the law, and of drawing from it
    np.testing.assert_allclose(over_fine.var(), want, rtol=0.35)


def test_writers_and_domains_become_clients():
    writer = np.repeat([0, 2, 1, 2, 0], [5, 4, 2, 5, 1])
    data = dataset(np.zeros(17), writer=writer, writer_names=tuple("abc"))
    own = rows_of(partition("writer", data))
    assert [set(writer[rows]) for rows in own] == [{0}, {2}]  # two examples are too few
    refused("within the 2 available, got 3", "writer", data, 3)
    data = dataset(np.zeros(24), domain=np.arange(24) % 2, domain_names=("a", "b"))
    own = rows_of(partition("domain", data, 4))
    assert [set(rows % 2) for rows in own] == [{0}, {0}, {1}, {1}]
    refused("a multiple of the 2 domains", "domain", data, 3)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_an_image_is_turned_in_one_domain_clockwise_and_exactly_at_right_angles(dtype):
    images = np.random.default_rng(0).integers(0, 256, size=(80, 2, 7, 7)).astype(dtype)
    whole = Dataset("made", images, np.arange(80) % 2, ("a", "b"))
    part = partition("rotation:0,90,180,270:10", whole, 8, seed=7)
    turned = part.dataset
    assert turned.domain_names == ("0°", "90°", "180°", "270°")
    assert disjoint([turned.group])
    assert np.bincount(turned.labels).tolist() == [40, 40]
    np.testing.assert_array_equal(turned.labels, whole.labels[turned.group])
    assert [set(turned.domain[rows]) for rows in rows_of(part)] == [{k // 2} for k in range(8)]
    for k in range(4):
        rows = np.flatnonzero(turned.domain == k)
        want = np.rot90(images[turned.group[rows]], -k, axes=(2, 3))
        np.testing.assert_allclose(turned.inputs[rows], want, atol=1e-3)
    refused("only images can be rotated", "rotation:0,90", plays(np.random.default_rng(0)))


@given(labelled(), seeds, st.tuples(*[st.integers(1, 9)] * 3))
def test_parts_are_stratified_to_less_than_one_example(labels, seed, shares):
    labels = np.array(labels)
    n = len(labels)
    assume(n >= 3)
    parts = stratify_parts(labels, shares, np.random.default_rng(seed))
    sizes = np.bincount(parts, minlength=3)
    assert sizes.min() >= 1
    assert (np.abs(sizes - np.array(shares) / sum(shares) * n) <= 2).all()
    classes, counts = np.unique(labels, return_counts=True)
    test = np.array([(parts[labels == k] == TEST).sum() for k in classes])
    assert (np.abs(test - sizes[2] * counts / n) < 1).all()


def test_groups_keep_the_shares_where_they_can():
    group = np.repeat(np.arange(1000), np.random.default_rng(0).integers(1, 20, size=1000))
    parts = group_parts(group, (8, 1, 1), np.random.default_rng(1))
    np.testing.assert_allclose(np.bincount(parts) / len(parts), (0.8, 0.1, 0.1), atol=0.003)
    long = np.repeat(np.arange(21), [100] + [5] * 20)
    for seed in range(40):  # a speech of half of all examples never becomes the test set
        parts = group_parts(long, (8, 1, 1), np.random.default_rng(seed))
        assert parts[0] == TRAIN
    few = replace(dataset(np.arange(60) % 3), group=np.arange(60) // 30)
    refused("2 groups of examples cannot be split into 3 parts", "iid", few, 1)


def test_the_figure_shows_counts():
    part = partition("dirichlet:1:redistribute", load("digits"), 5)
    axes = draw(part).axes[0]
    np.testing.assert_array_equal(np.asarray(axes.images[0].get_array()), part.counts().T)
    assert axes.get_title() == "digits, dirichlet:1:redistribute, 5 clients"
