"""Federations from settings by name, for tests."""

from dataclasses import fields, replace

import numpy as np

import hopfed.hopfield.byzantine_guard as guards
from hopfed.experiments import serve
from hopfed.federation.engines import LocalEngine
from hopfed.federation.rounds import play_round
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.class_channel import Classes
from hopfed.hopfield.noise import Noise
from hopfed.hopfield.pattern_channel import Patterns

GUARD = [f.name for f in fields(guards.Guard)]


def _made(channel, source, first, settings, cls):
    noise = {n: settings.pop(n) for n in ("epsilon", "delta", "secret") if n in settings}
    guard = guards.Guard(**{n: settings.pop(n) for n in GUARD if n in settings})
    return cls(source, channel(first, **settings), Noise(**noise) if noise else None, guard)


def of_patterns(source, n_sites, cls=HopfieldFederation, **settings):
    """A federation of patterns; settings of the channel, the guard and the noise by name."""
    return _made(Patterns, source, n_sites, settings, cls)


def of_classes(source, n_sites, cls=HopfieldFederation, **settings):
    """A federation of classes, in the same way."""
    return _made(Classes, source, n_sites, settings, cls)


def private_patterns(source, n_sites, epsilon, delta=1e-5, **settings):
    """A federation of patterns with noise."""
    own = {"discount": 1.0, "support": 50.0, **settings}
    return of_patterns(source, n_sites, epsilon=epsilon, delta=delta, **own)


def private_classes(source, n_sites, epsilon, delta=1e-5, **settings):
    """A federation of classes with noise."""
    own = {"discount": 1.0, "support": 50.0, "claim": 3.0, **settings}
    return of_classes(source, n_sites, epsilon=epsilon, delta=delta, **own)


def played(method, rounds=1, state=None, start=0, each=None, **how):
    """The last of some rounds, of four clients here if nothing else is said."""
    how = {"seed": 0, "clients": 4, "engine": LocalEngine()} | how
    for t in range(start, start + rounds):
        result = play_round(method, state, t, **how)
        state = result.state
        if each:
            each(result)
    return result


class Changed(LocalEngine):
    """Clients whose messages are changed: `change` gets a call and what it is answered."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def step(self, method, calls):
        outcomes = super().step(method, calls)
        for call, outcome in zip(calls, outcomes, strict=True):
            if outcome.message:
                self.change(call, outcome.message)
        return outcomes


def announced(config, owners):
    """What a server of these settings tells of the rows of owners, and its last round."""
    method, state = config.make(owners), None
    for t in range(config.rounds):
        arrays, state = serve.measure_round(0, config, t, state, LocalEngine(), method)
    arrays = {name: np.asarray(array)[None, None] for name, array in arrays.items()}
    return serve.announcement(config, arrays), arrays


def unjudged(method):
    """The federation without the verdict, for tests of what it finds: half of a round's time."""
    return replace(method, channel=replace(method.channel, judged=0))
