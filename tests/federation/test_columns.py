"""Names of columns across machines: the same ones in another order, others, and none."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from asking import N, method, refused, signs
from federations import of_classes, private_classes, private_patterns
from named_owners import NAMES, ORDER, Together, node, put

from hopfed.cli.machines import serve_columns
from hopfed.errors import ArgumentError, DataError, HopfedError, OtherColumnsError
from hopfed.experiments import serve
from hopfed.federation.contract import Context
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.machines.node import KeptStates, Node
from hopfed.federation.recipes import Allowed
from hopfed.hopfield.batches import Batches, Elsewhere
from hopfed.hopfield.columns import (
    Headers,
    Introduced,
    digest_of,
    places_of,
    settled,
    told_names,
)
from hopfed.hopfield.owner import ALLOWED, Owner
from hopfed.tables.examples import as_examples


def said(names, run="run"):
    return bytes(
        Introduced(tuple(names), run).client_step({}, {}, Context(0, 0, 0, 0))[1]["sorted"]
    )


def told_of(kind, names=NAMES, run="run"):
    if kind == "names":
        return told_names(names)
    return {kind: digest_of(sorted(names), run)}


GRADED = of_classes(Elsewhere(), N)


@pytest.mark.parametrize("kind", ["names", "sorted"])
@pytest.mark.parametrize("asked", [method(), GRADED], ids=["operators", "classes"])
def test_the_order_of_a_file_changes_no_bit_of_an_answer(tmp_path, kind, asked):
    rows = signs()
    one = node(tmp_path / "one", rows, NAMES)
    other = node(tmp_path / "other", rows[:, ORDER], np.array(NAMES)[ORDER])
    first, second = (put(each, asked, told_of(kind)) for each in (one, other))
    assert first.up.keys() == second.up.keys() != set()
    for name, array in first.up.items():
        np.testing.assert_array_equal(array, second.up[name], err_msg=name)
    if asked is not GRADED:  # what is answered is of the columns as the server has them
        order = np.argsort(NAMES) if kind == "sorted" else np.arange(N)
        np.testing.assert_array_equal(first.up["columns"], rows[:, order].sum(axis=0))


def test_noise_is_the_same_in_whatever_order_a_server_asks(tmp_path):
    rows = signs(400)
    site = node(tmp_path, rows, NAMES, epsilon=4.0)
    asked, mixed = private_patterns(Elsewhere(), N, 4.0), np.array(NAMES)[ORDER]
    plain, other = put(site, asked, {}), put(site, asked, told_names(mixed))
    assert not plain.fault
    assert not other.fault, other.reason

    def matrix(reply):
        found = np.zeros((N, N), np.int64)
        found[np.tri(N, k=-1, dtype=bool)] = reply.up["counts"]
        return found + found.T

    np.testing.assert_array_equal(matrix(plain)[np.ix_(ORDER, ORDER)], matrix(other))
    assert len(json.loads((tmp_path / "privacy" / "ledger").read_text())["released"]) == 1


def test_noise_about_classes_is_the_same_in_whatever_order_a_server_asks(tmp_path):
    site = node(tmp_path, signs(400), NAMES, epsilon=4.0)
    asked, mixed = private_classes(Elsewhere(), N, 4.0), np.array(NAMES)[ORDER]
    means = np.random.default_rng(1).uniform(-0.9, 0.9, (2, N)).astype(np.float32)
    down = {"means": means, "shares": np.full(2, 0.5, np.float32)}
    turned = {**down, "means": means[:, ORDER]}
    for exchange, more in ((0, ("pairs",)), (1, ())):
        plain = put(site, asked, {}, exchange, down=down)
        other = put(site, asked, told_names(mixed), exchange, down=turned)
        assert not plain.fault, plain.reason
        assert not other.fault, other.reason
        for name in ("signed", "seen"):
            np.testing.assert_array_equal(plain.up[name][:, ORDER], other.up[name])
        np.testing.assert_array_equal(plain.up["counts"], other.up["counts"])
        for name in more:
            full = np.zeros((2, N, N), np.int64)
            full[:, *np.triu_indices(N, 1)] = plain.up[name]
            full += full.transpose(0, 2, 1)
            turned_pairs = full[:, ORDER][:, :, ORDER][:, *np.triu_indices(N, 1)]
            np.testing.assert_array_equal(turned_pairs, other.up[name])
    refused(
        put(site, asked, told_names(mixed), 1, down={**down, "means": means[:, 1:]}), "malformed"
    )


def test_rows_that_left_with_noise_do_not_leave_without_it_in_another_order(tmp_path):
    rows = signs(400)
    private = node(tmp_path, rows, NAMES, epsilon=4.0)
    assert not put(private, private_patterns(Elsewhere(), N, 4.0), told_of("sorted")).fault
    plain = node(tmp_path, rows, NAMES)
    for told in ({}, told_of("sorted"), told_names(np.array(NAMES)[ORDER])):
        refused(put(plain, method(), told), "have a privacy budget")


def test_other_columns_are_refused_and_their_names_stay(tmp_path):
    names = (*NAMES[:-1], "a secret \x1b[31m name")
    site = node(tmp_path, signs(), names)
    words = []
    site.watch = lambda request, reply: words.append(reply.reason)
    for told in (told_of("names"), told_of("sorted")):
        reply = put(site, method(), told)
        refused(reply, "its columns are not those of the federation")
        assert "secret" not in reply.reason
    assert "lacks 'question 39' of the federation" in words[0]
    assert "has 'a secret \\x1b[31m name' beside" in words[0]
    assert "\x1b" not in words[0]


def test_a_question_about_other_columns_is_not_answered_from_what_was_said_before(tmp_path):
    site = node(tmp_path, signs(), NAMES)
    first = put(site, method(), told_of("names"))
    second = put(site, method(), told_names(np.array(NAMES)[ORDER]))
    np.testing.assert_array_equal(first.up["columns"][ORDER], second.up["columns"])


def test_tables_without_names_go_by_place():
    assert places_of((), 3, told_names("abc"), "run") is None
    assert places_of("abc", 3, {}, "run") is None
    with pytest.raises(OtherColumnsError, match="my table has none"):
        places_of((), 3, told_of("sorted", "abc"), "run")
    with pytest.raises(OtherColumnsError, match="3 columns, my table 2 without names"):
        places_of((), 2, told_names("abc"), "run")


@pytest.mark.parametrize(
    "told",
    [
        {"lengths": np.array([1, 1], np.uint16)},
        {"lengths": np.array([1, 1], np.uint16), "letters": np.zeros(3, np.uint8)},
        {"lengths": np.array([1, 1], np.uint16), "letters": np.full(2, 97, np.uint8)},
        {"lengths": np.array([1, 1], np.uint16), "letters": np.full(2, 255, np.uint8)},
        {"lengths": np.array([0, 2], np.uint16), "letters": np.full(2, 97, np.uint8)},
        {"lengths": np.array([60000, 1], np.uint16), "letters": np.full(60001, 97, np.uint8)},
        {"lengths": np.array([[1]], np.uint16), "letters": np.full(1, 97, np.uint8)},
        {"lengths": np.array([-1, 2]), "letters": np.full(1, 97, np.uint8)},
        {"lengths": np.array([1.0, 1.0]), "letters": np.full(2, 97, np.uint8)},
        {"lengths": np.ones(10**6, np.uint16), "letters": np.full(10**6, 97, np.uint8)},
        {"lengths": np.full(2, 2**62, np.uint64), "letters": np.full(2, 97, np.uint8)},
        {"sorted": np.zeros(31, np.uint8)},
        {"sorted": np.zeros(32, np.uint8), "letters": np.zeros(32, np.uint8)},
        {"sorted": np.zeros((32, 1), np.uint8)},
        {"anything": np.zeros(1)},
    ],
    ids=lambda told: " ".join(f"{k}{v.shape}{v.dtype}" for k, v in told.items()),
)
def test_what_says_nothing_of_columns_is_one_line(tmp_path, told):
    refused(put(node(tmp_path, signs(), NAMES), method(), told), "a malformed message from the")


def test_a_digest_is_of_names_in_their_order_and_of_one_federation():
    assert bytes(digest_of("ab", "run")) != bytes(digest_of("ba", "run"))
    assert bytes(digest_of("ab", "run")) != bytes(digest_of("ab", "another"))
    letters = b"".join(len(w).to_bytes(8, "little") + w for w in (b"run", b"a", b"b"))
    assert bytes(digest_of("ab", "run")) == hashlib.sha256(letters).digest()


def test_what_most_clients_have_counts():
    abc, bac, other, none = (said(names) for names in ("abc", "bac", "abd", ""))
    found = settled({0: other, 1: abc, 2: bac})
    assert (found.digest, found.kept) == (abc, (1, 2))
    assert settled({0: abc, 1: other}) is None
    assert settled({0: abc, 1: bac, 2: none}).kept == (0, 1)
    liar = {0: said("xyz")} | dict.fromkeys(range(1, 4), abc) | dict.fromkeys(range(4, 10), none)
    assert settled(liar).digest == b""


def test_a_file_of_names(tmp_path):
    (tmp_path / "names.txt").write_text("tea\n\n  coffee, black \n")
    assert serve_columns.given(str(tmp_path / "names.txt")) == (2, ("tea", "coffee, black"))
    (tmp_path / "names.csv").write_text('tea;"coffee; black";water\n1;0;1\n')
    assert serve_columns.given(str(tmp_path / "names.csv"))[1] == ("tea", "coffee; black", "water")
    assert serve_columns.given("12") == (12, ())
    # An owner who serves gives its own table: clients leave out what names their rows.
    rows = "".join(f"P{k},{k % 2},{k % 3 % 2}\n" for k in range(9))
    for name, held in (("own.csv", rows), ("header.csv", "")):
        (tmp_path / name).write_text(f"person,tea,milk\n{held}")
        given = serve_columns.given(str(tmp_path / name))[1]
        assert given == (("tea", "milk") if held else ("person", "tea", "milk"))
    for name, data, words in (
        ("twice.txt", b"tea\ntea\n", "two columns are called"),
        ("long.txt", b"tea\n" + b"x" * 201, "200 characters"),
        ("one.txt", b"tea\n", "two names or more"),
        ("latin.txt", b"tea\n\xff\n", "no UTF-8"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises((ArgumentError, DataError), match=words) as caught:
            serve_columns.given(str(tmp_path / name))
        assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match="no such file"):
        serve_columns.given(str(tmp_path / "lost.txt"))
    with pytest.raises(ArgumentError, match="names"):
        serve.Config(columns=3, names=("a", "b"))
    with pytest.raises(ArgumentError, match="order"):
        serve.Config(order="sorted abc")


def parts(clients=3, rows=300):
    return np.array_split(signs(rows * clients), clients)


def in_order(rows, config):
    """Archetypes of the same federation of tables in one order, without names."""
    owners = tuple(as_examples(x, gaps=True) for x in rows)
    arrays, _ = serve.play(config, config.make(Batches(owners)), 0, 0, None, LocalEngine())
    return serve.served_archetypes(config, {k: v[None, None] for k, v in arrays.items()})


CONFIG = serve.Config(columns=N, clients=3, minimum=2, support=5.0, liars=0.0)


@pytest.mark.parametrize("graded", [False, True], ids=["operators", "classes"])
@pytest.mark.parametrize("names", [(), NAMES], ids=["digests", "names"])
def test_archetypes_do_not_depend_on_the_order_of_files(tmp_path, graded, names):
    config = replace(CONFIG, graded=graded, names=names)
    orders = [np.random.default_rng(c).permutation(N) for c in range(3)]
    sites = {
        c: node(tmp_path / f"{c}", x[:, o], np.array(NAMES)[o])
        for c, (x, o) in enumerate(zip(parts(), orders, strict=True))
    }
    found, _ = Together(sites).play(config)
    order = np.arange(N) if names else np.argsort(NAMES)
    np.testing.assert_array_equal(found, in_order([x[:, order] for x in parts()], config))
    assert len(found) == 3


def test_one_with_other_columns_does_not_stop_the_others(tmp_path):
    x = parts()
    sites = {c: node(tmp_path / f"{c}", x[c], NAMES) for c in (0, 2)}
    sites[1] = node(tmp_path / "1", x[1], ("else", *NAMES[1:]))
    world = Together(sites)
    found, arrays = world.play(CONFIG)
    order = np.argsort(NAMES)
    np.testing.assert_array_equal(found, in_order([x[c][:, order] for c in (0, 2)], CONFIG))
    assert (arrays["faults/code"] != 0).tolist() == [False, True, False]
    assert world.lines[-1] == "refused: client 1, whose names of columns are others, or none"


def test_where_no_more_than_half_agree_the_server_says_what_to_do(tmp_path):
    sites = {c: node(tmp_path / f"{c}", signs(), (f"{c}", *NAMES[1:])) for c in range(2)}
    with pytest.raises(HopfedError, match="tell them which, with --columns FILE"):
        Together(sites).play(replace(CONFIG, clients=2))


def older(folder, rows):
    """Return a node of a hopfed that knows nothing of names."""
    rows = as_examples(rows, gaps=True)
    folder.mkdir(parents=True)
    owner = Owner(rows, 7)
    known = {cls: kinds for cls, kinds in ALLOWED.classes.items() if cls is not Headers}
    adapt = lambda method, _: owner.adapt(method)  # noqa: E731
    return Node(KeptStates(folder / "states"), adapt, trusted=Allowed(known), private=True)


def test_where_columns_are_sorted_whoever_goes_by_place_is_not_heard(tmp_path):
    x = parts()
    sites = {c: node(tmp_path / f"{c}", x[c], NAMES[::-1] if c else NAMES) for c in range(2)}
    sites[2] = older(tmp_path / "2", x[2])
    _, arrays = Together(sites).play(CONFIG)
    assert (arrays["faults/code"] != 0).tolist() == [False, False, True]
    assert b"goes by place" in arrays["faults/reason"][2]


def test_a_table_with_numbers_to_cut_gives_its_names_without_that_of_the_rows(tmp_path):
    """Of such a file the column of names was kept, and every client was refused."""
    lines = [f"p{i};{20 + i % 60};{'ja' if i % 3 else 'nein'}" for i in range(100)]
    (tmp_path / "a.csv").write_text("\n".join(["Patient-Nr;Alter;Raucher", *lines]))
    assert serve_columns.given(str(tmp_path / "a.csv")) == (2, ("Alter", "Raucher"))
