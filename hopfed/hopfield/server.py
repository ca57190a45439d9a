"""The server's side: from operators to archetypes, in up to three exchanges a round.

1. Operators up. Weighted by the clients' plasticity they join the evidence (or are blended with
   what is remembered, as the paper has it), and its spectrum is counted. Basis down.
2. Projections up: joint diagonalisation, search and exposure fit find the archetypes; what is new
   is remembered. Archetypes down.
3. Votes up: sums of the examples nearest to each archetype, which make the patterns exact.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hopfed.arrays import blas_threads
from hopfed.factorize import Archetypes, Groups, factorize
from hopfed.federation.contract import EVERYONE, Context, Metrics, State
from hopfed.federation.messages import Message
from hopfed.hopfield.blending import Blended, Counted
from hopfed.hopfield.client import pack_patterns
from hopfed.hopfield.evidence import Evidence
from hopfed.hopfield.remembered import Remembered
from hopfed.hopfield.settings import HopfieldSettings
from hopfed.hopfield.support import Support
from hopfed.operators import HebbianOperator
from hopfed.rank import RankEstimate
from hopfed.rng import stream
from hopfed.spectrum import Spectrum

TOP = 16  # leading eigenvalues that the metrics of a round keep

Answer = tuple[State, Mapping[int, Message], Metrics]


def hear_operators(
    method: HopfieldSettings, state: State, messages: Mapping[int, Message], context: Context
) -> Answer:
    """Add the operators of a round to the evidence, and count its spectrum."""
    weights = client_weights(method, messages, context)
    operators = {c: method.encoding.decode(m) for c, m in messages.items()}
    fresh = method.robust.pooled(operators, messages, weights)
    evidence = _evidence(method, state).faded(method.carry).extend(fresh)
    counted = count(method, evidence, _memory(method, state).patterns, operators, weights)
    heard = {f"heard/{c}/{k}": v for c, m in messages.items() for k, v in m.items()}
    state = _without(state, "heard", "evidence") | heard
    state |= {f"evidence/{k}": v for k, v in evidence.flatten().items()}
    state |= {"weights": np.array([[c, w] for c, w in weights.items()])}
    values = np.full(TOP, np.nan)
    values[: len(counted.spectrum.values)] = counted.spectrum.values[:TOP]
    rank = counted.rank
    metrics = {
        "khat": rank.khat,
        "threshold": rank.threshold,
        "quality": rank.quality,
        "eigenvalues": values,
        "examples": evidence.n_examples,
    }
    if method.joint:
        basis = counted.spectrum.vectors.astype(np.float32)
        return state | _keep(counted), {EVERYONE: {"basis": basis}}, metrics
    state, found = remember(method, state, counted, None, context)
    return state, {EVERYONE: broadcast(method, state)}, metrics | found


def hear_projections(
    method: HopfieldSettings, state: State, messages: Mapping[int, Message], context: Context
) -> Answer:
    """Factor the evidence into archetypes with the clients' projections."""
    counted = _kept(method, state)
    groups = None
    if messages and counted.rank.khat:
        groups = _groups(messages, _weights(state), counted)
    state, found = remember(method, state, counted, groups, context)
    return state, {EVERYONE: broadcast(method, state)}, found


def hear_votes(
    method: HopfieldSettings, state: State, messages: Mapping[int, Message], _: Context
) -> Answer:
    """Add the votes of a round to the archetypes it broadcast."""
    memory = _memory(method, state)
    told = np.flatnonzero(memory.rounds >= method.persistence)
    votes, voters = np.zeros(memory.votes.shape), np.zeros(len(memory))
    weights = _weights(state)
    for c, message in messages.items():
        votes[told] += weights[c] * message["votes"]
        voters[told] += weights[c] * message["voters"]
    memory = memory.vote(votes, voters)
    # A pattern that no example resembles is an eigenvalue that noise put above the threshold.
    memory = memory.select((memory.voters > 0) | (memory.rounds < method.persistence))
    state = closed(state, memory)
    return state, {EVERYONE: broadcast(method, state)}, {"archetypes": len(memory)}


def count(
    method: HopfieldSettings,
    evidence: Evidence,
    patterns: np.ndarray,
    operators: Mapping[int, HebbianOperator],
    weights: Mapping[int, float],
) -> Counted:
    """Count the spectrum of the evidence, or of its blend with the remembered patterns."""
    if evidence.operator is None:
        return nothing(method.n_sites)
    with blas_threads(1):
        blended = Blended.of(method.memory, evidence, patterns, weights, method.alpha)
        return blended.count(operators)


def remember(
    method: HopfieldSettings,
    state: State,
    counted: Counted,
    groups: Groups | None,
    context: Context,
) -> tuple[State, Metrics]:
    """Factor the spectrum, and bring the remembered archetypes up to date."""
    memory, evidence, rank = _memory(method, state), _evidence(method, state), counted.rank
    found: Archetypes = factorize(
        counted.spectrum,
        rank,
        groups=groups,
        search=method.search,
        known=memory.patterns,
        seed=context.derive("factorize"),
    )
    if method.memory != "separate" and rank.khat:
        # The paper's memory is the operator: what it no longer shows is gone.
        memory = memory.select(memory.near(found.patterns))
    memory = memory.learn(found.patterns, context.round)
    if evidence.operator is not None:
        memory = memory.oriented(evidence.columns / evidence.mass)
    memory = _confirmed(method, state, memory, counted, context.round)
    state = state | {f"memory/{k}": v for k, v in memory.flatten().items()}
    if rank.khat:
        state["quality"] = np.array(rank.quality)
    if not method.votes:
        state = closed(state, memory)
    metrics = {"archetypes": len(memory), "explained": found.fit, "ok": found.status == "ok"}
    return state, metrics


