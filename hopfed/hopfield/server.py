"""The server's side: from operators to archetypes, in up to three exchanges a round.

1. Operators up. Weighted by the clients' plasticity they join the evidence (or are blended with
   what is remembered, as the paper has it), and its spectrum is counted. Basis down.
2. Projections up: joint diagonalisation, search and exposure fit find the archetypes; what is new
   is remembered, and what is remembered less surely than it now shows is renewed. Archetypes down.
3. Votes up: sums of the examples nearest to each archetype, which make the patterns exact.

Groups of the clients' rows, whose differences say which archetypes a sum is made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hopfed._lib.arrays import blas_threads
from hopfed.archetypes.annealed_search import Search
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.factorize import Groups, factorize
from hopfed.federation.aggregate import trimmed_mean
from hopfed.federation.contract import EVERYONE, Context, Metrics, State
from hopfed.federation.messages import Message, below
from hopfed.hopfield.client import pack_patterns
from hopfed.hopfield.flat import flatten, unflatten
from hopfed.hopfield.liars.agreement import agreed
from hopfed.hopfield.liars.claims import bounded
from hopfed.hopfield.liars.impossible_messages import unfolded
from hopfed.hopfield.memory.blending import FEW, Blended, Counted
from hopfed.hopfield.memory.channel_fit import misfits, shares, typical
from hopfed.hopfield.memory.evidence import Evidence
from hopfed.hopfield.memory.remembered import Remembered, Votes, told_apart
from hopfed.hopfield.memory.support import Support, corrected, random_groups
from hopfed.hopfield.settings import HopfieldSettings
from hopfed.spectral.operators import HebbianOperator


def clients_as_groups(
    operators: Mapping[int, HebbianOperator], weights: Mapping[int, float], counted: Counted
) -> Groups | None:
    """Take each client's operator, along the counted eigenvectors, for a group of its own.

    The sum alone does not always say which patterns it is made of. Where a client that lies adds
    the product of three archetypes, as often as each of them occurs, it is also the sum of four
    other patterns, each of which agrees by half with each of these four. The operators of the
    other clients are not made of those.
    """
    V = counted.spectrum.vectors[:, : counted.rank.n_detected]
    if not operators or V.shape[1] == 0:
        return None
    common, eye = counted.rank.variance, np.eye(V.shape[1])
    sums, counts = [], []
    for c, operator in operators.items():
        excess = counted.variances.get(c, common) - common
        mass = weights[c] * operator.n_examples
        sums.append(mass * (V.T @ operator.matmat(V) - excess * eye))
        counts.append(mass)
    return Groups(np.stack(sums), np.array(counts))


def joined(one: Groups | None, other: Groups | None) -> Groups | None:
    """Put the groups of both together."""
    if one is None or other is None:
        return other if one is None else one
    return Groups(
        np.concatenate([one.sums, other.sums]), np.concatenate([one.counts, other.counts])
    )


def projected(
    messages: Mapping[int, Message], weights: Mapping[int, float], counted: Counted
) -> Groups:
    """Group projections of all clients, each brought to the common noise variance."""
    common = counted.rank.variance
    eye = np.eye(counted.rank.n_detected)
    sums, counts = [], []
    for c, message in messages.items():
        full = unfolded(message["groups"])
        sizes = message["sizes"].astype(np.float64)
        excess = counted.variances.get(c, common) - common
        full -= sizes[:, None, None] * excess * eye
        sums.append(full * weights[c])
        counts.append(sizes * weights[c])
    return Groups(np.concatenate(sums), np.concatenate(counts))


FEWEST = 5  # examples of a pattern that clients must hold to support it against others' word
LIGHTEST = 1e-9  # weight below which a client says nothing
EFFORT = 5e6  # steps of a search that is bounded, for each direction that it may search
TOP = 16  # leading eigenvalues that the metrics of a round keep

Answer = tuple[State, Mapping[int, Message], Metrics]


def hear_operators(
    method: HopfieldSettings, state: State, messages: Mapping[int, Message], context: Context
) -> Answer:
    """Add the operators of a round to the evidence, and count its spectrum."""
    claims = {c: int(m["examples"]) for c, m in messages.items()}
    messages = {c: method.encoding.whole(m) for c, m in messages.items()}
    messages = bounded(messages, method.claim)
    counts = {c: float(m["examples"]) for c, m in messages.items()}
    weights = client_weights(method, messages, context)
    operators = {c: method.encoding.decode(m) for c, m in messages.items()}
    fresh = method.robust.pooled(operators, messages, weights)
    evidence = _evidence(method, state).faded(method.discount).extend(fresh)
    counted = count(method, evidence, _memory(method, state).patterns, operators, weights)
    heard = {f"heard/{c}/{k}": v for c, m in messages.items() for k, v in m.items()}
    state = _without(state, "heard", "evidence") | heard
    state |= {f"evidence/{k}": v for k, v in evidence.flatten().items()}
    state |= {"weights": np.array([[c, w] for c, w in weights.items()])}
    state |= {"claims": np.array([[c, claims[c], counts[c]] for c in claims])}
    values = np.full(TOP, np.nan)
    values[: len(counted.spectrum.values)] = counted.spectrum.values[:TOP]
    rank = counted.rank
    metrics = {
        "n_detected": rank.n_detected,
        "threshold": rank.threshold,
        "quality": rank.quality,
        "eigenvalues": values,
        "examples": evidence.n_examples,
        "claims": state["claims"],
    }
    if method.joint:
        basis = counted.spectrum.vectors.astype(np.float32)
        state |= flatten(None, counted=counted)
        return state, {EVERYONE: {"basis": basis}}, metrics
    groups = clients_as_groups(operators, weights, counted) if method.liars > 0 else None
    state, found = remember(method, state, counted, groups, context)
    return state, {EVERYONE: broadcast(method, state, method.votes)}, metrics | found


def hear_projections(
    method: HopfieldSettings, state: State, messages: Mapping[int, Message], context: Context
) -> Answer:
    """Factor the evidence into archetypes with the clients' projections."""
    counted = unflatten(Counted, below(state, "counted"))
    weights, claims, groups = _weights(state), _claims(state), None
    if messages and counted.rank.n_detected:
        believed = {c: weights[c] * claims[c][1] / claims[c][0] for c in messages}
        groups = projected(messages, believed, counted)
    if method.liars > 0:
        silent = {
            c: method.encoding.decode(m)
            for c, m in operators_of(state).items()
            if c not in messages
        }
        groups = joined(groups, clients_as_groups(silent, weights, counted))
    state, found = remember(method, state, counted, groups, context)
    return state, {EVERYONE: broadcast(method, state, method.votes)}, found


