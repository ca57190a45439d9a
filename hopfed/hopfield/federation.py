"""The Hopfield federation: clients, a channel, noise on answers, and a guard of the server.

Source: arXiv:2603.19902, Sections 2.2 and 3; theory/NOTES.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import chain
from typing import Any, cast

import numpy as np

from hopfed._lib.random import check_seed, derive
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.federation.contract import EVERYONE, Engine, Metrics, State
from hopfed.federation.engines import LocalEngine
from hopfed.federation.messages import Traffic, part_of
from hopfed.federation.rounds import FederationState, Participation, Session, Step, play_round
from hopfed.hopfield.announcement import FEWER, GOOD, STATUS
from hopfed.hopfield.byzantine_guard import Guard
from hopfed.hopfield.class_channel import Classes, Memory
from hopfed.hopfield.class_verdict import UNSHOWN, own_verdict
from hopfed.hopfield.clients import ClassClient, PatternClient
from hopfed.hopfield.example_sources import BatchSource, Source
from hopfed.hopfield.noise import Noise
from hopfed.hopfield.operator_messages import unpack_patterns
from hopfed.hopfield.pattern_channel import Patterns
from hopfed.kernels import Rows, concatenate
from hopfed.kernels.bits import with_gaps
from hopfed.kernels.examples import as_examples

CHANNELS: dict[str, type[Patterns | Classes]] = {"symmetric": Patterns, "graded": Classes}


@dataclass(frozen=True)
class HopfieldFederation:
    """Archetypes of the rows of many clients, round after round.

    A round is one fit: sums of the clients' rows join the discounted sums of earlier rounds, and
    archetypes are found in the total. An invalid budget raises ArgumentError.

    Attributes
    ----------
    source : the clients' rows of each round.
    channel : kind of archetypes: `Patterns` of +-1, or `Classes` with a mean for each column.
    noise : privacy budget of all answers of a round; None for exact sums.
    guard : checks of the server before it believes its clients.

    Examples
    --------
    >>> from hopfed.hopfield.channel import rademacher
    >>> from hopfed.hopfield.example_sources import ArchetypeStream
    >>> from hopfed.federation.engines import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> xi = rademacher(2, 100, np.random.default_rng(0))
    >>> source = ArchetypeStream(xi, np.full((1, 3, 2), 0.5), 2000, 0.7, seed=0)
    >>> private = HopfieldFederation(source, Patterns(100), Noise(epsilon=2.0))
    >>> played = play_round(private, None, 0, seed=0, clients=3, engine=LocalEngine())
    >>> played.server_metrics["n_detected"], len(played.state.server["memory/patterns"])
    (2, 2)
    """

    source: Source
    channel: Patterns | Classes
    noise: Noise | None = None
    guard: Guard = field(default_factory=Guard)

    def __post_init__(self) -> None:
        _ = self.client  # checks the budget

    @cached_property
    def client(self) -> PatternClient | ClassClient:
        """Client of this federation: all that clients know of the settings."""
        return self.channel.client(self.source, self.noise)

    def server_start(self, seed: int) -> State:
        """State of the server before the first round, with a secret of its own."""
        return {"secret": np.array(derive(seed, "secret of the server")), **self.channel.start()}

    def play(self, state: State, session: Session) -> Step:
        """Play a round at the server, from its `state` and with the clients of a `session`."""
        channel: Any = self.channel
        return cast(Step, channel.play(state, session, self.client, self.guard))


@dataclass(frozen=True, eq=False)
class Simulation:
    """Result of a simulated federation: archetypes, metrics of the rounds, and traffic.

    Attributes
    ----------
    patterns : int8 (K, N) of +-1, the archetypes that are broadcast; signs of the means of classes.
    metrics : of each round, name -> number or array, as the server gave them.
    traffic : bytes and numbers each way, by client, of all rounds.
    faults : a line for each client that failed in a round.
    state : after the last round, for `hopfed.federation.rounds.play_round`.
    classes : means, shares and sums of graded classes; None of a symmetric channel.
    tables : rows of each client; none where a source drew them round by round.

    Examples
    --------
    >>> import hopfed
    >>> same = np.tile([1, -1, -1, 1], (40, 10))
    >>> played = hopfed.simulate([same, same])
    >>> len(played.metrics), played.faults
    (1, ())
    >>> print(played)
    1 archetype after 1 round of 2 clients; `verdict` says whether rows lie in them
    """

    patterns: np.ndarray = field(repr=False)
    metrics: tuple[Metrics, ...] = field(repr=False)
    traffic: Traffic
    faults: tuple[str, ...]
    state: FederationState = field(repr=False)
    classes: Memory | None = field(default=None, repr=False)
    tables: tuple[Rows, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        K, rounds, clients = len(self.patterns), len(self.metrics), len(self.traffic.up)
        found = f"archetype{'s' * (K != 1)}" if self.classes is None else f"class{'es' * (K != 1)}"
        after = f"round{'s' * (rounds != 1)} of {clients} client{'s' * (clients != 1)}"
        return f"{K} {found} after {rounds} {after}; `verdict` says whether rows lie in them"

    @cached_property
    def verdict(self) -> tuple[str, str]:
        """A status and the sentence that explains it, computed at the first use.

        All rows together decide on graded classes, in seconds; sums decide on a symmetric channel.
        "not judged": with noise, with rows of a source, or with too many rows.

        Examples
        --------
        >>> import hopfed
        >>> x = np.random.default_rng(0).choice([-1, 1], (300, 20))
        >>> hopfed.simulate([x[:150], x[150:]], channel="graded").verdict[0]
        'one class'
        """
        if self.classes is None:
            return self.metrics[-1]["status"], self.metrics[-1]["advice"]
        if not self.tables:
            return STATUS, "A source drew the rows, which are not kept."
        rows = concatenate([with_gaps(table) for table in self.tables])
        said, told = self.metrics[-1], self.classes  # with noise, classes that it may hide
        found = own_verdict(rows, told.means, shares=told.shares, kept=said.get("kept", 0.0))
        status, advice = found or (STATUS, "There are no classes.")
        more = said["advice"] if said.get("status") == STATUS else FEWER
        return status, advice if status in (*GOOD, STATUS, UNSHOWN) else f"{advice} {more}"


def simulate(
    clients: Source | Sequence[Any],
    rounds: int | None = None,
    *,
    seed: int = 0,
    engine: Engine | None = None,
    participation: Participation | None = None,
    minimum: int = 1,
    channel: str = "symmetric",
    **settings: Any,
) -> Simulation:
    """Simulate a Hopfield federation over rounds, with all clients in this process.

    Parameters
    ----------
    clients : examples of each client, (M, N) of +-1, 0/1 or booleans, dealt at random to the
        rounds; or a source that knows its `clients` and `rounds`, such as
        `hopfed.hopfield.example_sources.ArchetypeStream`.
    rounds : to play; of a source all of its rounds, otherwise 1 when left out.
    seed : of every random choice.
    engine, participation : engine of the client steps, clients that take part; one by one, all.
    minimum : clients that must be heard in a round.
    channel : "symmetric", every column flipped equally often; or "graded", classes with a mean for
        each column, of examples that may have gaps (NaN, None, masked, or 0 among -1 and 1).
    settings : fields of `Patterns` or `Classes` in `hopfed.hopfield.pattern_channel` and
        `class_channel`, and of `byzantine_guard.Guard`; `epsilon`, `delta` of noise on all sums.

    Raises
    ------
    DataError : examples that are not binary, of other columns, or with gaps that do not fit.
    ArgumentError : another argument breaks its rule.
    TooFewClientsError : fewer than `minimum` were heard in a round.

    Examples
    --------
    >>> import hopfed
    >>> from hopfed.hopfield.channel import small_sample
    >>> xi, x, _ = small_sample()
    >>> played = hopfed.simulate([x[::2], x[1::2]], rounds=2, discount=0.9)
    >>> sorted(played.patterns.tolist()) == sorted(xi.tolist()), played.traffic.up.shape
    (True, (2,))
    >>> x = np.where(np.random.default_rng(0).random(x.shape) < 0.3, 0, x)  # 0 is missing
    >>> hopfed.simulate([x[::2], x[1::2]], channel="graded").classes.means.shape
    (3, 200)
    """
    check_seed(seed)
    own, guard, noise = _parts(channel, settings)
    engine = engine or LocalEngine()
    require(hasattr(engine, "step"), "engine", "an engine, such as LocalEngine()", repr(engine))
    holds = isinstance(participation, Participation | None)
    require(holds, "participation", "a Participation, or None", repr(participation))
    graded = channel == "graded"
    source, members, rounds, columns = _source(clients, rounds, gaps=graded)
    method = HopfieldFederation(source, CHANNELS[channel](columns, **own), noise, guard)
    how: Any = {"seed": seed, "clients": members, "engine": engine}
    how |= {"participation": participation, "minimum": minimum}
    state = FederationState(method.server_start(seed))
    metrics, faults, traffic = list[Metrics](), list[str](), Traffic(members)
    for t in range(rounds):
        played = play_round(method, state, t, **how)
        state = played.state
        traffic.add(played.traffic)
        metrics.append(played.server_metrics)
        faults += [f"round {t}: {line}" for line in played.faults.words()]
    classes = Memory(**part_of(state.server, "memory")) if graded else None
    public = state.down[EVERYONE]  # the guard may have withheld more
    patterns = classes.patterns if classes else unpack_patterns(public["patterns"], columns)
    tables = source.owners if isinstance(source, BatchSource) else ()
    return Simulation(patterns, tuple(metrics), traffic, tuple(faults), state, classes, tables)


def _parts(channel: str, settings: dict[str, Any]) -> tuple[dict[str, Any], Guard, Noise | None]:
    """Divide `settings` into those of the channel, the guard, and the noise."""
    require(channel in CHANNELS, "channel", f"one of {', '.join(CHANNELS)}", channel)
    own = [f.name for f in fields(CHANNELS[channel])[1:]]
    known = own, [f.name for f in fields(Guard)], ["epsilon", "delta"]
    unknown = ", ".join(sorted(settings.keys() - set(chain(*known))))
    require(not unknown, "settings", f"some of {', '.join(chain(*known))}", unknown)
    mine, guard, noise = ({n: settings[n] for n in names if n in settings} for names in known)
    return mine, Guard(**guard), Noise(**noise) if noise else None


def _source(
    clients: Source | Sequence[Any], rounds: int | None, gaps: bool
) -> tuple[Source, int, int, int]:
    """Return the source of examples, and the numbers of clients, rounds and columns."""
    if not isinstance(clients, Sequence) and hasattr(clients, "examples"):
        members, most = (getattr(clients, name, None) for name in ("clients", "rounds"))
        if not isinstance(members, int) or not isinstance(most, int):
            raise ArgumentError("clients", "a source that knows its clients and rounds", clients)
        rounds = most if rounds is None else rounds
        require(1 <= rounds <= most, "rounds", f"1 to the {most} of the source", rounds)
        return clients, members, rounds, int(np.shape(clients.examples(0, 0))[1])
    if not isinstance(clients, Sequence) or not len(clients):
        raise ArgumentError("clients", "examples of at least one client, in a list", clients)
    owners = [as_examples(x, name=f"clients[{i}]", gaps=gaps) for i, x in enumerate(clients)]
    widths = sorted({rows.shape[1] for rows in owners})
    require(len(widths) == 1, "clients", "of the same columns", f"{widths} columns")
    rounds = 1 if rounds is None else rounds
    return BatchSource(tuple(owners), rounds), len(owners), rounds, widths[0]
