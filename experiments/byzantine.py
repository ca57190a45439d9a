"""Clients that inject a pattern of their own, and defences that tell it from an archetype."""

from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import product
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.archetypes.overlap import FALSE_BELOW, retrieval
from hopfed.archetypes.subspace import SAME
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Federated, Ints, at_least, within
from hopfed.experiments.shared.hopfield_variants import make_federation, play_variants
from hopfed.experiments.shared.statistics import bootstrap_seeds, mean_and_sd, stack_cells
from hopfed.federation.contract import EVERYONE, Context, Engine, Metrics, State
from hopfed.federation.messages import Message
from hopfed.figures.kinds import Panel, round_plot, scatter
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.byzantine_guard import LEVEL
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.clients import PatternClient
from hopfed.hopfield.operator_evidence import Support, random_groups
from hopfed.hopfield.operator_messages import decode, lower_triangle, unpack_patterns

DEFENCES: dict[str, dict[str, Any]] = {
    "none": {},
    "persistence": {"persistence": 3},
    "agreement": {"quorum": 0.5},
    "both": {"persistence": 3, "quorum": 0.5},
}
QUALITY, AMPLITUDE = 0.8, 0.3  # r of the examples, and amplitude of every liar
KINDS = ("fixed", "wandering")
ROC = ("injected", "rare")  # horizontal axis, vertical axis
SCORES = ("level", "rounds", "groups")  # scores to which the defences apply a threshold


class Config(Federated):
    K: Annotated[int, at_least(2), "archetypes"]
    attackers: Annotated[Ints, lambda s: within(f"[1, {s.clients})"), "liars, by scenario"]
    few: Annotated[int, lambda s: within(f"[1, {s.clients})"), "clients with the rare archetype"]

    @property
    def scenarios(self) -> dict[str, tuple[int, str]]:
        """Name of a scenario -> number and kind of its liars."""
        lies = {f"{n} {kind}": (n, kind) for n in self.attackers for kind in KINDS}
        return {"clean": (0, "fixed"), "rare": (0, "fixed"), **lies}