def hear_votes(
    method: HopfieldSettings, state: State, messages: Mapping[int, Message], _: Context
) -> Answer:
    """Add the votes of a round to the archetypes it broadcast."""
    memory, heard = _memory(method, state), operators_of(state)
    told = np.flatnonzero(told_of(method, memory, _behind(memory, silent=True)))
    examples = {c: float(m["examples"]) for c, m in heard.items()}
    shape = len(told), method.n_sites
    liars = method.suspects(len(messages))
    votes = Votes.gather(messages, _weights(state), examples, shape, liars)
    quality = float(state.get("quality", 0.0))
    clear = told_apart(memory.sure[told], quality, method.n_sites)
    memory = memory.vote(votes.among(len(memory), told, clear), quality)
    asked = np.isin(np.arange(len(memory)), told[clear])
    # Clients that told of examples, and do not vote: they answer no questions, or their votes would
    # be of few rows.
    silent = bool(set(heard) - {c for c, m in messages.items() if np.any(m["voters"])})
    if not silent:
        # A pattern that no example resembles is an eigenvalue that noise put above the threshold.
        memory = memory.select((memory.voters > 0) | ~asked)
    memory = memory.merged()
    state = closed(method, state, memory)
    found = withheld(method, memory, silent) | {"archetypes": len(memory)}
    return state, {EVERYONE: broadcast(method, state, silent)}, found


