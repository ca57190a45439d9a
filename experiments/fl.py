"""Federation of neural networks: any method on any data with one protocol (`hopfed fl run`).

After every round each client is scored on its own validation and test examples with the model that
it would use. Validation chooses the round whose test accuracy is reported.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from pkgutil import resolve_name
from typing import Annotated, Any

import numpy as np

from hopfed._lib.settings import describe, hint, require, with_settings
from hopfed.errors import HopfedError
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Floats, Settings, Words, among, at_least, within
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.contract import EVERYONE, Engine, Fault, TooFewClientsError
from hopfed.federation.messages import Message, digest, nbytes
from hopfed.federation.rounds import FederationState, Participation, play_round

# Settings that may be objects in Python -> function that names these objects.
GIVEN = {"data": "data.dataset:name_dataset", "partition": "data.partitions:name_partition"}
GIVEN["models"] = "models.networks:name_models"
DOMAINS = ("acc", "wdp", "cdp")  # accuracy on all domains, on the client's own, on the others


class Shared(Settings):
    """Settings of a federation of networks that its comparisons (`shared.cells`) have too.

    `hopfed.neural.training.task.TaskSpec` describes the settings of data and networks, and
    `hopfed.neural.training.job.Training` those of training.
    """

    data: Annotated[str, "name of a dataset or a file"] = "digits"
    partition: Annotated[str, "partition of the examples among clients"] = "dirichlet:0.5"
    clients: Annotated[int, at_least(1)] = 10
    models: Annotated[Words, "architectures, which clients take in turn"] = ("lenet",)
    norm: str = "group"
    init: str = "auto"
    augment: bool = False
    scaling: str = "auto"
    device: str = "cpu"
    examples: Annotated[int, "largest number of examples; 0 for all"] = 0
    shares: Annotated[Floats, "shares of training, validation and test"] = (8.0, 1.0, 1.0)
    unseen: Annotated[float, within("[0, 1)"), "share of the clients that never take part"] = 0.0
    domains: Annotated[bool, "score every client in every domain: ACC, WDP and CDP"] = False
    rounds: Annotated[int, at_least(1)] = 20
    rate: Annotated[float, "share of the clients that take part in a round"] = 1.0
    optimizer: str = "sgd"
    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 0.0
    epochs: int = 1
    batch: int = 32
    clip: float = 0.0
    schedule: str = "constant"
    warmup: int = 0
    drop: float = 0.0
    stragglers: float = 0.0
    newcomers: int = 0
    record_bound: float = 0.0
    record_noise: float = 0.0
    way: str = "auto"
    precision: str = "float32"
    compile: str = ""
    every: Annotated[int, at_least(1), "rounds between two evaluations"] = 1
    scoring: Annotated[str, among(("all", "part")), "score all clients, or participants"] = "all"


class Config(Shared):
    """Settings.

    In Python `data` may also be a `hopfed.neural.data.Dataset`, or a pair of arrays (inputs,
    labels), see `hopfed.neural.data.dataset.name_dataset`, and `partition` a
    `hopfed.neural.data.Partition` or the rows of each client.
    """

    method: Annotated[str, "name of the method"] = "fedavg"
    options: Annotated[str, "settings of the method, as key=value,key=value"] = ""
    head_layer: str = ""
    weights: Words = ()
    frozen: bool = False
    features: Annotated[int, at_least(0), "length of features by a linear layer; 0: as is"] = 0
    published: bool = False
    late: Annotated[float, "share of the answers that come late"] = 0.0
    delay: Annotated[int, "longest delay in rounds"] = 1
    minimum: Annotated[
        int, lambda s: within(f"[0, {s.seen}]"), "clients that must answer in a round; 0 for none"
    ] = 1
    measures: Annotated[bool, "AUC, F1, balanced accuracy, loss and confusion as well"] = False
    keep: Annotated[str, "folder for the networks of the best round; empty for none"] = ""

    def __post_init__(self) -> None:
        for name, kept in GIVEN.items():
            value = getattr(self, name)
            words = value if isinstance(value, tuple) else (value,)
            if not all(isinstance(word, str) for word in words):  # names load no module
                object.__setattr__(self, name, resolve_name(f"hopfed.neural.{kept}")(value))
        super().__post_init__()

    def validate(self) -> None:
        """Refuse wrong rates, and scores of some clients where every domain is scored."""
        Participation(self.rate, self.late, self.delay)
        whole = self.scoring == "all" or not self.domains
        require(whole, "scoring", "all where every domain is scored", self.scoring)

    def fingerprint(self, seed: int) -> dict[str, str]:
        """Facts that a continued run must share besides its settings."""
        made = self.make(seed)
        own = [f.name for f in fields(made) if f.name not in ("task", "training")]
        options = ",".join(f"{name}={describe(getattr(made, name))}" for name in own)
        return {"data": digest_examples(made.loaded), "options": options or "none"}

    @property
    def seen(self) -> int:
        """Number of clients that may take part: the first ones."""
        return max(1, self.clients - round(self.unseen * self.clients))

    def make(self, seed: int) -> Any:
        """Return the method."""
        from hopfed.neural.methods import method
        from hopfed.neural.models.networks import convert_user_errors
        from hopfed.neural.training.job import Training
        from hopfed.neural.training.task import TaskSpec

        task = TaskSpec(**self.part(TaskSpec), seed=seed)
        training = Training(**self.part(Training))
        own = [part for part in self.options.split(",") if part]
        with convert_user_errors(
            self.method, "a method that can be made with these settings", "method"
        ):
            made = method(self.method)(task, training)
            for name in (part.partition("=")[0].strip() for part in own):
                rule = f"settings of {self.method}, and {name} is one of Config: give {name}=..."
                require(name in vars(made) or not hasattr(self, name), "options", rule, repr(name))
            return with_settings(made, own, "options") if own else made


QUIET = (Fault.NONE, Fault.ABSENT, Fault.LATE)


def check_longer(config: Config, before: int) -> None:
    """Experiment `fl`: refuse more rounds if a run's `before` rounds would have been different."""
    same = config.schedule != "cosine" and before % config.every == 0
    rule = f"{before}, as in the file: more would change its learning rate or evaluations"
    require(same, "rounds", rule, config.rounds)