def _confirmed(
    method: HopfieldSettings, state: State, memory: Remembered, counted: Counted, t: int
) -> Remembered:
    """Note which patterns the operators of this round support; drop what they never did."""
    heard = _heard(state)
    if len(memory) == 0 or not heard:
        return memory
    weights = _weights(state)
    support = Support.of(
        [method.encoding.decode(m) for m in heard.values()],
        memory.patterns,
        [weights[c] for c in heard],
        [counted.variances.get(c, counted.rank.variance) for c in heard],
    )
    shown = support.scores() > method.level
    if method.quorum > 0:
        order = stream(method.encoding.seed, "groups of clients", t).permutation(len(heard))
        groups = np.array_split(order, min(method.client_groups, len(heard)))
        shown &= support.agreement(groups, method.level) >= method.quorum
    memory = memory.confirm(shown, t)
    waiting = t - memory.seen < method.patience
    return memory.select((memory.rounds >= method.persistence) | waiting)


def client_weights(
    method: HopfieldSettings, messages: Mapping[int, Message], context: Context
) -> dict[int, float]:
    """Weight per example of each client: its plasticity, faded where the message is late."""
    weights = {}
    for c, message in messages.items():
        w = float(np.clip(message["weight"], 0.0, 1.0)) * method.carry ** context.ages.get(c, 0)
        if method.weighting == "clients":
            w /= max(float(message["examples"]), 1.0)
        weights[c] = w
    return weights


def _groups(
    messages: Mapping[int, Message], weights: Mapping[int, float], counted: Counted
) -> Groups:
    """Group projections of all clients, each brought to the common noise variance."""
    K, common = counted.rank.khat, counted.rank.variance
    eye, lower = np.eye(K), np.tri(K, dtype=bool)
    sums, counts = [], []
    for c, message in messages.items():
        full = np.zeros((len(message["sizes"]), K, K))
        full[:, lower] = message["groups"]
        full += full.transpose(0, 2, 1) * (1 - eye)
        sizes = message["sizes"].astype(np.float64)
        excess = counted.variances.get(c, common) - common
        full -= sizes[:, None, None] * excess * eye
        sums.append(full * weights[c])
        counts.append(sizes * weights[c])
    return Groups(np.concatenate(sums), np.concatenate(counts))


def broadcast(method: HopfieldSettings, state: State) -> Message:
    """What the server says it remembers: the archetypes confirmed often enough, as bits."""
    memory = _memory(method, state)
    told = memory.patterns[memory.rounds >= method.persistence]
    quality = np.asarray(state.get("quality", 1.0), dtype=np.float32)
    return {"patterns": pack_patterns(told), "quality": quality}


def closed(state: State, memory: Remembered) -> State:
    """Drop what only the exchanges of one round need."""
    state = _without(state, "heard", "weights", "counted", "memory")
    return state | {f"memory/{k}": v for k, v in memory.flatten().items()}


def nothing(n_sites: int) -> Counted:
    """Return the count where there is no evidence."""
    empty = np.zeros(0)
    spectrum = Spectrum(
        empty, np.zeros((n_sites, 0)), empty, n_sites, 1.0, False, "none", 0, "converged"
    )
    return Counted(spectrum, RankEstimate(0, np.nan, 1.0, empty, empty, "no evidence"), {})


def _keep(counted: Counted) -> State:
    """Arrays of a count, from one exchange to the next."""
    spectrum, rank = counted.spectrum, counted.rank
    return {
        "counted/values": spectrum.values,
        "counted/vectors": spectrum.vectors,
        "counted/residuals": spectrum.residuals,
        "counted/strengths": rank.strengths,
        "counted/overlaps": rank.overlaps,
        "counted/variances": np.array([[c, v] for c, v in counted.variances.items()]),
        "counted/scalars": np.array(
            [rank.khat, rank.threshold, rank.variance, spectrum.n_examples, spectrum.complete]
        ),
    }


def _kept(method: HopfieldSettings, state: State) -> Counted:
    a = _below(state, "counted")
    khat, threshold, variance, examples, complete = a["scalars"].tolist()
    rank = RankEstimate(
        int(khat), threshold, variance, a["strengths"], a["overlaps"], "Tracy-Widom", unequal=True
    )
    spectrum = Spectrum(
        a["values"],
        a["vectors"],
        a["residuals"],
        method.n_sites,
        examples,
        bool(complete),
        "kept",
        1,
        "converged",
    )
    return Counted(spectrum, rank, {int(c): v for c, v in a["variances"].reshape(-1, 2)})


def _evidence(method: HopfieldSettings, state: State) -> Evidence:
    return Evidence.unflatten(method.encoding, _below(state, "evidence"))


def _memory(method: HopfieldSettings, state: State) -> Remembered:
    arrays = _below(state, "memory")
    return Remembered.unflatten(arrays) if arrays else Remembered.nothing(method.n_sites)


def _weights(state: State) -> dict[int, float]:
    return {int(c): float(w) for c, w in state["weights"].reshape(-1, 2)}


def _heard(state: State) -> dict[int, Message]:
    heard: dict[int, Message] = {}
    for name, array in _below(state, "heard").items():
        client, _, field = name.partition("/")
        heard.setdefault(int(client), {})[field] = array
    return heard


def _below(state: State, part: str) -> Message:
    prefix = part + "/"
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}


def _without(state: State, *parts: str) -> State:
    return {k: v for k, v in state.items() if k.partition("/")[0] not in parts}