def count(
    method: HopfieldSettings,
    evidence: Evidence,
    patterns: np.ndarray,
    operators: Mapping[int, HebbianOperator],
    weights: Mapping[int, float],
) -> Counted:
    """Count the spectrum of the evidence, or of its blend with the remembered patterns."""
    if evidence.operator is None:
        return Counted.nothing(method.n_sites)
    with blas_threads(1):
        blended = Blended.of(method.memory, evidence, patterns, weights, method.alpha)
        return blended.count(operators, max(FEW, 2 * len(patterns)))


def remember(
    method: HopfieldSettings,
    state: State,
    counted: Counted,
    groups: Groups | None,
    context: Context,
) -> tuple[State, Metrics]:
    """Factor the spectrum, and bring the remembered archetypes up to date."""
    memory, rank = _memory(method, state), counted.rank
    seed = context.derive("factorize")
    found = _factored(method, memory, counted, groups, seed)
    if (liars := method.suspects(len(operators_of(state)))) and method.robust.kind == "mean":
        heard = operators_of(state)
        operators = {c: method.encoding.decode(m) for c, m in heard.items()}

        def alone(clients: Sequence[int]) -> Archetypes:
            part = {c: operators[c] for c in clients}
            return _factored(method, memory, *_alone(method, state, part), seed)

        found = agreed(found, counted, operators, liars, method.level, alone)
    matches, sure = found.matches, found.expected_overlaps
    if method.memory == "separate":
        memory = memory.renew(found.patterns, sure, matches)
    elif rank.n_detected:
        # The paper's memory is the operator: what it no longer shows is gone, and what it shows of
        # a pattern is the pattern itself, which makes it no surer.
        memory = memory.select(matches >= 0)
    new = np.setdiff1d(np.arange(len(found)), matches)
    memory = memory.learn(found.patterns[new], sure[new], context.round)
    if "evidence/columns" in state:
        memory = memory.oriented(_mean_example(method, state))
    if rank.n_detected:
        state = state | {"quality": np.array(_quality(method, state, counted))}
    fit = misfits(method.encoding, operators_of(state), memory.patterns)
    memory, spoken = _confirmed(method, state, memory, counted, context.round)
    state = state | flatten(None, memory=memory)
    if not method.votes:
        state = closed(method, state, memory)
    metrics = {"archetypes": len(memory), "explained": found.explained, "misfit": typical(fit)}
    return state, metrics | withheld(method, memory) | spoken


def _factored(
    method: HopfieldSettings,
    memory: Remembered,
    counted: Counted,
    groups: Groups | None,
    seed: int,
) -> Archetypes:
    search = method.search
    if method.liars > 0:  # one that lies can bring many directions
        most = EFFORT * max(counted.rank.n_detected, 1)
        search = replace(search or Search(), most=most)
    return factorize(
        counted.spectrum,
        counted.rank,
        groups=groups,
        method=method.factoriser,
        search=search,
        known=memory.patterns,
        sure=memory.sure,
        seed=seed,
    )


def _alone(
    method: HopfieldSettings, state: State, operators: Mapping[int, HebbianOperator]
) -> tuple[Counted, Groups | None]:
    """Spectrum of the fresh operators of some clients, and each of them along it."""
    weights, heard = _weights(state), operators_of(state)
    told = {c: w for c, w in weights.items() if c in operators}
    fresh = method.robust.pooled(operators, heard, told)
    evidence = Evidence(method.encoding).extend(fresh)
    counted = count(method, evidence, _memory(method, state).patterns, operators, told)
    return counted, clients_as_groups(operators, weights, counted)


