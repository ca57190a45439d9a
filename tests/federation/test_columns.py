"""Names of columns across machines: the same ones in another order, others, and none."""

import numpy as np
import pytest
from asking import N, ask, method, refused, signs
from click.testing import CliRunner
from federations import of_classes, private_patterns

from hopfed.cli.machines import join
from hopfed.cli.machines.serve import _columns
from hopfed.errors import ArgumentError, DataError, OtherColumnsError
from hopfed.experiments import serve
from hopfed.federation.machines.client import Node
from hopfed.federation.messages import digest
from hopfed.hopfield.announcement import check_columns, in_order
from hopfed.hopfield.ledger import Ledger, Terms
from hopfed.hopfield.owner import Owner, as_recorded
from hopfed.hopfield.stream import Elsewhere
from hopfed.tables.examples import as_examples
from hopfed.tables.table import made_up
from hopfed.tables.writers import write

NAMES = tuple(f"question {j}" for j in range(N))
ORDER = np.random.default_rng(5).permutation(N)
MIXED = tuple(map(str, np.array(NAMES)[ORDER]))
NOISY = private_patterns(Elsewhere(), N, 4.0)


def node(folder, rows, names, epsilon=None):
    """Return a node as `hopfed join` makes it of a table with names, in a home of its own."""
    ledger, order = Ledger(folder / "privacy"), in_order(names)
    rows = as_recorded(as_examples(rows, gaps=True), names, ledger)
    return Node(Owner(rows, ledger, epsilon, 1e-5, tuple(names[j] for j in order)).asked)


@pytest.mark.parametrize("asked", [method(), of_classes(Elsewhere(), N), NOISY])
def test_the_order_of_a_file_changes_no_bit_of_an_answer(tmp_path, asked):
    """Nor its noise; and what left with noise does not leave exactly, in whatever order."""
    rows, noisy = signs(400), asked.client.noise is not None
    orders = (rows, NAMES), (rows[:, ORDER], MIXED)
    first, second = (
        ask(node(tmp_path, *each, 4.0 if noisy else None), asked, columns=NAMES).message
        for each in orders
    )
    assert digest(first) == digest(second)
    if "columns" in first:  # what is answered is of the columns as the server has them
        np.testing.assert_array_equal(first["columns"], rows.sum(axis=0))
    for each in orders if noisy else ():
        reply = ask(node(tmp_path, *each), method(), columns=NAMES)
        refused(reply, "have a privacy budget")
    reply = ask(node(tmp_path, rows, NAMES, 4.0), NOISY, columns=MIXED)
    refused(reply, "not in the order of names")


def test_names_made_up_by_number_lie_in_their_order():
    assert in_order(made_up(120)) == list(range(120))
    check_columns((), 3, ())
    check_columns(("b", "aa"), 2, ["b", "aa"])
    for own, given, words in (("abc", (), "serve --columns FILE"), ((), "abc", "no names")):
        with pytest.raises(OtherColumnsError, match=words):
            check_columns(own, 3, given)


def test_other_columns_are_refused_and_their_names_stay(tmp_path):
    site = node(tmp_path, signs(), (*NAMES[:-1], "a secret \x1b[31m name"))
    reply = ask(site, method(), columns=NAMES)
    refused(reply, "its columns are not those of the federation")
    assert "secret" not in reply.reason
    assert "lacks 'question 39' of the federation" in site.refused
    assert "has 'a secret \\x1b[31m name' beside" in site.refused


@pytest.mark.parametrize(
    "told",
    [["a", 1], ["a", "a"], ["", "b"], ["a" * 201, "b"], ["a\0b", "a\0c"], ["a"] * 10**6, [["a"]]],
    ids=lambda told: repr(told)[:20],
)
def test_what_says_nothing_of_columns_is_one_line(tmp_path, told):
    reply = ask(node(tmp_path, signs(), NAMES), method(), columns=told)
    refused(reply, "a malformed message from the")


def test_a_file_of_names(tmp_path):
    (tmp_path / "names.txt").write_text("tea\n\n  coffee, black \n")
    assert _columns(str(tmp_path / "names.txt")) == (2, ("tea", "coffee, black"))
    assert _columns("12") == (12, ())
    for data, words in (
        (b"tea\ntea\n", "two columns are called"),
        (b"tea\n" + b"x" * 201, "200 characters"),
        (b"tea\n", "two names or more"),
        (b"tea\n\xff\n", "cannot be read as names of columns"),
    ):
        (tmp_path / "wrong.txt").write_bytes(data)
        with pytest.raises((ArgumentError, DataError), match=words):
            _columns(str(tmp_path / "wrong.txt"))
    with pytest.raises(DataError, match="no such file"):
        _columns(str(tmp_path / "lost.txt"))
    with pytest.raises(ArgumentError, match="names"):
        serve.Config(columns=3, names=("a", "b"))


@pytest.mark.parametrize("names", [NAMES, made_up(N)], ids=["names", "made up"])
def test_what_join_records_does_not_depend_on_the_order_of_columns(tmp_path, monkeypatch, names):
    """A header as hopfed writes it for a table without names counts as none, but has an order."""
    taken = []
    monkeypatch.setattr(join, "_join", lambda owner, *_: taken.append(owner.rows))
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    rows = signs(400)
    for order in (np.arange(N), ORDER):
        write(tmp_path / "a.csv", [(names[j], rows[:, j]) for j in order])
        options = ["--id", "", "--trust-server", "--server", "a:1", "--ca", "a", "--key", "a"]
        ended = CliRunner().invoke(join.join_command, ["--data", f"{tmp_path}/a.csv", *options])
        assert ended.exit_code == 0, ended.output
    np.testing.assert_array_equal(taken[0].signs, taken[1].signs)


@pytest.mark.parametrize("before", [slice(None), np.argsort(MIXED)], ids=["filed", "alphabetic"])
def test_what_had_noise_in_another_order_of_columns_is_refused(tmp_path, before):
    table, ledger = signs()[:, ORDER], Ledger(tmp_path / "privacy")
    ledger.charge(as_examples(table[:, before]), Terms(1.0, 1e-5))
    with pytest.raises(DataError, match="columns in another order"):
        as_recorded(as_examples(table[:300]), MIXED, ledger)
