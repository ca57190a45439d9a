"""A federation of neural networks: any method on any data, under one protocol (`hopfed fl run`).

Every round a cohort is drawn, trains, and is aggregated; then every client, in the cohort or not,
is scored on its own validation and test examples by the model it would use. The round is chosen by
validation, and its test accuracy is what is reported: plain and size-weighted means over clients,
their deviation, and the worst tenth. The seed draws partition, initial weights and cohorts.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from hopfed.config import check_types, require, with_settings
from hopfed.errors import ArgumentError
from hopfed.experiments import Arrays, Measure, Record
from hopfed.experiments._statistics import mean_and_sd
from hopfed.federation.contract import EVERYONE
from hopfed.federation.engines import Engine
from hopfed.federation.participation import Participation
from hopfed.federation.rounds import FederationState, Played, play_round


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes
    ----------
    method, options : name of the method, and its own settings as ``key=value,key=value``.
    data, partition, clients, models, norm, published, examples, augment : see
        `hopfed.neural.task.TaskSpec`.
    rounds : communication rounds.
    rate, late, delay : participation, see `hopfed.federation.participation`.
    minimum : clients that must be heard in a round.
    optimizer, lr, momentum, weight_decay, epochs, batch, clip, way : see
        `hopfed.neural.training.Training`.
    every : rounds between two evaluations.
    target : test accuracy whose price is reported, 0 for none.
    seeds : runs.
    """

    method: str = "fedavg"
    options: str = ""
    data: str = "digits"
    partition: str = "dirichlet:0.5"
    clients: int = 10
    models: tuple[str, ...] = ("lenet",)
    norm: str = "group"
    published: bool = False
    examples: int = 0
    augment: bool = False
    rounds: int = 20
    rate: float = 1.0
    late: float = 0.0
    delay: int = 1
    minimum: int = 1
    optimizer: str = "sgd"
    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 0.0
    epochs: int = 1
    batch: int = 32
    clip: float = 0.0
    way: str = "auto"
    every: int = 1
    target: float = 0.0
    seeds: int = 1

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("clients", "rounds", "every", "seeds"):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        require(0 <= self.target <= 1, "target", "in [0, 1]", self.target)
        require(1 <= self.minimum <= self.clients, "minimum", "1 to clients", self.minimum)
        self.participation()

    def participation(self) -> Participation:
        """Who takes part."""
        return Participation(self.rate, self.late, self.delay)

    def make(self, seed: int) -> Any:
        """Return the method."""
        from hopfed.neural.methods import method
        from hopfed.neural.task import TaskSpec
        from hopfed.neural.training import Training

        names = ("data", "partition", "clients", "models", "norm", "published", "examples")
        task = TaskSpec(**{n: getattr(self, n) for n in names}, augment=self.augment, seed=seed)
        names = ("optimizer", "lr", "momentum", "weight_decay", "epochs", "batch", "clip")
        training = Training(**{n: getattr(self, n) for n in names}, way=self.way)
        made = method(self.method)(task, training)
        own = [part for part in self.options.split(",") if part]
        return with_settings(made, own) if own else made


PRESETS = {
    "quick": Config(clients=5, rounds=3),
    "default": Config(),
    "paper": Config(seeds=5),
}

RECORD = Record(
    claim="a federation of neural networks under one protocol",
    source="hopfed fl run",
    minutes={"quick": 0.2, "default": 0.5, "paper": 2},
    measures={
        "test": Measure("test accuracy, mean over clients"),
        "weighted": Measure("the same, clients weighed by test examples"),
        "decile": Measure("the same, worst tenth of the clients"),
        "spread": Measure("standard deviation over clients"),
        "round": Measure("round chosen by validation"),
        "last": Measure("test accuracy in the last round"),
        "megabytes_up": Measure("MB sent up by a client until then"),
        "megabytes_down": Measure("MB sent down to a client until then"),
        "gigaflops": Measure("GFLOP of a client until then"),
        "rounds_to_target": Measure("rounds to the target"),
        "megabytes_to_target": Measure("MB both ways of a client to the target"),
        "gigaflops_to_target": Measure("GFLOP of a client to the target"),
    },
)


