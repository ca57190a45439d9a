"""Answers about classes without noise: servers that look for single rows, and clients that lie."""

import numpy as np
import pytest
from asking import N, ask, site, slices
from federations import Changed, of_classes, played, unjudged
from graded_tables import classes, error

from hopfed.experiments import serve
from hopfed.hopfield.batches import Batches, Elsewhere
from hopfed.tables.examples import as_examples

E, M = 19, 400  # exchanges of a round, rows


def asked():
    return of_classes(Elsewhere(1), N)


def table(gaps=0.0):
    return classes(3, N, M, 0, missing=gaps)[2]


def server_of(folder, rows):
    """Ask a client of these rows for sums over named classes, or what else an exchange is."""
    node = site(folder, rows)
    first = ask(node, asked())

    def question(means, shares, exchange=1, **directions):
        told = {"means": means, "shares": shares, **directions}
        down = {name: np.asarray(array, np.float32) for name, array in told.items()}
        return ask(node, asked(), 0, exchange, first.state, down)

    return first, question


def test_a_server_that_is_trusted_can_read_rows_off_as_the_page_says(tmp_path):
    rows, found = table(), []
    there = {tuple(row) for row in rows.astype(int)}
    for seed in range(2):  # each of them a server that knows nothing, in one round
        _, question = server_of(tmp_path / str(seed), rows)
        found.append(len(slices(rows, question, seed) & there))
    assert sum(found) >= 4  # nothing stops this but not to join


def billion(_, message):
    message["examples"] = np.asarray(10**9)
    if "counts" in message:
        own = np.sign(np.random.default_rng(9).standard_normal(N)).astype(np.float32)
        K = len(message["counts"])
        message["counts"] = np.full(K, 0.99e9 / K, np.float32)
        message["seen"] = np.tile(message["counts"][:, None], N)
        message["signed"] = message["seen"] * own
        if "log_likelihood" in message:
            message["log_likelihood"] = np.float64(-1e9 * N * 0.69)


def billion_later(exchange, message):
    if exchange:
        billion(exchange, message)


def unlikely(exchange, message):
    if exchange > 2 and "log_likelihood" in message:
        message["log_likelihood"] = np.float64(-1e300)


def steep(_, message):
    if "products" in message:
        message["products"] = np.full_like(message["products"], 1e30)


def silent(exchange, message):
    if exchange == 6:  # while classes are halved
        message.clear()


def federation(lie, clients=3):
    T, _, rows = classes(3, N, 200 * clients, 3)
    owners = tuple(as_examples(part, gaps=True) for part in np.array_split(rows, clients))
    method = unjudged(serve.Config(columns=N, clients=clients, graded=True).make(Batches(owners)))

    def first(call, message):
        if call.context.client == 0:
            lie(call.context.exchange, message)

    result = played(method, clients=clients, engine=Changed(first))
    return T, result.state.server["memory/means"], result.faults.words()


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (billion_later, "1000000000 examples, and 200 before"),
        (unlikely, "log_likelihood holds 1e+300, above examples"),
        (steep, "products holds 1e+30, above examples"),
        (silent, "is missing"),
    ],
    ids=["billion_later", "unlikely", "steep", "silent"],
)
def test_what_no_rows_give_is_refused_and_does_not_end_the_round(lie, words):
    _, means, faults = federation(lie)
    assert words in faults[0]
    assert np.abs(means).max() <= 1


def test_a_claim_of_a_billion_rows_does_not_put_the_classes_of_others_away():
    T, means, _ = federation(billion, 5)
    assert len(means) >= 3
    assert error(means, T) < 0.3  # it counts for three medians, and moves them all the same
