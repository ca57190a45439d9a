"""Federations from settings by name, for tests."""

from dataclasses import fields, replace

import hopfed.hopfield.guard as guards
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.classes import Classes
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.noise import Noise
from hopfed.hopfield.patterns import Patterns

GUARD = [f.name for f in fields(guards.Guard)]


def _made(channel, source, first, settings, cls):
    noise = {n: settings.pop(n) for n in ("epsilon", "delta", "secret") if n in settings}
    guard = guards.Guard(**{n: settings.pop(n) for n in GUARD if n in settings})
    return cls(source, channel(first, **settings), Noise(**noise) if noise else None, guard)


def of_patterns(source, encoding, cls=HopfieldFederation, **settings):
    """A federation of patterns; settings of the channel, the guard and the noise by name."""
    encoding = Encoding(encoding) if isinstance(encoding, int) else encoding
    return _made(Patterns, source, encoding, settings, cls)


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


def unjudged(method):
    """The federation without the verdict, for tests of what it finds: half of a round's time."""
    return replace(method, channel=replace(method.channel, judged=0))
