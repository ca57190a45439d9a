"""Partitions of a dataset over clients: what holds for all of them, and their picture."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stand_ins import disjoint, labelled, plays, real, rows_of, seeds

from hopfed.errors import ArgumentError, DataError
from hopfed.figures.partition import draw
from hopfed.neural.data import Dataset, Partition, hold_out, load, partition

SCHEMES = ("iid", "classes:2", "dirichlet:0.5:redistribute", "pachinko:0.5:5", "domain", "writer")


def dataset(labels, **columns):
    labels = np.asarray(labels, dtype=np.int64)
    images = np.arange(len(labels), dtype=np.uint8).reshape(-1, 1, 1, 1)
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


def same(one, other):
    pairs = zip(rows_of(one), rows_of(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


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
        ("dirichlet:0.001", {"clients": 9}, "fewer clients, or dirichlet:0.001:redistribute$"),
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


def test_real_roles():
    data = real("shakespeare")
    part = partition("role", data)
    assert len(part) > 200
    sizes = part.sizes[part.sizes.sum(axis=1) > 5000]
    np.testing.assert_allclose(sizes.sum(axis=0) / sizes.sum(), (0.8, 0.1, 0.1), atol=0.02)
