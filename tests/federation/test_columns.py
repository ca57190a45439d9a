"""Columns of owners: their names, in whatever order, and how they are coded: by no row."""

import numpy as np
import pytest
from asking import N, ask, method, refused, signs
from click.testing import CliRunner
from federations import of_classes, private_patterns

from hopfed._lib.random import stream
from hopfed.cli.machines import join
from hopfed.cli.machines.serve import _columns
from hopfed.errors import ArgumentError, DataError, OtherColumnsError
from hopfed.experiments import serve
from hopfed.federation.machines.client import ClientNode
from hopfed.federation.messages import digest
from hopfed.hopfield.announcement import check_columns, column_order
from hopfed.hopfield.example_sources import RemoteSource
from hopfed.hopfield.owner import Owner, sort_columns
from hopfed.hopfield.privacy_ledger import Ledger, Terms
from hopfed.kernels.examples import as_examples
from hopfed.tables.reading import read_table
from hopfed.tables.table import made_up_names
from hopfed.tables.writers import write

NAMES = tuple(f"question {j}" for j in range(N))
ORDER = np.random.default_rng(5).permutation(N)
MIXED = tuple(map(str, np.array(NAMES)[ORDER]))
NOISY = private_patterns(RemoteSource(), N, 4.0)


def node(folder, rows, names, epsilon=None):
    """Return a node as `hopfed join` makes it of a table with names, in a home of its own."""
    ledger, order = Ledger(folder / "privacy"), column_order(names)
    rows = sort_columns(as_examples(rows, gaps=True), names, ledger)
    return ClientNode(Owner(rows, ledger, epsilon, 1e-5, tuple(names[j] for j in order)).asked)


@pytest.mark.parametrize("asked", [method(), of_classes(RemoteSource(), N), NOISY])
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


LIES = [["a", 1], ["a", "a"], ["", "b"], ["a" * 201, "b"], ["a\0b", "a\0c"], ["a"] * 10**6, [["a"]]]


@pytest.mark.parametrize("told", [*LIES, MIXED], ids=lambda told: repr(told)[:20])
def test_what_says_nothing_of_columns_is_one_line(tmp_path, told):
    reply = ask(node(tmp_path, signs(), NAMES), method(), columns=told)
    refused(reply, "a malformed message from the")


def test_other_columns_are_refused_and_their_names_stay(tmp_path):
    site = node(tmp_path, signs(), (*NAMES[:-1], "a secret \x1b[31m name"))
    reply = ask(site, method(), columns=NAMES)
    refused(reply, "its columns are not those of the federation")
    assert "secret" not in reply.reason
    assert "lacks 'question 39' of the federation" in str(site.ended)
    assert "has 'a secret \\x1b[31m name' beside" in str(site.ended)
    assert column_order(made_up_names(120)) == list(range(120))
    check_columns((), 3, ())
    for own, given, words in (("abc", (), "serve --columns FILE"), ((), "abc", "no names")):
        with pytest.raises(OtherColumnsError, match=words):
            check_columns(own, 3, given)


def test_a_file_of_names(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("tea\n\n  coffee, black \n")
    assert _columns(str(path)) == (2, ("tea", "coffee, black"))
    assert _columns("12") == (12, ())
    for data in (b"tea\ntea\n", b"tea\n" + b"x" * 201, b"tea\n", b"tea\n\xff\n"):
        path.write_bytes(data)
        with pytest.raises((ArgumentError, DataError), match=r"two names or|as names of"):
            _columns(str(path))
    with pytest.raises(ArgumentError, match="names"):
        serve.Config(columns=3, names=("a", "b"))


@pytest.mark.parametrize("names", [NAMES, made_up_names(N)], ids=["names", "made up"])
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
        sort_columns(as_examples(table[:300]), MIXED, ledger)


M = 400
ANSWERS = stream(0, "answers").integers(0, 2, (M, 6))


@pytest.fixture
def look(hopfed, tmp_path, monkeypatch):
    """What `hopfed join` says of columns that it would take part with."""
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))

    def said(head, columns, *options, way=("--epsilon", "1")):
        rows = zip(*columns, strict=True)
        path = tmp_path / "a.csv"
        path.write_text("\n".join([*head, *(",".join(map(str, row)) for row in rows)]))
        status, out, err = hopfed("join", "--data", path, "--dry-run", *way, *options)
        assert status == (2 if err else 0)
        return err or out

    return said