@dataclass(frozen=True, kw_only=True)
class SpikedClient(PatternClient):
    """Clients, of which the first `attackers` add a pattern of strength `amplitude`."""

    attackers: int
    amplitude: float
    spike: str
    seed: int

    def pattern(self, t: int) -> np.ndarray:
        """Pattern of the liars in round `t`: int8 (N,)."""
        path = (self.spike, t) if self.spike == "wandering" else (self.spike,)
        return rademacher(1, self.n_sites, stream(self.seed, "spike", *path))[0]

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer the server; an attacker lies."""
        state, message, metrics = super().client_step(state, down, context)
        if context.client is None or context.client >= self.attackers:
            return state, message, metrics
        M = len(self.source.examples(context.round, context.client))
        mass, x = self.amplitude * M, self.pattern(context.round).astype(np.float64)
        step, lie = self.steps[context.exchange], Message()
        if step == "operators":  # larger sums would give the liar away
            counts = np.clip(message["counts"] + mass * lower_triangle(np.outer(x, x)), -M, M)
            lie["counts"] = counts.astype(np.float32)
            lie["columns"] = np.clip(message["columns"] + np.rint(mass * x).astype(int), -M, M)
            lie["columns"] = lie["columns"].astype(np.int32)
        elif step == "projections":
            inside = down["basis"].T.astype(np.float64) @ x
            lie["groups"] = message["groups"].copy()
            lie["groups"][0] += mass * np.outer(inside, inside)[np.tri(len(inside), dtype=bool)]
        else:
            overlap = unpack_patterns(down["patterns"], self.n_sites) @ x / self.n_sites
            near = np.abs(overlap) >= max(SAME, np.abs(overlap).max(initial=0))
            own = (near * np.sign(overlap) * M).astype(np.int32)
            if near.any():
                lie = {"votes": np.outer(own, x).astype(np.int32), "voters": np.abs(own)}
        return state, message | lie, metrics


@dataclass(frozen=True)
class Spiked(HopfieldFederation):
    """A Hopfield federation whose first clients lie; `lie` has the settings of `SpikedClient`."""

    lie: dict[str, Any] = field(kw_only=True)

    @cached_property
    def client(self) -> SpikedClient:
        """Steps of clients."""
        own = super().client
        return SpikedClient(**{f.name: getattr(own, f.name) for f in fields(own)}, **self.lie)


def measure(seed: int, config: Config, engine: Engine) -> Arrays:
    xi, L = rademacher(config.K, config.N, stream(seed, "byzantine")), config.clients
    variants = {
        f"{scenario}/{name}": _method(config, xi, scenario, seed, **settings)
        for scenario, (name, settings) in product(config.scenarios, DEFENCES.items())
    }

    def broadcast(_: Any, t: int, before: Any, played: Any) -> Arrays:  # noqa: ARG001
        match = retrieval(unpack_patterns(played.state.down[EVERYONE]["patterns"], config.N), xi)
        return {"magnetisation": match.magnetisation, "false": np.array(match.false_discoveries)}

    arrays = play_variants(variants, xi, (seed, config, engine), broadcast)
    kept = {k: v for k, v in arrays.items() if k.endswith(("/magnetisation", "/false"))}
    for name in ("rare", *(f"{max(config.attackers)} {kind}" for kind in KINDS)):
        method, rounds = _method(config, xi, name, seed), range(config.rounds)
        patterns = np.vstack([xi, *(method.client.pattern(t) for t in rounds)])
        scores = []
        for t in rounds:  # scores of each pattern: in pooled operators, and by agreement of groups
            step = method.client.client_step
            sent = (step({}, {}, Context(seed, t, 0, c))[1] for c in range(L))
            operators = [decode(message, config.N) for message in sent]
            support = Support.of(operators, patterns, [1.0] * L, [1 - QUALITY**2] * L)
            groups = random_groups(L, method.server_start(seed)["secret"], t)
            scores.append({"level": support.scores(), "groups": support.agreement(groups)})
        kept |= {f"{name}/support/{score}": held for score, held in stack_cells(scores).items()}
    return kept


def _method(config: Config, xi: np.ndarray, scenario: str, seed: int, **guard: Any) -> Spiked:
    mixtures = np.full((config.rounds, config.clients, config.K), 1 / config.K)
    if scenario == "rare":  # only the last clients have the last archetype
        mixtures[:, : -config.few] = np.append(np.full(config.K - 1, 1 / (config.K - 1)), 0)
    honest = make_federation(config, xi, seed, mixtures, quality=QUALITY, **guard)
    attackers, kind = config.scenarios[scenario]
    lie = {"attackers": attackers, "spike": kind, "amplitude": AMPLITUDE, "seed": seed}
    return Spiked(honest.source, honest.channel, guard=honest.guard, lie=lie)


def _judged(config: Config, arrays: Arrays, kind: str, score: str) -> dict[str, np.ndarray]:
    """Scores (seeds, any) of "common", "rare" and "injected" patterns, with the most liars."""
    K, which = config.K, "level" if score == "rounds" else score
    lies, rare = (
        arrays[f"{name}/support/{which}"] for name in (f"{max(config.attackers)} {kind}", "rare")
    )
    if score == "rounds":
        lies, rare = ((v > LEVEL).sum(axis=1, keepdims=True) for v in (lies, rare))
        injected = lies[..., K:]
    else:  # each injected pattern in its own round
        injected = np.diagonal(lies[..., K:], axis1=1, axis2=2)
    found = {"common": lies[..., :K], "rare": rare[..., K - 1], "injected": injected}
    return {name: v.reshape(len(v), -1) for name, v in found.items()}


def _area(true: np.ndarray, false: np.ndarray) -> float:
    """Area under the ROC: chance that true exceeds false, ties counted half."""
    return float((1 + np.sign(true.ravel()[:, None] - false.ravel())).mean() / 2)


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    lies = [name for name, (n, _) in config.scenarios.items() if n > 0]
    groups = {"clean": ["clean"]} | {k: [s for s in lies if s.endswith(k)] for k in KINDS}
    summary: dict[str, Any] = {}
    for d in DEFENCES:
        for key, names in groups.items():
            false = [arrays[f"{s}/{d}/false"].mean(axis=1) for s in names]
            summary[f"false/{key}/{d}"] = mean_and_sd(np.mean(false, axis=0))
        last = {s: arrays[f"{s}/{d}/magnetisation"][:, -1] >= FALSE_BELOW for s in ("rare", *lies)}
        kept = np.mean([last[s].mean(axis=1) for s in lies], axis=0)
        summary[f"kept/{d}"] = mean_and_sd(kept)
        summary[f"rare/{d}"] = mean_and_sd(last["rare"][:, -1].astype(float))
    for kind, score, truth in product(KINDS, SCORES, ("common", "rare")):
        values = _judged(config, arrays, kind, score)
        area = bootstrap_seeds(_area, values[truth], values["injected"])
        summary[f"auc/{truth}/{kind}/{score}"] = area
    return summary


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    many, made = max(config.attackers), []
    for kind in KINDS:
        lines = {d: arrays[f"{many} {kind}/{d}/false"] for d in DEFENCES}
        made.append(round_plot(f"false, {many} of {config.clients} lie, {kind}", lines))
    words: dict[str, Any] = {"xlabel": "injected passed", "ylabel": "archetypes passed"}
    for kind in KINDS:
        curves: dict[str, Any] = {}
        for score in SCORES:
            held = _judged(config, arrays, kind, score)
            levels = np.sort(np.r_[held["rare"].ravel(), held["injected"].ravel()])[::-1]
            passed = (np.append(0, [(held[k] >= u).mean() for u in levels]) for k in ROC)
            curves[score] = tuple(passed)
        made.append(scatter(f"rare against {kind}", curves, joined=True, **words))
    return made