def code_of(config: Any) -> tuple[str, ...]:
    """Users' code, ``module:Class``, in the settings of experiment `fl`, or of any other."""
    method, models = getattr(config, "method", ""), getattr(config, "models", ())
    code = (method,) if ":" in method else ()
    if not any(":" in name for name in models):  # the import below needs PyTorch
        return code
    from hopfed.neural.models.networks import own_code

    return code + tuple(own_code(models))


def measure_round(
    seed: int, config: Config, t: int, state: FederationState | None, engine: Engine
) -> tuple[Arrays, FederationState]:
    """Experiment `fl`: play one round of a federation of networks, and score every client."""
    method = config.make(seed)
    arrays, after = train_round(config, method, t, state, engine)
    arrays |= score_clients(config, method, t, after, arrays)
    if config.measures:
        arrays |= measure_clients(config, method, after, np.flatnonzero(arrays["scored"]).tolist())
    if config.keep:
        from hopfed.experiments.shared.kept_networks import keep_networks

        keep_networks(config, seed, t, arrays, method, after)
    return arrays, after


def train_round(
    config: Config, method: Any, t: int, state: FederationState | None, engine: Engine
) -> tuple[Arrays, FederationState]:
    """Experiment `fl`: play round `t` of a method; return costs by client, and the state after it.

    Costs of round 0 include the first model, where the server sends one, and the sums by which
    inputs are scaled. A message that scored the client before (`score_clients`) counts once.
    """
    who: dict[str, Any] = {"clients": config.seen, "minimum": config.minimum}
    who["participation"] = Participation(config.rate, config.late, config.delay)
    try:
        played = play_round(method, state, t, seed=method.task.seed, engine=engine, **who)
    except TooFewClientsError as error:
        advice = f"; lr = {config.lr:g} is likely too high" if "not finite" in str(error) else ""
        raise HopfedError(f"{error}{advice}") from error
    arrays = {n: _padded(n, a, config) for n, a in played.arrays().items()}
    up, down = (arrays[f"traffic/{n}"] for n in ("up", "down"))
    if state is not None:
        down -= np.minimum(down, _fetched(config, method, t - 1, state))
    else:
        there = (arrays["faults/code"] != Fault.ABSENT) | (arrays["faults/reason"] != b"")
        asked = np.flatnonzero(there)  # including clients that dropped out
        down[asked] += [method.opening_bytes(c) for c in asked]
        data = method.loaded.split.dataset
        if data.is_images and method.task.scaled == "train":
            up[: config.seen] += 8 * (1 + 2 * data.shape[0])  # number, sums, sums of squares
            down[: config.seen] += 8 * 2 * data.shape[0]
    for name in method.tells:
        arrays.setdefault(f"client/{name}", np.full(config.clients, np.nan))
    return arrays, played.state


