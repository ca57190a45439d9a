"""Settings of the Hopfield federation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from numbers import Integral, Real
from typing import Any, Protocol

from hopfed._lib.settings import require
from hopfed.archetypes.annealed_search import Search
from hopfed.archetypes.factorize import METHODS
from hopfed.federation.contract import State
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.liars.claims import suspects
from hopfed.hopfield.memory.blending import MEMORIES
from hopfed.hopfield.plasticity.rules import Fixed, Rule, Smoothing
from hopfed.hopfield.robust import Robust

WEIGHTINGS = ("examples", "clients")
WHOLE = ("groups", "persistence", "patience", "client_groups")
RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "discount": (lambda x: 0 <= x <= 1, "in [0, 1]"),
    "alpha": (lambda x: 0 < x < 1, "in (0, 1)"),
    "claim": (lambda x: x >= 1, "at least 1"),
    "liars": (lambda x: 0 <= x < 0.5, "in [0, 1/2)"),
    "support": (lambda x: 0 <= x < inf, "at least 0, and finite"),
    "secret": (lambda x: x >= 0, "at least 0"),
}
NUMBERS = ("discount", "alpha", "claim", "quorum", "level", "liars", "support")


class Source(Protocol):
    """Where clients' examples come from; it is sent to worker processes with the method.

    Examples
    --------
    >>> import numpy as np
    >>> class Always:
    ...     def examples(self, t: int, client: int) -> np.ndarray:
    ...         return np.ones((3, 5))
    >>> Always().examples(0, client=2).shape
    (3, 5)
    """

    def examples(self, t: int, client: int) -> Any:
        """Examples (M, N) of a client in round t: +-1, 0/1, booleans, or packed bits."""
        ...


class Served:
    """What the methods of this package share: clients and a server that know nothing at first.

    Examples
    --------
    >>> Served().client_start(0, seed=1), Served.fresh
    ({}, True)
    """

    fresh = True  # sums that are repeated would count their rows twice

    def client_start(self, client: int, seed: int) -> State:  # noqa: ARG002
        """State of a client before its first round."""
        return {}

    def server_start(self, seed: int) -> State:  # noqa: ARG002
        """State of the server before the first round."""
        return {}

    def _check_ranges(self) -> None:
        """Fail where a number that several methods have is outside of its range."""
        for name, (holds, rule) in RANGES.items():
            if (value := getattr(self, name, None)) is not None:
                require(holds(value), name, rule, value if name != "secret" else "another")


@dataclass(frozen=True)
class HopfieldSettings(Served):
    """How a Hopfield federation works.

    Attributes
    ----------
    source : the clients' examples.
    encoding : how operators travel.
    rule, smoothing : plasticity of a client, its weight w on fresh examples.
    memory : "separate", "common" or "literal", see `hopfed.hopfield.memory.blending`.
    discount : share of the evidence that is left after a round, in [0, 1]; 0 uses fresh examples
        only.
    weighting : "examples" pools all examples alike; "clients" counts clients equally (28).
    alpha : false-alarm rate of each round's count.
    groups : random groups of each client for joint diagonalisation; 0 leaves that exchange out,
        as secure aggregation must, and the search works alone.
    votes : whether clients vote on the patterns, one more exchange; a pattern without a single
        vote is dropped. Votes count where examples can be told apart
        (`hopfed.hopfield.memory.remembered`).
    robust : aggregate that bears lying clients.
    claim : examples that a client may claim in a round, in medians of all claims; it counts for no
        more (`hopfed.hopfield.liars.claims`). Clients that do hold more are cut, too; inf believes
        all.
    persistence : rounds whose fresh operators must support a pattern before it is broadcast. The
        round that bore it is one of them, and supports what it bore: 1 asks for nothing.
    patience : rounds that a pattern may wait for that.
    quorum, client_groups : share of groups of clients that must support a pattern, and their
        number; a quorum of 0 asks for none. The server draws the groups under a secret.
    level : standard score from which operators support a pattern.
    liars : share of the clients, rounded up, whose word alone is not enough: the strongest
        supporters of a pattern are left out when it is asked whether fresh operators support it
        (with five examples at least), and the largest and the smallest votes at every site.
    support : examples that must stand behind a pattern before it is broadcast; fewer may be a
        person. Counted from the round in which it is found: by what fresh operators hold of it,
        and from when it is told by votes, where there are some.
    check : refuse messages that no examples of +-1 can give, exactly where it is exact
        (`hopfed.hopfield.liars.impossible_messages`), not only those that could stop the server.
    search : settings of the search.
    factoriser : how patterns are found, one of `hopfed.archetypes.factorize.METHODS`; "paper",
        with memory="literal", votes=False and groups=0, is the paper's own federation.

    Raises
    ------
    ArgumentError : a setting outside of its range.

    Examples
    --------
    >>> from hopfed.hopfield.batches import Elsewhere
    >>> HopfieldSettings(Elsewhere(), Encoding(100), groups=0).steps
    ('operators', 'votes')
    """

    source: Source
    encoding: Encoding
    rule: Rule = field(default_factory=lambda: Fixed(1.0))
    smoothing: Smoothing = field(default_factory=Smoothing)
    memory: str = "separate"
    discount: float = 0.5
    weighting: str = "examples"
    alpha: float = 1e-3
    groups: int = 4
    votes: bool = True
    robust: Robust = field(default_factory=Robust)
    claim: float = 10.0
    persistence: int = 1
    patience: int = 3
    quorum: float = 0.0
    client_groups: int = 10
    level: float = 3.0
    liars: float = 0.0
    support: float = 0.0
    check: bool = False
    search: Search | None = None
    factoriser: str = "auto"

    def __post_init__(self) -> None:
        self._check_kinds()
        require(self.memory in MEMORIES, "memory", f"one of {', '.join(MEMORIES)}", self.memory)
        known = ", ".join(WEIGHTINGS)
        require(self.weighting in WEIGHTINGS, "weighting", f"one of {known}", self.weighting)
        known = ", ".join(METHODS)
        require(self.factoriser in METHODS, "factoriser", f"one of {known}", self.factoriser)
        self._check_ranges()
        require(self.groups >= 0, "groups", "at least 0", self.groups)
        require(0 <= self.quorum <= 1, "quorum", "in [0, 1]", self.quorum)
        for name in WHOLE[1:]:
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))

    def _check_kinds(self) -> None:
        """Fail where a setting is of another kind, before numbers are compared."""
        rules: tuple[tuple[tuple[str, ...], Any, str], ...] = (
            (WHOLE, Integral, "a whole number"),
            (NUMBERS, Real, "a number"),
            (("votes", "check"), bool, "true or false"),
            (("encoding",), Encoding, "an Encoding"),
            (("smoothing",), Smoothing, "a Smoothing"),
            (("robust",), Robust, "a Robust"),
            (("search",), Search | None, "a Search, or None"),
        )
        for names, kind, rule in rules:
            for name in names:
                value = getattr(self, name)
                holds = isinstance(value, kind) and value == value  # NaN is no number
                require(holds, name, rule, repr(value))
        require(callable(self.rule), "rule", "a rule of plasticity", repr(self.rule))

    @property
    def n_sites(self) -> int:
        """N."""
        return self.encoding.n_sites

    @property
    def joint(self) -> bool:
        """Whether clients send projections."""
        return self.groups > 0

    def suspects(self, heard: int) -> int:
        """Clients of so many `heard` whose word alone is not enough; one is always believed.

        Examples
        --------
        >>> from hopfed.hopfield.batches import Elsewhere
        >>> careful = HopfieldSettings(Elsewhere(), Encoding(100), liars=0.1)
        >>> [careful.suspects(heard) for heard in (1, 2, 10, 11, 30)]
        [0, 1, 1, 2, 3]
        """
        return suspects(self.liars, heard)

    @property
    def steps(self) -> tuple[str, ...]:
        """Names of a round's exchanges."""
        return ("operators", *(("projections",) * self.joint), *(("votes",) * self.votes))

    @property
    def exchanges(self) -> int:
        """Exchanges of a round."""
        return len(self.steps)
