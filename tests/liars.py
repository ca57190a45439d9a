"""Federations some of whose clients lie, for tests."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed.archetypes.overlap import retrieval
from hopfed.experiments.serve import Config, measure_round
from hopfed.federation.engines import LocalEngine
from hopfed.federation.rounds import FederationState
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.operator_messages import unpack_patterns

GROWING = ("counts", "columns", "examples", "groups", "sizes", "votes", "voters")


@dataclass(frozen=True)
class Owners:
    """Rows of clients, of which those of some are made up.

    Attributes
    ----------
    rows : one array (M, N) for each client.
    """

    rows: tuple[Any, ...]

    def examples(self, t, client):
        return kernels.pack(self.rows[client])


def owners(made_up, honest, N=200, M=300, K=3, r=0.8, seed=0, shares=None):
    """Clients of the archetypes xi (K, N), after those whose rows are `made_up`: (xi, Owners).

    `made_up` are functions of (xi, random numbers); `shares` the numbers of rows of the others.
    """
    rng = np.random.default_rng(seed)
    xi = rademacher(K, N, rng)
    sizes = [M] * honest if shares is None else shares
    true = [draw_examples(xi, m, r, rng)[0] for m in sizes]
    return xi, Owners((*(make(xi, rng) for make in made_up), *true))


def own(M=300, r=1.0, seed=99):
    """Make rows of an archetype of one's own, with noise or without."""

    def make(xi, rng):
        u = rademacher(1, xi.shape[1], np.random.default_rng(seed))
        return draw_examples(u, M, r, rng)[0]

    return make


def close(M=300, share=0.12):
    """Make rows that are the archetypes with some sites turned, the same in every row."""

    def make(xi, rng):
        turned = np.where(rng.random(xi.shape) < share, -xi, xi).astype(np.int8)
        return turned[np.arange(M) % len(xi)]

    return make


def against(M=300):
    """Make rows that are the negatives of one archetype."""

    def make(xi, rng):
        return np.repeat(-xi[:1], M, axis=0)

    return make


def noise(M=300):
    """Make rows that hold nothing."""

    def make(xi, rng):
        return rademacher(M, xi.shape[1], rng)

    return make


def lying(method, change, liars=1):
    """The method, the messages of whose first clients are changed before they are sent.

    `change` takes a message, the message it answers, the exchange's name, and random numbers.
    """

    class Changed:
        def __init__(self, client):
            self.honest = client

        def __getattr__(self, name):
            return getattr(self.honest, name)

        def client_step(self, state, down, context):
            state, message, metrics = self.honest.client_step(state, down, context)
            if context.client < liars:
                rng = np.random.default_rng([context.round, context.exchange, context.client])
                step = self.honest.steps[context.exchange]
                message = message | change(message, down, step, rng)
            return state, message, metrics

    @dataclass(frozen=True)
    class Lying(type(method)):
        @cached_property
        def client(self):
            return Changed(method.client)

    return Lying(**{f.name: getattr(method, f.name) for f in fields(method)})


def claiming(times):
    """Say everything so many times over: as honest as ever, of so many times the examples."""

    def change(message, down, step, rng):
        wide = {
            k: v.astype(np.int64 if v.dtype.kind in "iu" else v.dtype) for k, v in message.items()
        }
        return {k: v * times for k, v in wide.items() if k in GROWING}

    return change


def overlap(patterns, x):
    """The largest |overlap| that one of the patterns has with x."""
    return float(np.abs(patterns.astype(float) @ x / len(x)).max(initial=0.0))


def assert_found(told, xi, least=1.0):
    """Every archetype is among those told, nearly at `least`, and nothing else is."""
    found = retrieval(told, xi)
    assert found.magnetisation.min() >= least
    assert found.false_discoveries == 0


def served(made_up, honest, change=None, rounds=1, settings=None, engine=None, **options):
    """Serve at the defaults: archetypes, what is told, and the arrays of the last round.

    The messages of the clients whose rows are `made_up` are changed as well, if something does.
    """
    xi, source = owners(made_up, honest, **options)
    config = Config(
        columns=xi.shape[1], clients=len(source.rows), rounds=rounds, **(settings or {})
    )
    method = config.make(source)
    if change is not None:
        method = lying(method, change, len(made_up))
    state = FederationState(method.server_start(0))
    for t in range(rounds):
        arrays, after = measure_round(0, config, t, state, engine or LocalEngine(), method)
        state = after or state
    number = int(arrays["archetypes/number"])
    return xi, unpack_patterns(arrays["archetypes/packed"][:number], xi.shape[1]), arrays