def score_clients(
    config: Config, method: Any, t: int, state: FederationState, played: Arrays
) -> Arrays:
    """Experiment `fl`: accuracies (clients,) in the state after round `t`; NaN where not due.

    `played` are the arrays of the round. A client that is `scored` and has no accuracy
    has a network that is not finite. Costs of scoring are separate: `scoring/bytes` of messages
    down, `scoring/flops` of training.
    """
    chosen = _scored(config, t, state)
    scored = np.isin(np.arange(config.clients), chosen)
    scores, flops = scores_and_flops(method, state, chosen)
    if method.tunes:  # the answers of clients counted these FLOPs
        flops[played["faults/code"] == Fault.NONE] = 0
    arrays: Arrays = {"validation": scores[0], "test": scores[1], "scored": scored}
    arrays |= {"scoring/bytes": _fetched(config, method, t, state), "scoring/flops": flops}
    if config.domains:
        arrays |= score_by_domain(method, state if chosen else None)
    return arrays | {"sizes": method.loaded.split.sizes}


def _scored(config: Config, t: int, state: FederationState) -> list[int]:
    """Clients that are scored after round `t`."""
    if t + 1 != config.rounds and (t + 1) % config.every:
        return []
    return [c for c in range(config.clients) if config.scoring == "all" or c in state.clients]


def _fetched(config: Config, method: Any, t: int, state: FederationState) -> np.ndarray:
    """Bytes (clients,) of the messages down that clients are scored with after round `t`."""
    found, everyone = np.zeros(config.clients, np.int64), nbytes(state.down.get(EVERYONE, {}))
    for c in _scored(config, t, state):
        if method.fetches(c in state.clients):
            found[c] = nbytes(state.down[c]) if c in state.down else everyone
    return found


def _padded(name: str, array: np.ndarray, config: Config) -> np.ndarray:
    """Extend an array over participating clients to all clients, with padding."""
    missing = config.clients - config.seen
    if not missing or np.shape(array)[:1] != (config.seen,):
        return array
    blank = np.nan if array.dtype.kind == "f" else array.dtype.type()
    blank = Fault.ABSENT if name == "faults/code" else blank
    return np.concatenate([array, np.full((missing, *array.shape[1:]), blank, array.dtype)])


