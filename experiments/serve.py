"""Hopfield federation whose examples are on other machines (`hopfed serve`, `hopfed join`)."""

from __future__ import annotations

import math
import secrets
from typing import Annotated, Any

import numpy as np

from hopfed._lib.settings import require
from hopfed.archetypes.relate import LEVELS, NAMES, Relation, rated_words
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Settings, Words, at_least, within
from hopfed.federation.contract import EVERYONE, Engine
from hopfed.federation.messages import part_of
from hopfed.federation.rounds import FederationState, Session, play_round
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.announcement import Announcement
from hopfed.hopfield.byzantine_guard import Guard
from hopfed.hopfield.class_channel import Classes, Memory
from hopfed.hopfield.class_verdict import parse_outcome
from hopfed.hopfield.example_sources import RemoteSource, Source
from hopfed.hopfield.noise import Noise
from hopfed.hopfield.operator_messages import pack_patterns, unpack_patterns
from hopfed.hopfield.pattern_channel import Patterns

MOST_CLIENTS = 10_000
MOST_ROUNDS = 1_000_000  # every round takes rows of its own from every client
MOST_NAMED = 10  # largest number of clients named in one line of the log

NUMBERS = ("n_detected", "quality", "examples", "misfit")
WITHHELD = ("unconfirmed", "unsupported")
BY_CLIENT = ("bounded/claims", "bounded/examples", "supports")
VERDICT = ("status", "advice")  # texts of the result
LYING = {False: 0.1, True: 0.0}  # share of clients that may lie, by graded: honest sums differ
CLAIM = 3.0  # most rows of a client, in medians of all


class Config(Settings):
    """Settings; `hopfed.hopfield` describes fields without words here."""

    columns: Annotated[int, at_least(2), "N, columns of every client's file"] = 784
    names: Annotated[Words, "names of these columns, sent to clients; none if unknown"] = ()
    clients: Annotated[int, within(f"[1, {MOST_CLIENTS}]")] = 3
    rounds: Annotated[int, within(f"[1, {MOST_ROUNDS}]"), "over which clients divide rows"] = 1
    minimum: Annotated[int, lambda s: within(f"[0, {s.clients}]"), "0: more than half"] = 0
    discount: float = 1.0
    groups: int = 4
    votes: bool = True
    factors: Annotated[int, at_least(0), "factors of sent operators; 0: exact counts"] = 0
    alpha: float = 1e-3
    byzantine: Annotated[float, "share of clients that may lie; -1: 0.1, with graded 0"] = -1.0
    claim: Annotated[float, "largest claim of rows, in medians; -1: 3 if some may lie"] = -1.0
    support: Annotated[float, "smallest number of examples of a broadcast archetype"] = 50.0
    check: Annotated[bool, "broadcast archetypes that hold without strongest supporters"] = True
    graded: Annotated[bool, "ask for sums over classes; rows may have gaps"] = False
    archetypes: Annotated[int, at_least(0), "classes of graded exact sums; 0: estimated"] = 0
    relate: Annotated[str, "NAME or NAME=WORD,... of clients' outcome, related to classes"] = ""
    looks: Annotated[int, "searches for classes in a round, with noise on sums"] = 2
    quorum: float = 0.0
    persistence: Annotated[int, lambda s: within(f"[1, {s.rounds}]")] = 1
    epsilon: Annotated[float, "budget of an example in a release; inf: no noise"] = math.inf
    delta: float = 1e-5
    most: Annotated[int, at_least(1), "archetypes in the run file"] = 256
    seeds: Annotated[int, within("[1, 1]"), "1: the data are given once"] = 1

    def validate(self) -> None:
        """Refuse settings that exclude each other, and settings that the method refuses."""
        held = len(self.names) in (0, self.columns) and len(set(self.names)) == len(self.names)
        require(held, "names", f"{self.columns} names that differ", f"{len(self.names)}")
        for name in ("archetypes", "relate"):
            rule, given = "left out without graded exact sums", getattr(self, name)
            require(not given or self.exact, name, rule, given)
        name, *words = parse_outcome(self.relate)
        fits = (bool(name) or not self.relate) and len(words) != 1 and len(words) <= LEVELS
        require(fits, "relate", f"a column, or COLUMN=WORD,... of 2 to {LEVELS} words", self.relate)
        self.make()

    @property
    def exact(self) -> bool:
        """Whether clients are asked for exact sums over classes."""
        return self.graded and self.epsilon == math.inf

    @property
    def least(self) -> int:
        """Smallest number of clients that must answer in a round."""
        return self.minimum or self.clients // 2 + 1

    def make(self, source: Source | None = None) -> HopfieldFederation:
        """Return the method; without a source the examples are on other machines."""
        channel: Classes | Patterns = Patterns(self.columns, **self.part(Patterns))
        if self.graded:
            own = {"judged": self.rounds, "number": self.archetypes, "most": min(self.most, 50)}
            channel = Classes(self.columns, **self.part(Classes) | own)
        noise = Noise(self.epsilon, self.delta) if self.epsilon < math.inf else None
        at, guard = source or RemoteSource(self.rounds), self.part(Guard)
        guard |= {"byzantine": LYING[self.graded]} if self.byzantine == -1 else {}
        if self.claim == -1:  # honest owners count for all their rows
            guard["claim"] = CLAIM if guard["byzantine"] else math.inf
        return HopfieldFederation(at, channel, noise, Guard(**guard))


