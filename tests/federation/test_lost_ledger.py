"""A ledger that was lost, or put back as it was before: the record knows of the noise, too."""

import shutil

import numpy as np
import pytest
from asking import N, ask, method, refused, signs, site
from graded_tables import classes

from hopfed.federation.messages import digest
from hopfed.hopfield.batches import Elsewhere
from hopfed.hopfield.graded.private import PrivateClasses
from hopfed.hopfield.noisy import PrivateFederation
from hopfed.hopfield.site.budget import Ledger, Terms
from hopfed.hopfield.site.released import Released
from hopfed.tables.examples import as_examples

M, E = 400, 9
ROWS = {"operators": signs(M), "classes": classes(3, N, M, 0, missing=0.2)[2]}
METHODS = {"operators": PrivateFederation, "classes": PrivateClasses}


def client(folder, rows, epsilon=1.0):
    """Return a client, started again, whose owner agrees to noise of epsilon."""
    limits = {} if epsilon is None else {"classes": E}
    return site(folder, rows, epsilon=epsilon, ledger=Ledger(folder / "privacy"), **limits)


@pytest.fixture(params=["older", "lost", "lost with its secret"])
def loses(request, tmp_path):
    """Return what is called to release other rows first, and then to lose the ledger."""
    folder, copy = tmp_path / "privacy", tmp_path / "copy"

    def lose():
        shutil.rmtree(folder) if request.param.endswith("secret") else (folder / "ledger").unlink()
        if request.param == "older":
            shutil.copy(copy, folder / "ledger")

    Ledger(folder).charge(*other_rows())
    shutil.copy(folder / "ledger", copy)
    return lose


def other_rows():
    random = np.random.default_rng(9).random((60, N))
    return as_examples(np.where(random < 0.5, 1, -1)), Terms(1.0, 0.1)


@pytest.mark.parametrize("kind", list(METHODS))
def test_rows_get_no_fresh_noise_under_an_older_ledger(tmp_path, loses, kind):
    asked = METHODS[kind](Elsewhere(1), N, 1.0)
    first = ask(client(tmp_path, ROWS[kind]), asked)
    assert first.up
    loses()
    before = (tmp_path / "privacy" / "ledger").exists()
    less = METHODS[kind](Elsewhere(1), N, 0.9)
    refused(ask(client(tmp_path, ROWS[kind]), less), "not released on other terms")
    assert (tmp_path / "privacy" / "ledger").exists() == before  # so that nothing is charged
    again = ask(client(tmp_path, ROWS[kind]), asked)
    assert not again.up or digest(again.up) == digest(first.up)


def test_rows_that_had_noise_do_not_leave_without_it_under_an_older_ledger(tmp_path, loses):
    rows = ROWS["operators"]
    assert ask(client(tmp_path, rows), PrivateFederation(Elsewhere(1), N, 1.0)).up
    loses()
    exact = method(votes=False)
    refused(ask(client(tmp_path, rows, None), exact), "have a privacy budget")


def test_what_left_exactly_may_leave_with_noise_still(tmp_path):
    rows = ROWS["operators"]
    assert ask(client(tmp_path, rows, None), method(votes=False)).up
    noisy = PrivateFederation(Elsewhere(1), N, 1.0)
    first, again = (ask(client(tmp_path, rows), noisy, run=run) for run in "ab")
    assert first.up
    assert digest(first.up) == digest(again.up)


def test_who_deals_anew_while_nothing_left_keeps_the_noise(tmp_path):
    record = Released(tmp_path / "one.json")
    record.promise("epsilon 1", "mark", 2)
    record.deal(3, own=True)
    assert Released(tmp_path / "one.json").terms == "epsilon 1"
    assert Released(tmp_path / "one.json").rounds == 3