def run_round(
    config: Config, seed: int, t: int, state: Arrays | None, engine: Engine
) -> tuple[Arrays, Arrays | None]:
    """Play one round, and score every client."""
    method = config.make(seed)
    played = play_round(
        method,
        None if state is None else FederationState.unflatten(state),
        t,
        seed=seed,
        clients=config.clients,
        engine=engine,
        participation=config.participation(),
        minimum=config.minimum,
    )
    arrays = played.arrays()
    for name in ("loss", "flops"):
        arrays.setdefault(f"client/{name}", np.full(config.clients, np.nan))
    last = t + 1 == config.rounds
    scores = np.full((2, config.clients), np.nan)
    if last or (t + 1) % config.every == 0:
        scores = _scores(method, played)
    arrays |= {"validation": scores[0], "test": scores[1]}
    arrays["sizes"] = method.made.split.sizes
    return arrays, None if last else played.state.flatten()


def _scores(method: Any, played: Played) -> np.ndarray:
    """(2, clients) accuracy of every client on its validation and test examples."""
    from hopfed.neural.evaluation import accuracies

    task, state = method.made, played.state
    everyone = state.down.get(EVERYONE, {})
    shared: dict[int, Any] = {}
    classifiers = []
    for c in range(len(task.split)):
        own = state.clients.get(c, method.client_start(c, task.spec.seed))
        down = state.down.get(c, everyone)
        if method.shared and down is everyone:
            model = id(task.model(c))
            if model not in shared:
                shared[model] = method.classifier(own, down, c)
            classifiers.append(shared[model])
        else:
            classifiers.append(method.classifier(own, down, c))
    return accuracies(classifiers, task.tensors, (task.split.validation, task.split.test))


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Test accuracy at the round that validation chooses, and what it took to get there."""
    from hopfed.neural.evaluation import bottom_decile

    validation, test = arrays["validation"], arrays["test"]
    scored = np.asarray(~np.isnan(validation).all(axis=2))
    mean = np.where(scored, np.nanmean(np.where(scored[..., None], validation, 0), axis=2), -1)
    best = mean.argmax(axis=1)
    seeds = np.arange(len(best))
    chosen = test[seeds, best]
    weights = arrays["sizes"][:, 0, :, 2].astype(float)
    up, down, flops = (_spent(arrays, n) for n in ("traffic/up", "traffic/down", "client/flops"))
    summary = {
        "test": mean_and_sd(chosen.mean(axis=1)),
        "weighted": mean_and_sd((chosen * weights).sum(axis=1) / weights.sum(axis=1)),
        "decile": mean_and_sd(bottom_decile(chosen)),
        "spread": mean_and_sd(chosen.std(axis=1)),
        "round": mean_and_sd(best + 1.0),
        "last": mean_and_sd(test[:, -1].mean(axis=1)),
        "megabytes_up": mean_and_sd(up[seeds, best] / 1e6),
        "megabytes_down": mean_and_sd(down[seeds, best] / 1e6),
        "gigaflops": mean_and_sd(flops[seeds, best] / 1e9),
    }
    if config.target:
        reached = np.where(scored, np.nan_to_num(test).mean(axis=2), 0) >= config.target
        if reached.any(axis=1).all():
            first = reached.argmax(axis=1)
            summary |= {
                "rounds_to_target": mean_and_sd(first + 1.0),
                "megabytes_to_target": mean_and_sd((up + down)[seeds, first] / 1e6),
                "gigaflops_to_target": mean_and_sd(flops[seeds, first] / 1e9),
            }
    return summary


def _spent(arrays: Arrays, name: str) -> np.ndarray:
    """What a client has spent up to each round, mean over clients: (seeds, rounds)."""
    return np.asarray(np.nan_to_num(arrays[name].astype(float)).mean(axis=2).cumsum(axis=1))


def with_options(config: Config, settings: list[str]) -> Config:
    """Return `config` with ``key=value`` settings of its own or of its method."""
    from hopfed.neural.methods import method

    mine = {f.name for f in fields(Config)} - {"method", "options"}
    own = {f.name for f in fields(method(config.method))} - {"task", "training"}
    ours: list[str] = []
    theirs = [part for part in config.options.split(",") if part]
    for setting in settings:
        name = setting.partition("=")[0].strip()
        if name not in mine | own:
            near = get_close_matches(name, mine | own, n=1, cutoff=0.5)
            hint = f" (did you mean {near[0]}?)" if near else ""
            rule = f"a setting of hopfed fl run, or of {config.method}{hint}"
            raise ArgumentError("--set", rule, repr(name))
        (ours if name in mine else theirs).append(setting)
    return replace(with_settings(config, ours), options=",".join(theirs))