def measure_round(
    seed: int,
    config: Config,
    t: int,
    state: FederationState | None,
    engine: Engine,
    method: HopfieldFederation | None = None,
) -> tuple[Arrays, FederationState | None]:
    """Experiment `serve`: play one round, with a given `method` where the examples are here."""
    method = config.make() if method is None else method
    if state is None:
        start = method.server_start(seed)
        if "secret" in start:  # no client can derive it from the run's seed
            start["secret"] = np.array(secrets.randbits(62))
        state = FederationState(start)
    settings: dict[str, Any] = {"seed": seed, "clients": config.clients, "engine": engine}
    played = play_round(method, state, t, minimum=config.least, **settings)
    arrays = _arrays(config, played)
    say = getattr(engine, "say", str)
    for line in remarks(arrays):
        say(f"round {t}: {line}")
    return arrays, None if t + 1 == config.rounds else played.state


def _arrays(config: Config, played: Session) -> Arrays:
    """Arrays of a round in a run file."""
    said, most, N = played.server_metrics, config.most, config.columns
    arrays = {k: v for k, v in played.arrays().items() if not k.startswith("client/")}
    if config.graded:  # means and shares of classes
        memory = Memory(**part_of(played.state.server, "memory"))
        means, shares = np.full((most, N), np.nan, np.float32), np.full(most, np.nan)
        K = len(memory.means)
        means[:K], shares[:K] = memory.means, memory.shares
        arrays |= {"archetypes/means": means, "archetypes/shares": shares}
        patterns = memory.patterns
    else:  # signs (K, N) that all clients received
        patterns = unpack_patterns(played.state.down[EVERYONE]["patterns"], N)
    packed = np.zeros((most, -(-N // 8)), dtype=np.uint8)
    packed[: len(patterns)] = pack_patterns(patterns[:most])
    arrays |= {"archetypes/packed": packed, "archetypes/number": np.array(len(patterns))}
    arrays |= {name: np.asarray(said.get(name, np.nan), dtype=float) for name in NUMBERS}
    arrays |= {f"withheld/{k}": np.array(said.get(k, 0)) for k in WITHHELD}
    claimed, counted, supports = by_client = np.full((3, config.clients), np.nan)
    for c, was, now in said.get("claims", ()):
        if now < was:
            claimed[int(c)], counted[int(c)] = was, now
    for c, number in said.get("supports", ()):
        supports[int(c)] = number
    arrays |= dict(zip(BY_CLIENT, by_client, strict=True))
    for name in VERDICT:
        words = str(said.get(name, "")).encode("ascii", "replace")
        arrays[f"verdict/{name}"] = np.array(words, "S1000")
    return arrays | (_relation(config, said.get("relation")) if config.relate else {})


def _relation(config: Config, made: Relation | str | None) -> Arrays:
    """Relation of classes to an outcome, as arrays that every round has."""
    names = rated_words(parse_outcome(config.relate)[1:])
    numbers, test = np.full((config.most, len(names), 2), np.nan), np.full(5, np.nan)
    said = made if isinstance(made, str) else ""
    if isinstance(made, Relation):
        numbers[: len(made.estimates)] = np.stack([made.estimates, made.errors], axis=-1)
        test[:] = *next(iter(made.tests.values())), made.rows, made.left_out
        said = made.kind
    words = np.array(said.encode("ascii", "replace"), "S200")
    return {"relation/numbers": numbers, "relation/test": test, "relation/said": words}


def _words(arrays: Arrays, name: str) -> str:
    """Words of the last round; empty for a run without them."""
    return np.asarray(arrays[name][0, -1]).item().decode() if name in arrays else ""


def relation_of_run(config: Config, arrays: Arrays) -> Relation | str:
    """Experiment `serve`: relation of classes of a run to its outcome; or why that is not known."""
    said = _words(arrays, "relation/said")
    if said not in NAMES:
        return said
    name, *words = parse_outcome(config.relate)
    names = tuple(words[k] for k in rated_words(words)) if words else (name,)
    numbers = arrays["relation/numbers"][0, -1]
    estimates, errors = np.moveaxis(numbers[np.isfinite(numbers[:, 0, 1])], -1, 0)
    statistic, degrees, p, rows, left_out = arrays["relation/test"][0, -1].tolist()
    unknown = np.full((estimates.size, estimates.size), np.nan)
    tests = {name: (statistic, int(degrees), p)}
    return Relation(said, names, estimates, errors, unknown, tests, int(rows), int(left_out))


def remarks(arrays: Arrays) -> list[str]:
    """Experiment `serve`: lines on claims reduced by the server and archetypes it withheld."""
    claimed, counted, supports = (arrays[name] for name in BY_CLIENT)
    lines = [
        f"client {c} claims {claimed[c]:.12g} examples and counts for {counted[c]:.6g}"
        for c in np.flatnonzero(~np.isnan(claimed))
    ]
    doubtful, few = (int(arrays[f"withheld/{k}"]) for k in WITHHELD)
    if doubtful:
        backing = [f"client {c}: {supports[c]:.0f}" for c in np.flatnonzero(~np.isnan(supports))]
        names = ", ".join([*backing[:MOST_NAMED], *["..."] * (len(backing) > MOST_NAMED)])
        lines.append(f"{doubtful} archetypes are withheld: too few clients support them ({names})")
    if few:
        lines.append(f"{few} archetypes are withheld: too few examples support them")
    found = int(arrays["archetypes/number"]) + doubtful + few
    return lines + [
        f"client {c} supports {supports[c]:.0f} of the {found} archetypes found"
        for c in np.flatnonzero(2 * supports < found)
    ]


def announcement(config: Config, arrays: Arrays) -> Announcement:
    """Experiment `serve`: last message to clients, after the last round, from a run's arrays."""
    number = min(int(arrays["archetypes/number"][0, -1]), config.most)
    patterns = unpack_patterns(arrays["archetypes/packed"][0, -1, :number], config.columns)
    status, advice = (_words(arrays, f"verdict/{name}") for name in VERDICT)
    said = (status, advice) if status else ()
    if not config.graded:
        return Announcement(patterns, quality=float(arrays["quality"][0, -1]), judgement=said)
    means, shares = (arrays[f"archetypes/{n}"][0, -1, :number] for n in ("means", "shares"))
    return Announcement(patterns, means, shares, judgement=said)


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Experiment `serve`: archetypes found, and the traffic."""
    last = {name: float(arrays[name][0, -1]) for name in NUMBERS if name in arrays}
    last = {name: value for name, value in last.items() if np.isfinite(value)}
    if config.graded and "examples" in last:
        last["examples_last"] = last.pop("examples")
    up, down = (arrays[f"traffic/{way}"][0].sum(axis=0).max() / 1e6 for way in ("up", "down"))
    return last | {
        "archetypes": int(arrays["archetypes/number"][0, -1]),
        "withheld": sum(int(arrays[f"withheld/{k}"][0, -1]) for k in WITHHELD),
        "bounded": int((~np.isnan(arrays["bounded/claims"])).sum()),
        "missed": int((arrays["faults/code"] != 0).sum()),
        "megabytes_up": float(up),
        "megabytes_down": float(down),
    }
