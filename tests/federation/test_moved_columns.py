"""A table whose columns were moved in its file has the same record, budget and noise."""

import json

import numpy as np
import pytest
from asking import N, method, refused, signs
from click.testing import CliRunner
from named_owners import NAMES, ORDER, node, put

from hopfed.cli.machines import join
from hopfed.hopfield.batches import Elsewhere
from hopfed.hopfield.headers import digest_of, told_names
from hopfed.hopfield.noisy import PrivateFederation
from hopfed.hopfield.site.budget import Ledger, Terms
from hopfed.hopfield.site.named_owner import as_recorded
from hopfed.hopfield.site.released import Released
from hopfed.tables.examples import as_examples
from hopfed.tables.table import made_up
from hopfed.tables.writers import write

NOISY = PrivateFederation(Elsewhere(), N, 4.0)


SORTED = {"sorted": digest_of(sorted(NAMES), "run")}


MIXED = tuple(map(str, np.array(NAMES)[ORDER]))


@pytest.mark.parametrize("told", [told_names(NAMES), SORTED], ids=["names", "digests"])
def test_a_table_whose_columns_are_moved_has_no_fresh_noise(tmp_path, told):
    rows = signs(400)
    first = put(node(tmp_path, rows, NAMES, epsilon=4.0), NOISY, told)
    second = put(node(tmp_path, rows[:, ORDER], MIXED, epsilon=4.0), NOISY, told)
    assert not first.fault, first.reason
    np.testing.assert_array_equal(first.up["counts"], second.up["counts"])
    assert len(json.loads((tmp_path / "privacy" / "ledger").read_text())["released"]) == 1


def test_nor_does_it_leave_exactly_what_left_with_noise(tmp_path):
    rows = signs(400)
    assert not put(node(tmp_path, rows, NAMES, epsilon=4.0), NOISY, SORTED).fault
    moved = node(tmp_path, rows[:, ORDER], MIXED, smallest_set=1)
    for told in ({}, SORTED, told_names(MIXED), {"ordered": digest_of(MIXED, "run")}):
        refused(put(moved, method(), told), "have a privacy budget")


def test_a_table_in_two_orders_has_one_record(tmp_path):
    rows = signs()
    for table, names in ((rows, NAMES), (rows[:, ORDER], MIXED)):
        assert not put(node(tmp_path, table, names, smallest_set=1), method(), SORTED).fault
    assert len(list((tmp_path / "released").glob("*.json"))) == 1


@pytest.mark.parametrize("told", [{}, {"ordered": digest_of(MIXED, "run")}], ids=["", "ordered"])
def test_where_columns_go_by_place_answers_are_of_the_file(tmp_path, told):
    rows = signs(400)[:, ORDER]
    exact = put(node(tmp_path / "exact", rows, MIXED, smallest_set=1), method(), told)
    np.testing.assert_array_equal(exact.up["columns"], rows.sum(axis=0))
    assert "by_name" not in exact.metrics
    noisy = put(node(tmp_path / "noisy", rows, MIXED, epsilon=4.0), NOISY, told)
    named = put(node(tmp_path / "noisy", rows, MIXED, epsilon=4.0), NOISY, told_names(MIXED))
    np.testing.assert_array_equal(noisy.up["counts"], named.up["counts"])
    assert "by_name" in named.metrics
    assert "by_name" not in noisy.metrics


def test_what_left_before_columns_were_sorted_keeps_its_record(tmp_path):
    rows, ledger = as_examples(signs()[:, ORDER]), Ledger(tmp_path / "privacy")
    assert as_recorded(rows, MIXED, ledger, tmp_path / "released")[1] is not None
    Released.of(tmp_path / "released", rows).deal(1)
    assert as_recorded(rows, MIXED, ledger, tmp_path / "released") == (rows, None)
    assert as_recorded(rows, MIXED, ledger, tmp_path / "elsewhere")[1] is not None
    ledger.charge(rows, Terms(1.0, 1e-5))
    assert as_recorded(rows, MIXED, ledger, tmp_path / "elsewhere") == (rows, None)
    some = rows[:300]  # in sorted order nobody would know them: they would have fresh noise
    assert as_recorded(some, MIXED, ledger, tmp_path / "elsewhere") == (some, None)