def _mean_example(method: HopfieldSettings, state: State) -> np.ndarray:
    """Mean (N,) of all examples; where some clients may lie, of this round without the extremes."""
    heard = operators_of(state)
    cut = min(method.suspects(len(heard)), (len(heard) - 1) // 2)
    if cut <= 0:
        return np.asarray(state["evidence/columns"] / state["evidence/mass"][0])
    means = [m["columns"] / float(m["examples"]) for m in heard.values()]
    return np.asarray(trimmed_mean(means, (cut + 0.5) / len(heard)))


def _quality(method: HopfieldSettings, state: State, counted: Counted) -> float:
    """Quality of the pooled examples; where some may lie, that of the median client.

    Of examples without any noise one client can make as many as it likes, and with their quality
    honest ones would look like strangers to every archetype. Of two in the middle the lower counts.
    """
    known = sorted(v for c, v in counted.variances.items() if c in _weights(state))
    if method.liars == 0 or not known:
        return counted.rank.quality
    return float(np.sqrt(max(1.0 - known[len(known) // 2], 0.0)))


def _confirmed(
    method: HopfieldSettings, state: State, memory: Remembered, counted: Counted, t: int
) -> tuple[Remembered, Metrics]:
    """Note which patterns the operators of this round support; drop what they never did."""
    heard = operators_of(state)
    if len(memory) == 0 or not heard:
        return memory, {}
    weights = _weights(state)
    operators = [method.encoding.decode(m) for m in heard.values()]
    each = [weights[c] for c in heard]
    liars = method.suspects(len(heard))

    def righted(memory: Remembered, rows: np.ndarray) -> Remembered:
        fixed = memory.patterns.copy()
        fixed[rows] = corrected(fixed[rows], operators, each, liars, method.level)
        unasked = (memory.voters == 0)[:, None]
        return replace(memory, patterns=np.where(unasked, fixed, memory.patterns))

    own = np.ones(len(memory), dtype=bool)
    memory = righted(memory, own)
    quality = float(state.get("quality", 1.0))
    if liars:
        each_held = [op.n_examples * shares(op, memory.patterns) for op in operators]
        own = np.sort(each_held, axis=0)[:-liars].sum(axis=0) >= FEWEST * quality**2
    # Beside what nobody needs, an archetype may have no direction of its own.
    noise = [counted.variances.get(c, counted.rank.variance) for c in heard]
    careful = method.liars > 0
    support = Support.of(operators, memory.patterns[own], each, noise, careful)
    shown, held = own.copy(), np.zeros(len(memory))
    shown[own] = support.scores() > method.level
    held[own] = support.behind(quality)
    if liars:
        others = support.behind(quality, liars) >= FEWEST
        shown[own] &= others & (support.doubted(liars) > method.level)
    if method.quorum > 0:
        groups = random_groups(len(heard), method.client_groups, state["secret"], t)
        shown[own] &= support.agreement(groups, method.level) >= method.quorum
    memory = memory.confirm(shown, t)
    memory = righted(memory, memory.rounds >= method.persistence)  # beside no lies any more
    memory = replace(memory, held=memory.held * method.discount + held)
    waiting = t - memory.seen < method.patience
    kept = (memory.rounds >= method.persistence) | waiting
    everything = Support.of(operators, memory.patterns, each, noise, careful)
    said = (everything.alone() > method.level)[:, kept].sum(axis=1)
    spoken = {"supports": np.array([[c, n] for c, n in zip(heard, said, strict=True)])}
    return memory.select(kept), spoken


def told_of(method: HopfieldSettings, memory: Remembered, supporters: np.ndarray) -> np.ndarray:
    """Which patterns are broadcast, bool (K,): confirmed often enough, by enough examples."""
    return (memory.rounds >= method.persistence) & (supporters >= method.support)


def _behind(memory: Remembered, silent: bool) -> np.ndarray:
    """Examples behind each pattern (K,); where some are `silent`, votes are not all there is."""
    return np.maximum(memory.voters, memory.held) if silent else memory.supporters


def withheld(method: HopfieldSettings, memory: Remembered, silent: bool = False) -> Metrics:
    """Numbers of patterns that are broadcast, lack confirmation, or lack examples."""
    confirmed = memory.rounds >= method.persistence
    told = told_of(method, memory, _behind(memory, silent))
    return {
        "told": int(told.sum()),
        "unconfirmed": int((~confirmed).sum()),
        "unsupported": int((confirmed & ~told).sum()),
    }


def client_weights(
    method: HopfieldSettings, messages: Mapping[int, Message], context: Context
) -> dict[int, float]:
    """Weight per example of each client: its plasticity, faded where the message is late."""
    weights = {}
    for c, message in messages.items():
        told = float(np.clip(message["weight"], 0.0, 1.0))
        told *= told >= LIGHTEST  # of less, the share of the examples is no number any more
        w = told * method.discount ** context.ages.get(c, 0)
        if method.weighting == "clients":
            w /= max(float(message["examples"]), 1.0)
        weights[c] = w
    return weights


def broadcast(method: HopfieldSettings, state: State, silent: bool = False) -> Message:
    """What the server says it remembers, as bits: archetypes confirmed by enough examples."""
    memory = _memory(method, state)
    told = told_of(method, memory, _behind(memory, silent))
    quality = np.asarray(state.get("quality", 1.0), dtype=np.float32)
    sure = memory.sure[told].astype(np.float32)
    return {"patterns": pack_patterns(memory.patterns[told]), "sure": sure, "quality": quality}


def closed(method: HopfieldSettings, state: State, memory: Remembered) -> State:
    """Drop what only the exchanges of one round need, and evidence of which nothing is carried."""
    passing = ("evidence",) if method.discount == 0 else ()
    state = _without(state, "heard", "weights", "claims", "counted", "memory", *passing)
    return state | flatten(None, memory=memory)


def _evidence(method: HopfieldSettings, state: State) -> Evidence:
    return Evidence.unflatten(method.encoding, below(state, "evidence"))


def _memory(method: HopfieldSettings, state: State) -> Remembered:
    arrays = below(state, "memory")
    return unflatten(Remembered, arrays) if arrays else Remembered.nothing(method.n_sites)


def _weights(state: State) -> dict[int, float]:
    return {int(c): float(w) for c, w in state["weights"].reshape(-1, 2)}


def _claims(state: State) -> dict[int, tuple[float, float]]:
    """Examples that each client claimed in this round, and those that it counts for."""
    return {int(c): (claimed, counted) for c, claimed, counted in state["claims"].tolist()}


def claim_of(state: State, client: int | None) -> int:
    """Examples that a client claimed in this round; 0 if it was not heard."""
    claimed = _claims(state).get(-1 if client is None else client)
    return int(claimed[0]) if claimed else 0


def expected_projections(
    method: HopfieldSettings, state: State, client: int | None
) -> np.ndarray | None:
    """What the operator of a client gives along the basis that it was sent, if it is exact."""
    heard = operators_of(state).get(-1 if client is None else client)
    if heard is None or not method.encoding.exact:
        return None
    vectors = state["counted/spectrum/vectors"]
    projected: np.ndarray = vectors.T @ method.encoding.decode(heard).matmat(vectors)
    return projected * claim_of(state, client)


def operators_of(state: State) -> dict[int, Message]:
    """Messages of the first exchange of the round under way, by client."""
    heard: dict[int, Message] = {}
    for name, array in below(state, "heard").items():
        client, _, field = name.partition("/")
        heard.setdefault(int(client), {})[field] = array
    return heard


def _without(state: State, *parts: str) -> State:
    return {k: v for k, v in state.items() if k.partition("/")[0] not in parts}