WORDS, CUT = ("--words", "ash=-1,yew=+1,oak=+1"), ("--binarize", "own=12")
MEAN, MEDIAN = (("--binarize", f"own={how}") for how in ("mean", "median"))
TREES = ["ash"] * 200 + ["yew"] * 200
CHANGED = [  # the column of one table, what the last person says in the other one, what settles it
    (["ash"] * M, "yew", (), WORDS, "--ignore"),
    (TREES, "oak", (), WORDS, "--words ash=-1,yew=+1"),
    (["5"] * M, "7", (), ("--words", "5=-1,7=+1,0=+1"), "--words 5="),
    (["10"] * 200 + ["20"] * 199 + ["30"], "10", MEAN, CUT, "--binarize COLUMN=NUMBER"),
    (["10"] * 200 + ["20"] * 200, "90", MEDIAN, CUT, "--binarize COLUMN=NUMBER"),
    (["ash", "oak", "yew", "fir"] * 100, "ash", (), ("--ignore", "own"), "--ignore"),
    # beside a 7, no 1 would be +1
    (["1"] * 399 + ["0"], "1", ("--binarize", "own=5"), (), "--binarize COLUMN=NUMBER"),
]
HEAD = ["a,b,c,d,e,f,own"]


@pytest.mark.parametrize(("column", "last", "options", "settled", "advice"), CHANGED)
def test_with_epsilon_no_row_decides_how_others_are_coded(
    look, column, last, options, settled, advice
):
    """Of "ash" alone and of 399 "ash" and a "yew", 399 rows were opposite; noise is for one."""
    for cells in (column, [*column[:-1], last]):
        assert "decide how column 'own' is coded" in look(HEAD, [*ANSWERS.T, cells], *options)
        assert "Nothing was sent" in look(HEAD, [*ANSWERS.T, cells], *settled)
    said = look(HEAD, [*ANSWERS.T, column], *options)
    assert advice in said.partition("for any rows: ")[2]
    if column == TREES or options == MEDIAN:  # without noise either: one's 2 is another's "ja"
        said = look(HEAD, [*ANSWERS.T, column], *options, way=("--trust-server",))
        assert "decide how column 'own' is coded, so that other owners' columns may mean" in said


@pytest.mark.parametrize(("cells", "last"), [(["0", "1"] * 200, "-1"), (["-"] * 400, "+")])
def test_no_row_decides_which_entries_of_others_are_missing(look, cells, last):
    """Where both tables are taken, a - is a gap in either."""
    assert "Nothing was sent" in look(HEAD, [*ANSWERS.T, cells])
    said = look(HEAD, [*ANSWERS.T, [*cells[:-1], last]])
    assert ("own=0=missing" if last == "-1" else "These rows have gaps") in said


@pytest.mark.parametrize("changed", [0, 1])
def test_with_epsilon_no_row_decides_which_column_is_left_out(look, changed):
    """Two columns of whole numbers, one of which would name rows but for one row."""
    draws = stream(0, "tables")
    scores, index = draws.integers(0, 100, (M, 3)), draws.permutation(M)
    columns = [np.arange(M), index, *scores.T]
    columns[changed][7] = columns[changed][8]  # which no longer differ, and are no names
    table = ["key,index,a,b,c"], columns, "--binarize", "50"
    assert f"how column '{['index', 'key'][changed]}' is" in look(*table)
    for settled in (["--id", "key"], ["--id", ""], ["--ignore", "key,index"]):
        assert "Nothing was sent" in look(*table, *settled)


@pytest.mark.parametrize("last", [["ash", "yew"], ["0", "1"]])
def test_the_first_row_is_not_taken_for_names(tmp_path, look, last):
    """Where its words are said to be entries, it told of itself by the number of rows."""
    draws = stream(0, "tables")
    cells = [draws.choice(words, M + 1) for words in (["ash", "yew"], last)]
    assert "Nothing was sent" in look([], cells, "--words", "ash=+1", "--words", "yew=-1")
    assert len(read_table(tmp_path / "a.csv", words={"ash": True, "yew": False})) == M + 1
