"""A table whose columns were moved in its file has the same record, budget and noise."""

import json

import numpy as np
import pytest
from asking import N, method, refused, signs
from click.testing import CliRunner
from federations import private_patterns
from named_owners import NAMES, ORDER, node, put

from hopfed.cli.machines import join
from hopfed.hopfield.batches import Elsewhere
from hopfed.hopfield.ledger import Ledger, Terms
from hopfed.hopfield.owner import as_recorded, pairs_laid_out
from hopfed.tables.examples import as_examples
from hopfed.tables.table import made_up
from hopfed.tables.writers import write

NOISY = private_patterns(Elsewhere(), N, 4.0)


MIXED = tuple(map(str, np.array(NAMES)[ORDER]))


def test_a_table_whose_columns_are_moved_has_no_fresh_noise(tmp_path):
    rows, told = signs(400), NAMES
    first = put(node(tmp_path, rows, NAMES, epsilon=4.0), NOISY, told)
    second = put(node(tmp_path, rows[:, ORDER], MIXED, epsilon=4.0), NOISY, told)
    assert not first.fault, first.reason
    np.testing.assert_array_equal(first.message["counts"], second.message["counts"])
    assert len(json.loads((tmp_path / "privacy" / "ledger").read_text())["released"]) == 1


def test_nor_does_it_leave_exactly_what_left_with_noise(tmp_path):
    rows = signs(400)
    assert not put(node(tmp_path, rows, NAMES, epsilon=4.0), NOISY, NAMES).fault
    for table, names in ((rows, NAMES), (rows[:, ORDER], MIXED)):
        for told in (NAMES, MIXED):
            refused(put(node(tmp_path, table, names), method(), told), "have a privacy budget")


@pytest.mark.parametrize("names", [NAMES, made_up(N)], ids=["names", "made up"])
def test_what_join_records_does_not_depend_on_the_order_of_columns(tmp_path, monkeypatch, names):
    """A header as hopfed writes it for a table without names counts as none, but has an order."""
    taken = []
    monkeypatch.setattr(join, "_join", lambda rows, *_, **__: taken.append(rows))
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    rows = signs(400)
    for order in (np.arange(N), ORDER):
        write(tmp_path / "a.csv", [(names[j], rows[:, j]) for j in order])
        options = ["--id", "", "--trust-server", "--server", "a:1", "--ca", "a", "--key", "a"]
        ended = CliRunner().invoke(join.join_command, ["--data", f"{tmp_path}/a.csv", *options])
        assert ended.exit_code == 0, ended.output
    np.testing.assert_array_equal(taken[0].signs, taken[1].signs)


def test_a_row_that_is_the_same_in_any_order_is_no_other_file(tmp_path):
    """All noes are all noes however columns lie; the same file was refused when it came again."""
    rows, ledger = signs(400), Ledger(tmp_path / "privacy")
    rows[7] = -1
    for _ in range(2):
        held, filed = as_recorded(as_examples(rows), NAMES, ledger)
        assert filed is not None
        ledger.check(held)
        ledger.charge(held, Terms(1.0, 1e-5))


def test_rows_without_names_stay_as_they_are(tmp_path):
    rows = as_examples(signs())
    assert as_recorded(rows, (), Ledger(tmp_path)) == (rows, None)


def test_what_had_noise_before_columns_were_sorted_is_found_again(tmp_path):
    rows, ledger = as_examples(signs()[:, ORDER]), Ledger(tmp_path / "privacy")
    assert as_recorded(rows, MIXED, ledger)[1] is not None
    ledger.charge(rows, Terms(1.0, 1e-5))
    assert as_recorded(rows, MIXED, ledger) == (rows, None)
    some = rows[:300]  # in sorted order nobody would know them: they would have fresh noise
    assert as_recorded(some, MIXED, ledger) == (some, None)


def test_pairs_of_columns_are_put_in_order():
    rng = np.random.default_rng(0)
    whole = rng.integers(1, 100, (5, 5))
    whole += whole.T
    places = np.array([3, 0, 4, 1, 2])
    due = whole[np.ix_(places, places)]
    lower, upper = np.tril_indices(5, -1), np.triu_indices(5, 1)
    np.testing.assert_array_equal(pairs_laid_out(whole[lower], places, False), due[lower])
    np.testing.assert_array_equal(pairs_laid_out(whole[upper], places, True), due[upper])
