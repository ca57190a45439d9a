"""Names of columns across machines: the same ones in another order, others, and none."""

import json
from dataclasses import replace

import numpy as np
import pytest
from asking import N, method, refused, signs
from federations import of_classes, private_classes, private_patterns
from helpers import rest_slow
from named_owners import NAMES, ORDER, Together, node, put

from hopfed.cli.machines.serve import _columns
from hopfed.errors import ArgumentError, DataError, OtherColumnsError
from hopfed.experiments import serve
from hopfed.federation.engines.local import LocalEngine
from hopfed.hopfield.batches import Batches, Elsewhere
from hopfed.hopfield.columns import places_of, read_names
from hopfed.tables.examples import as_examples

GRADED, TOLD = of_classes(Elsewhere(), N), NAMES


@pytest.mark.parametrize("asked", [method(), GRADED], ids=["operators", "classes"])
def test_the_order_of_a_file_changes_no_bit_of_an_answer(tmp_path, asked):
    rows = signs()
    one = node(tmp_path / "one", rows, NAMES)
    other = node(tmp_path / "other", rows[:, ORDER], np.array(NAMES)[ORDER])
    first, second = (put(each, asked, TOLD) for each in (one, other))
    assert first.message.keys() == second.message.keys() != set()
    for name, array in first.message.items():
        np.testing.assert_array_equal(array, second.message[name], err_msg=name)
    if asked is not GRADED:  # what is answered is of the columns as the server has them
        np.testing.assert_array_equal(first.message["columns"], rows.sum(axis=0))


def test_noise_is_the_same_in_whatever_order_a_server_asks(tmp_path):
    rows = signs(400)
    site = node(tmp_path, rows, NAMES, epsilon=4.0)
    asked, mixed = private_patterns(Elsewhere(), N, 4.0), np.array(NAMES)[ORDER]
    plain, other = put(site, asked, TOLD), put(site, asked, mixed)
    assert not plain.fault
    assert not other.fault, other.reason

    def matrix(reply):
        found = np.zeros((N, N), np.int64)
        found[np.tri(N, k=-1, dtype=bool)] = reply.message["counts"]
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
        plain = put(site, asked, TOLD, exchange, down=down)
        other = put(site, asked, mixed, exchange, down=turned)
        assert not plain.fault, plain.reason
        assert not other.fault, other.reason
        for name in ("signed", "seen"):
            np.testing.assert_array_equal(plain.message[name][:, ORDER], other.message[name])
        np.testing.assert_array_equal(plain.message["counts"], other.message["counts"])
        for name in more:
            full = np.zeros((2, N, N), np.int64)
            full[:, *np.triu_indices(N, 1)] = plain.message[name]
            full += full.transpose(0, 2, 1)
            turned_pairs = full[:, ORDER][:, :, ORDER][:, *np.triu_indices(N, 1)]
            np.testing.assert_array_equal(turned_pairs, other.message[name])
    refused(put(site, asked, mixed, 1, down={**down, "means": means[:, 1:]}), "malformed")


def test_other_columns_are_refused_and_their_names_stay(tmp_path):
    names = (*NAMES[:-1], "a secret \x1b[31m name")
    site = node(tmp_path, signs(), names)
    reply = put(site, method(), TOLD)
    refused(reply, "its columns are not those of the federation")
    assert "secret" not in reply.reason
    assert "lacks 'question 39' of the federation" in site.refused
    assert "has 'a secret \\x1b[31m name' beside" in site.refused
    assert "\x1b" not in site.refused


def test_a_question_about_other_columns_is_not_answered_from_what_was_said_before(tmp_path):
    site = node(tmp_path, signs(), NAMES)
    first = put(site, method(), TOLD)
    second = put(site, method(), tuple(np.array(NAMES)[ORDER]))
    np.testing.assert_array_equal(first.message["columns"][ORDER], second.message["columns"])


def test_tables_without_names_go_by_place():
    assert places_of((), 3, "abc") is None
    assert places_of((), 3, ()) is None
    with pytest.raises(OtherColumnsError, match="serve --columns FILE"):
        places_of("abc", 3, ())
    with pytest.raises(OtherColumnsError, match="3 columns, my table 2 without names"):
        places_of((), 2, "abc")


