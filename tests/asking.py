"""A client as `hopfed join` makes it, and a server that asks it what it likes, for tests."""

import numpy as np
from federations import of_patterns

from hopfed._lib.random import stream
from hopfed.federation.contract import Call, Context, Fault
from hopfed.federation.machines.client import ClientNode
from hopfed.federation.machines.wire import write_question
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.example_sources import RemoteSource
from hopfed.hopfield.operator_messages import pack_patterns
from hopfed.hopfield.owner import Owner
from hopfed.hopfield.privacy_ledger import Ledger
from hopfed.kernels.examples import as_examples

N, M = 40, 120


def signs(rows=M, columns=N, quality=0.7):
    rng = stream(0, "owners", rows, columns)
    return draw_examples(rademacher(3, columns, rng), rows, quality, rng)[0]


def site(folder, rows=None, epsilon=None, ledger=None):
    """Return a node as `hopfed join` makes it: with epsilon, or else with --trust-server."""
    rows = as_examples(signs() if rows is None else rows, gaps=True)
    owner = Owner(rows, ledger or Ledger(folder / "privacy"), epsilon)
    return ClientNode(owner.asked)


def ask(node, method, t=0, exchange=0, state=None, down=None, columns=None, **where):
    """Ask a node as a server that says what it likes; `method` may be the text of a recipe."""
    text = method if isinstance(method, str) else getattr(method, "client", method).recipe
    context = Context(where.get("seed", 0), t, exchange, where.get("client", 0))
    call = Call(state or {}, down or {}, context)
    return node.answer(write_question(call, text, columns=() if columns is None else columns))


def refused(reply, words):
    assert reply.fault == Fault.RAISED
    assert words in reply.reason
    assert "\n" not in reply.reason
    assert not reply.message
    return True


def method(rounds=1, columns=N, **settings):
    return of_patterns(RemoteSource(rounds), columns, **settings)


def known(patterns, quality=0.9):
    sure = np.ones(len(patterns), np.float32)
    return {
        "patterns": pack_patterns(np.asarray(patterns)),
        "sure": sure,
        "quality": np.float32(quality),
    }


def slices(rows, question, seed, questions=17, columns=3):
    """Guess rows by sums over halves of cells whose border moves a little: differences of few."""
    rng, guesses, before = np.random.default_rng(seed), set(), None
    cells = np.array(np.meshgrid(*[[-1, 1]] * columns)).reshape(columns, -1).T
    way = np.zeros(N)
    way[columns:] = rng.choice([0.25, 0.5, 1], N - columns) * rng.choice([-1, 1], N - columns)
    middle = round(float(way @ rows.mean(axis=0)) * 2) / 2 + way.sum() % 0.5 + 0.25
    halves = np.tile(np.tanh(7.2 * np.array([[-1], [1]]) * way), (len(cells), 1))
    halves[:, :columns] = 0.999999 * np.repeat(cells, 2, axis=0)
    for i in range(questions):
        at = middle + (i - questions // 2) / 2
        shares = np.tile(np.exp(7.2 * at * np.array([1.0, -1.0])), len(cells))
        up = question(halves, shares / shares.sum()).message
        now = up["counts"], up["signed"]
        for k in range(0, 2 * len(cells), 2) if before else ():
            told = min(*now[0][k : k + 2], *before[0][k : k + 2]) > 0
            if told and 0.8 < now[0][k] - before[0][k] < 1.2:
                guesses.add(tuple(np.sign(now[1][k] - before[1][k]).astype(int)))
        before = now
    return guesses