@pytest.mark.parametrize("first", [slice(None, None, -1), slice(300)], ids=["turned", "a part"])
def test_an_older_record_makes_nobody_forget_what_had_noise(tmp_path, first):
    """Rows dealt in the order of the file once, and released with noise in sorted order since."""
    rows = signs(400)[:, ORDER]
    Released.of(tmp_path / "released", as_examples(rows)).deal(1)  # of which nothing left
    some = put(node(tmp_path, rows[first], MIXED, epsilon=4.0), NOISY, SORTED)
    assert not some.fault, some.reason
    moved = node(tmp_path, rows, MIXED, smallest_set=1)
    for told in (SORTED, told_names(MIXED), told_names(NAMES)):
        refused(put(moved, method(), told), "have a privacy budget")
    again = put(node(tmp_path, rows, MIXED, epsilon=4.0), NOISY, SORTED)
    if len(rows[first]) < len(rows):
        refused(again, "a part of these examples was released before")
    else:
        np.testing.assert_array_equal(again.up["counts"], some.up["counts"])


@pytest.mark.parametrize("names", [NAMES, made_up(N)], ids=["names", "made up"])
def test_what_join_records_does_not_depend_on_the_order_of_columns(tmp_path, monkeypatch, names):
    """A header as hopfed writes it for a table without names counts as none, but has an order."""
    taken = []
    monkeypatch.setattr(join, "_join", lambda rows, *_, **__: taken.append(rows))
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    rows = signs(400)
    for order in (np.arange(N), ORDER):
        write(tmp_path / "a.csv", [(names[j], rows[:, j]) for j in order])
        options = ["--id", "", "--smallest-set", "1", "--server", "a:1", "--ca", "a", "--key", "a"]
        ended = CliRunner().invoke(join.join_command, ["--data", f"{tmp_path}/a.csv", *options])
        assert ended.exit_code == 0, ended.output
    np.testing.assert_array_equal(taken[0].words, taken[1].words)


def test_a_row_that_is_the_same_in_any_order_is_no_other_file(tmp_path):
    """All noes are all noes however columns lie; the same file was refused when it came again."""
    rows, ledger = signs(400), Ledger(tmp_path / "privacy")
    rows[7] = -1
    for _ in range(2):
        held, filed = as_recorded(as_examples(rows), NAMES, ledger, tmp_path / "released")
        assert filed is not None
        ledger.check(held)
        ledger.charge(held, Terms(1.0, 1e-5))


def test_rows_without_names_stay_as_they_are(tmp_path):
    rows = as_examples(signs())
    assert as_recorded(rows, (), Ledger(tmp_path), tmp_path) == (rows, None)


def moved(folder, epsilon):
    """Ask about a table with noise, and again after its columns were moved in the file."""
    rows, order = signs(400), np.random.default_rng(71).permutation(N)
    Released.of(folder / "released", as_examples(rows)).deal(1)  # in file order; nothing left
    first = put(node(folder, rows, MIXED, epsilon=4.0, smallest_set=1), NOISY, told_names(MIXED))
    names = tuple(map(str, np.array(MIXED)[order]))
    again = node(folder, rows[:, order], names, epsilon=epsilon, smallest_set=1)
    return first, put(again, NOISY if epsilon else method(), told_names(MIXED))


def test_noise_is_of_sorted_columns_whatever_was_dealt_before(tmp_path):
    first, again = moved(tmp_path, 4.0)
    np.testing.assert_array_equal(first.up["counts"], again.up["counts"])


def test_nor_does_it_leave_exactly_once_columns_were_moved(tmp_path):
    _, again = moved(tmp_path, None)
    assert again.fault
    assert "columns" not in again.up