def scores_and_flops(
    method: Any, state: FederationState, chosen: Sequence[int] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Experiment `fl`: accuracy (2, clients) for validation and test; FLOPs (clients,) of training.

    The accuracy of clients that are not `chosen` is NaN.
    """
    from hopfed.neural.training.evaluation import accuracies

    task, L = method.loaded, len(method.loaded.split)
    groups: dict[object, list[int]] = {}  # clients with equal models and messages
    for c in range(L) if chosen is None else chosen:
        tuned = method.training.newcomers and c not in state.clients
        alike = method.shared and c not in state.down and not tuned
        groups.setdefault(id(task.model(c)) if alike else f"client {c}", []).append(c)
    parts = (task.split.validation, task.split.test)
    scores, flops = np.full((len(parts), L), np.nan), np.zeros(L)
    for same in groups.values():  # one set of parameters in memory at a time
        client, down = ready_client(method, state, same[0])
        classifier, flops[same] = method.decide(client, down), client.flops
        rows = [[part[c] for c in same] for part in parts]
        scores[:, same] = accuracies([classifier] * len(same), task.tensors, rows)
    return scores, flops


def score_by_domain(method: Any, state: FederationState | None) -> Arrays:
    """Experiment `fl`: test accuracy (clients, domains) by domain; (clients,) ACC, WDP, CDP.

    `validation` is ACC on the validation examples of all domains. All are NaN without a state.
    """
    from hopfed.neural.data.partitions import domain_of
    from hopfed.neural.training.evaluation import score_domains

    task, L = method.loaded, len(method.loaded.split)
    if state is None:
        found = dict.fromkeys((*DOMAINS, "validation"), np.full(L, np.nan))
        found["accuracy"] = np.full((L, domain_of(task.split).max() + 1), np.nan)
    else:
        given = [classifier_of(method, state, c) for c in range(L)], task.tensors, task.split
        every, unseen = score_domains(*given), score_domains(*given, "validation")
        found = {name: every[name] for name in ("accuracy", *DOMAINS)}
        found["validation"] = unseen["acc"]
    return {f"domains/{name}": array for name, array in found.items()}


def measure_clients(
    config: Config, method: Any, state: FederationState, scored: list[int]
) -> Arrays:
    """Experiment `fl`: `chance_measures` (clients,) on test examples; NaN for all but `scored`."""
    import torch

    from hopfed.neural.training.evaluation import MEASURES, chance_measures

    task = method.loaded
    found = {name: np.full(config.clients, np.nan) for name in MEASURES}
    found["confusion"] = np.zeros((config.clients, task.classes, task.classes), np.int64)
    for c in scored:
        classifier, rows = classifier_of(method, state, c), task.split.test[c]
        with torch.inference_mode():
            parts = [classifier(x).double().softmax(1) for x, _ in task.tensors.batches(rows)]
        chances = torch.cat(parts).cpu().numpy()
        for name, value in chance_measures(
            chances, task.split.dataset.labels[rows], task.classes
        ).items():
            found[name][c] = value
    return {f"measures/{name}": array for name, array in found.items()}


@lru_cache(2)
def digest_examples(task: Any) -> str:
    """Experiment `fl`: digest of the examples of a task and of their partition."""
    split = task.split
    arrays = {"inputs": split.dataset.inputs, "labels": split.dataset.labels}
    for c, rows in enumerate(split.train):
        arrays |= {f"{c}/train": rows, f"{c}/validation": split.validation[c]}
    return digest(arrays).hex()


def ready_client(method: Any, state: FederationState, c: int) -> tuple[Any, Message]:
    """Experiment `fl`: client `c` ready to be scored, and the message it is scored with."""
    down = state.down.get(c, state.down.get(EVERYONE, {}))
    made: tuple[Any, Message] = method.readied(
        state.clients.get(c, {}), down, c, c not in state.clients
    )
    return made


def classifier_of(method: Any, state: FederationState, c: int) -> Any:
    """Experiment `fl`: the classifier of client `c` in a state."""
    return method.decide(*ready_client(method, state, c))


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Experiment `fl`: test accuracy at the round that validation chooses, and cost up to it."""
    best, chosen = chosen_round(arrays)
    found = accuracies_and_costs(arrays, best, chosen)
    seeds, rounds, method = np.arange(len(best)), arrays["test"].shape[1], config.make(0)
    if getattr(method, "poisson", False):
        found["epsilon"] = np.full(len(best), method.epsilon(rounds, config.rate))
    if config.record_noise:
        sizes = arrays["sizes"][:, 0, : config.seen, 0]
        found["record_epsilon"] = np.array([method.record_epsilon(rounds, n) for n in sizes])
    if "measures/auc" in arrays:
        lost = np.isnan(mean_over_clients(arrays, "measures/loss")[seeds, best])
        for name in ("auc", "f1", "balanced", "loss"):  # a client of one class has no AUC
            each = np.where(lost[:, None], np.nan, arrays[f"measures/{name}"][seeds, best])
            found[name] = _means(each)
        found["train_loss"] = _means(arrays["client/loss"][seeds, best])
    if config.seen < config.clients:
        found["newcomers"] = chosen[:, config.seen :].mean(axis=1)
    away = arrays["faults/code"][seeds, best, : config.seen] == Fault.ABSENT
    if away.any(axis=1).all():
        found["absent"] = _means(np.where(away, chosen[:, : config.seen], np.nan))
    summary: dict[str, Any] = {name: mean_and_sd(values) for name, values in found.items()}
    lost = _scored_clients(arrays) & np.isnan(arrays["test"])
    lines = describe_troubles(arrays["faults/code"], arrays["faults/reason"], lost, config.lr)
    return summary | ({"trouble": "; ".join(lines.values())} if lines else {})


def accuracies_and_costs(
    arrays: Arrays, best: np.ndarray, chosen: np.ndarray
) -> dict[str, np.ndarray]:
    """Experiment `fl`: accuracies and costs (seeds,) at round `best`, by accuracies `chosen`."""
    from hopfed.neural.training.evaluation import bottom_decile

    seeds, weights = np.arange(len(best)), arrays["sizes"][:, 0, :, 2] * ~np.isnan(chosen)
    test, validation = (mean_over_clients(arrays, name) for name in ("test", "validation"))
    up, down, flops, scoring = (cost[seeds, best] for cost in sum_costs(arrays))
    with np.errstate(invalid="ignore"):
        weighted = (np.nan_to_num(chosen) * weights).sum(axis=1) / weights.sum(axis=1)
    found = {
        "test": _means(chosen),
        "weighted": weighted,  # weights: numbers of test examples
        "decile": np.array([bottom_decile(_whole(row)) for row in chosen]),
        "spread": np.array([_whole(row).std() for row in chosen]),
        "validation": validation[seeds, best],
        "round": best + 1.0,
        "last": test[:, -1],
        "megabytes_up": up / 1e6,
        "megabytes_down": down / 1e6,
        "gigaflops": flops / 1e9,
    }
    return found | ({"gigaflops_scoring": scoring / 1e9} if scoring.any() else {})


def chosen_round(arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Experiment `fl`: round (seeds,) that validation chooses, test accuracy of clients (seeds, L).

    A round in which a client's network is not finite is chosen only where there is no other.
    Clients that were not scored have the accuracy NaN.
    """
    best = np.nan_to_num(mean_over_clients(arrays, "validation"), nan=-1.0).argmax(axis=1)
    chosen = arrays["test"][np.arange(len(best)), best]
    scored = _scored_clients(arrays)[np.arange(len(best)), best]
    lost = (scored & np.isnan(chosen)).any(axis=1)
    return best, np.where(lost[:, None], np.nan, chosen)


def mean_over_clients(arrays: Arrays, name: str) -> np.ndarray:
    """Experiment `fl`: mean (seeds, rounds) of scored clients; NaN without any, or if one is."""
    scored = _scored_clients(arrays)
    total, count = np.where(scored, arrays[name], 0.0).sum(axis=2), scored.sum(axis=2)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _scored_clients(arrays: Arrays) -> np.ndarray:
    """Whether clients were scored, (seeds, rounds, clients); in runs of 0.2 all or none."""
    if "scored" in arrays:
        return np.asarray(arrays["scored"], dtype=bool)
    test = arrays["test"]
    return np.broadcast_to(~np.isnan(test).all(axis=2, keepdims=True), test.shape)


def _whole(accuracy: np.ndarray) -> np.ndarray:
    """Accuracies that are not NaN; a single NaN if there are none."""
    held = accuracy[~np.isnan(accuracy)]
    return held if len(held) else np.full(1, np.nan)


def _means(rows: Iterable[np.ndarray]) -> np.ndarray:
    """Mean of each row over its numbers that are not NaN."""
    return np.array([_whole(row).mean() for row in rows])


def sum_costs(arrays: Arrays) -> tuple[np.ndarray, ...]:
    """Experiment `fl`: bytes up, down, FLOPs, those for scores alone up to rounds, (seeds, rounds).

    They are means over clients. Bytes down include models that were sent for scoring.
    """

    def spent(name: str) -> np.ndarray:
        each = arrays[name].astype(float) if name in arrays else 0 * arrays["test"]  # none in 0.2
        return np.asarray(np.nan_to_num(each).mean(axis=2).cumsum(axis=1))

    up, down, flops = (spent(n) for n in ("traffic/up", "traffic/down", "client/flops"))
    return up, down + spent("scoring/bytes"), flops, spent("scoring/flops")


class TroubleWarning(UserWarning):
    """Warning of clients that fail, or whose updates or networks are not finite."""


def describe_troubles(
    codes: np.ndarray, reasons: np.ndarray, lost: np.ndarray, lr: float
) -> dict[str, str]:
    """Experiment `fl`: a line for each kind of fault of clients, the last axis of all arrays."""
    names = {Fault(k).name.lower().replace("_", " "): k for k in np.unique(codes).tolist()}
    kinds = {name: codes == k for name, k in names.items() if k not in QUIET} | {"": lost}
    lines = {}
    for kind, bad in kinds.items():
        if not bad.any():
            continue
        where = np.nonzero(bad)
        clients = ", ".join(map(str, np.unique(where[-1])))
        trouble = "updates discarded" if kind else "networks not finite, without accuracy"
        why = f" {kind}: {reasons[bad][0].decode()}" if kind else ""
        rate = f"; lr = {lr:g} is likely too high" if kind in ("", "not finite") else ""
        lines[kind] = f"{trouble}, {len(where[-1])} in all, of clients {clients}{why}{rate}"
    return lines


def alarm(config: Config) -> Callable[[int, int, Arrays], None]:
    """Experiment `fl`: callback that warns of each kind of trouble when it begins in a seed."""
    known = set[tuple[int, str]]()

    def of_round(seed: int, t: int, arrays: Arrays) -> None:
        lost = arrays["scored"] & np.isnan(arrays["test"])
        lines = describe_troubles(arrays["faults/code"], arrays["faults/reason"], lost, config.lr)
        for kind in [kind for kind in lines if (seed, kind) not in known]:
            known.add((seed, kind))
            words = f"seed {seed}, round {t + 1}: {lines[kind]}"
            warnings.warn(words, TroubleWarning, stacklevel=2)

    return of_round


def all_lost(arrays: Arrays) -> bool:
    """Experiment `fl`: whether no network scored in the last round is finite, in any seed."""
    scored = _scored_clients(arrays)[:, -1]
    return bool(scored.any() and np.isnan(arrays["test"][:, -1][scored]).all())


def for_data(config: Config, said: Collection[str]) -> list[str]:
    """Experiment `fl`: settings that the data ask for instead of defaults; options `said` stay.

    Rows of features get an mlp; a folder of clients its own partition and number of clients; a
    given partition its own number of clients.
    """
    from hopfed.neural.data.partitions import read_given_partition
    from hopfed.neural.data.sources import client_files, holds_features

    taken: dict[str, Any] = {}
    clients = client_files(config.data)
    if clients and ("partition" not in said or config.partition == "given"):
        taken = {"partition": "given", "clients": len(clients)}
    elif config.partition.startswith("given:"):
        taken["clients"] = len(read_given_partition(config.partition)[0])
    if holds_features(config.data):
        taken["models"] = "mlp:64"
    return [f"{name}={value}" for name, value in taken.items() if name not in said]


def with_options(config: Config, settings: list[str]) -> Config:
    """Experiment `fl`: `config` changed by ``key=value`` settings, its own or of its method."""
    from hopfed.neural.methods import method

    pairs = [(setting.partition("=")[0].strip(), setting) for setting in settings]
    for chosen in [setting for name, setting in pairs if name == "method"]:
        config = replace(config, method=chosen.partition("=")[2].strip())
    own = {f.name for f in fields(method(config.method))} - {f.name for f in fields(Config)}
    known = own | {f.name for f in fields(Config)}
    for name, _ in pairs:
        rule = f"a setting of hopfed fl run, or of {config.method}{hint(name, known, 0.5)}"
        require(name in known, "--set", rule, repr(name))
    theirs = {part.partition("=")[0]: part for part in config.options.split(",") if part}
    theirs |= {name: setting for name, setting in pairs if name in own}
    changed = with_settings(config, [setting for name, setting in pairs if name not in own])
    return replace(changed, options=",".join(theirs.values()))