@pytest.mark.parametrize(
    "told",
    [["a", 1], ["a", "a"], ["", "b"], ["a" * 201, "b"], ["a\0b", "a\0c"], ["a"] * 10**6, [["a"]]],
    ids=lambda told: repr(told)[:20],
)
def test_what_says_nothing_of_columns_is_one_line(tmp_path, told):
    refused(put(node(tmp_path, signs(), NAMES), method(), told), "a malformed message from the")


def test_a_file_of_names(tmp_path):
    (tmp_path / "names.txt").write_text("tea\n\n  coffee, black \n")
    assert _columns(str(tmp_path / "names.txt")) == (2, ("tea", "coffee, black"))
    (tmp_path / "names.csv").write_text('tea;"coffee; black";water\n1;0;1\n')
    assert _columns(str(tmp_path / "names.csv"))[1] == ("tea", "coffee; black", "water")
    assert _columns("12") == (12, ())
    for name, data, words in (
        ("twice.txt", b"tea\ntea\n", "two columns are called"),
        ("long.txt", b"tea\n" + b"x" * 201, "200 characters"),
        ("one.txt", b"tea\n", "two names or more"),
        ("latin.txt", b"tea\n\xff\n", "no UTF-8"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises((ArgumentError, DataError), match=words) as caught:
            _columns(str(tmp_path / name))
        assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match="no such file"):
        _columns(str(tmp_path / "lost.txt"))
    with pytest.raises(ArgumentError, match="names"):
        serve.Config(columns=3, names=("a", "b"))


def parts(clients=3, rows=300):
    return np.array_split(signs(rows * clients), clients)


def in_order(rows, config):
    """Archetypes of the same federation of tables in one order, without names."""
    owners = tuple(as_examples(x, gaps=True) for x in rows)
    arrays, _ = serve.measure_round(0, config, 0, None, LocalEngine(), config.make(Batches(owners)))
    return serve.served_archetypes(config, {k: v[None, None] for k, v in arrays.items()})


CONFIG = serve.Config(columns=N, names=NAMES, clients=3, minimum=2, support=5.0, byzantine=0.0)


@pytest.mark.parametrize("graded", rest_slow([False, True], 1))
def test_archetypes_do_not_depend_on_the_order_of_files(tmp_path, graded):
    config = replace(CONFIG, graded=graded)
    orders = [np.random.default_rng(c).permutation(N) for c in range(3)]
    sites = {
        c: node(tmp_path / f"{c}", x[:, o], np.array(NAMES)[o])
        for c, (x, o) in enumerate(zip(parts(), orders, strict=True))
    }
    found, _ = Together(sites).play(config)
    np.testing.assert_array_equal(found, in_order(parts(), config))
    assert len(found) == 3


def test_one_with_other_columns_does_not_stop_the_others(tmp_path):
    x = parts()
    sites = {c: node(tmp_path / f"{c}", x[c], NAMES) for c in (0, 2)}
    sites[1] = node(tmp_path / "1", x[1], ("else", *NAMES[1:]))
    found, arrays = Together(sites).play(CONFIG)
    np.testing.assert_array_equal(found, in_order([x[c] for c in (0, 2)], CONFIG))
    assert (arrays["faults/code"] != 0).tolist() == [False, True, False]


MORE = tuple(f"x{j}" for j in range(N // 2))


SUPERSETS = {"all": (*NAMES, *MORE), "not all": (*NAMES[1:], *MORE), "half": NAMES[N // 2 :] + MORE}


def graded(names, **settings):
    return of_classes(Elsewhere(), len(names), **settings)


def private(names, epsilon=4.0, **settings):
    return private_classes(Elsewhere(), len(names), epsilon, **settings)


@pytest.mark.parametrize(
    ("asked", "epsilon"),
    [
        (graded, 4.0),
        (private, None),
        (lambda names: private(names, 5.0), 4.0),
        (lambda names: private(names, delta=1e-3), 4.0),
    ],
)
def test_a_refusal_of_more_columns_is_the_same_whatever_they_are_called(tmp_path, asked, epsilon):
    site = node(tmp_path, signs(400), NAMES, epsilon)
    for names in SUPERSETS.values():
        refused(put(site, asked(names), names), "its columns are not those of the")
    assert not list((tmp_path / "privacy").glob("ledger"))


def test_a_name_that_a_run_file_would_cut_is_refused():
    """Two names that begin alike became one in the run file of a client."""
    with pytest.raises(DataError, match="no text"):
        read_names(["tea\0a", "tea\0b"])
