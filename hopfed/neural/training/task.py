"""The data of a federation, divided among clients, and their models.

A `TaskSpec` names data, partition and models; it is small enough to send to worker processes. A
`Task` holds the loaded data and models; every process that needs a task makes it once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import nn

from hopfed._lib.random import stream
from hopfed._lib.settings import check_types, require
from hopfed.errors import ArgumentError
from hopfed.neural.data import Partition, load, partition
from hopfed.neural.data.dataset import name_dataset
from hopfed.neural.data.tensors import Tensors, check_scaling, to_tensors
from hopfed.neural.models import Model, assign, build
from hopfed.neural.models.networks import (
    NetworkWarning,
    is_foreign,
    is_network,
    load_weights,
    name_models,
    resize_features,
)
from hopfed.neural.training.losses import Params

__all__ = ["Task", "TaskSpec", "setting", "task_of"]

NONE = "none"  # in place of a file of weights
Rule = str | tuple[str, ...]  # allowed values of a setting: a range of `RANGES`, or words
RANGES: dict[str, Callable[[float], bool]] = {
    "above 0": lambda v: v > 0,
    "at least 0": lambda v: v >= 0,
    "at least 1": lambda v: v >= 1,
    "at least 0 and below 1": lambda v: 0 <= v < 1,
    "in [0, 1]": lambda v: 0 <= v <= 1,
    "in (0, 1]": lambda v: 0 < v <= 1,
    "in (0, 1)": lambda v: 0 < v < 1,
}


def setting(default: Any, rule: Rule) -> Any:
    """Declare a setting: its `default`, and its `rule`, a range of `RANGES` or allowed words.

    Examples
    --------
    >>> from hopfed.neural.methods.fedavg import FedProx
    >>> FedProx(TaskSpec(), mu=-1.0)
    Traceback (most recent call last):
        ...
    hopfed.errors.ArgumentError: mu must be at least 0, got -1.0
    """
    return field(default=default, metadata={"rule": rule})


def check_settings(made: Any) -> None:
    """Check a job's or method's settings: their types, and the rules that `setting` declares."""
    check_types(made)
    bases = [c for c in reversed(type(made).__mro__) if is_dataclass(c)]
    declared = [f for c in bases for f in fields(c) if f.metadata]  # also of overridden fields
    for name, rule in {f.name: f.metadata["rule"] for f in declared}.items():
        got = getattr(made, name)
        if isinstance(rule, str):
            require(RANGES[rule](got), name, rule, got)
        else:
            require(got in rule, name, f"one of {', '.join(filter(None, rule))}", repr(got))


@dataclass(frozen=True)
class TaskSpec:
    """Names of data, partition and models.

    Attributes
    ----------
    data : argument of `hopfed.neural.data.load`; or a `Dataset`, or arrays (inputs, labels).
    partition : scheme of `hopfed.neural.data.partition`.
    clients : number of clients.
    models : architectures, assigned to clients in turn; mlp:200x100 and lstm:64 give widths,
        module:Net and FILE.py:Net name foreign networks; or modules, classes or functions.
    norm, init : "group" or "batch"; initial weights, see `hopfed.neural.models.build`.
    head_layer : layer of a foreign network that is its head; empty for its last linear layer.
    weights : a file of weights or "none" for each of `models`; empty for none.
    frozen : whether only heads are trained.
    features : length of the features of every model, by a further linear layer before the head, so
        that different networks can share features; 0 for no such layer.
    published : keep the dataset's own test split.
    examples : largest number of examples of the dataset, drawn at random; 0 for all.
    shares : shares of training, validation and test examples of a client, such as 8:1:1.
    augment : whether training images are cropped and flipped at random.
    scaling : "train", subtract the mean and divide by the deviation of each channel, over training
        rows of the clients that may take part; "none", no scaling; "MEAN:STD" such as 0.5:0.25, or
        with numbers for each channel, separated by commas; "auto", none with a warning if a network
        has its own weights, otherwise train.
    seen : number of clients that may take part, counted from the first; 0 for all.
    device : device of training and scoring, "cpu" or "cuda:N".
    seed : seed of partition and initial weights.

    Raises
    ------
    ArgumentError : a field has another type, or is outside its range.

    Examples
    --------
    >>> TaskSpec(clients=0)
    Traceback (most recent call last):
        ...
    hopfed.errors.ArgumentError: clients must be at least 1, got 0
    """

    data: str = "digits"
    partition: str = "dirichlet:0.5"
    clients: int = setting(10, "at least 1")
    models: tuple[str, ...] = ("lenet",)
    norm: str = "group"
    init: str = "auto"
    head_layer: str = ""
    weights: tuple[str, ...] = ()
    frozen: bool = False
    features: int = setting(0, "at least 0")
    published: bool = False
    examples: int = setting(0, "at least 0")
    shares: tuple[float, ...] = (8.0, 1.0, 1.0)
    augment: bool = False
    scaling: str = "auto"
    seen: int = 0
    device: str = "cpu"
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", name_dataset(self.data))
        object.__setattr__(self, "models", name_models(self.models))
        check_settings(self)
        require(0 <= self.seen <= self.clients, "seen", "from 0 to clients", self.seen)
        check_scaling(self.scaling)
        fits = len(self.weights) in (0, len(self.models))
        rule = f"one for each of the {len(self.models)} models"
        require(fits, "weights", rule, ",".join(self.weights))
        one = len(set(self.models)) == len(self.models)
        require(one or not self.weights, "models", "different where weights are given", self.models)

    @property
    def scaled(self) -> str:
        """The scaling in use: "train", "none" or "MEAN:STD"."""
        if self.scaling != "auto":
            return self.scaling
        brings = any(w != NONE for w in self.weights) or any(map(is_network, self.models))
        return "none" if brings else "train"


@dataclass(frozen=True, eq=False)
class Task:
    """Data, models and initial weights of a federation.

    Attributes
    ----------
    spec : the `TaskSpec` of the task.
    split : the partition.
    tensors : the data on the device.
    names : architecture of each client.
    templates : architecture -> model with the initial weights.

    Examples
    --------
    >>> task = task_of(TaskSpec(models=("mlp", "lenet"), clients=3, examples=200))
    >>> task.names, task.classes, sum(len(rows) for rows in task.split.train)
    (('mlp', 'lenet', 'mlp'), 10, 161)
    """

    spec: TaskSpec
    split: Partition
    tensors: Tensors
    names: tuple[str, ...]
    templates: dict[str, Model] = field(default_factory=dict, repr=False)

    @property
    def classes(self) -> int:
        """Number of labels."""
        return self.split.dataset.classes

    @property
    def feature_dim(self) -> int:
        """Length of the features of all clients; ArgumentError if lengths differ."""
        lengths = {name: model.feature_dim for name, model in self.templates.items()}
        got = ", ".join(f"{name} of {length}" for name, length in lengths.items())
        require(len(set(lengths.values())) == 1, "models", "of one feature length", got)
        return next(iter(lengths.values()))

    def labels_of(self, client: int) -> np.ndarray:
        """Return the labels of a client's training examples, (n,)."""
        return np.asarray(self.split.dataset.labels)[self.split.train[client]]

    def model(self, client: int) -> Model:
        """Return the model of a client's architecture."""
        return self.templates[self.names[client]]

    def check_shape(self, client: int) -> None:
        """Raise ArgumentError if the data are not square images, but the model requires them."""
        shape = self.split.dataset.shape
        if len(shape) == 1 or shape[1] == shape[2]:
            return
        try:
            with torch.inference_mode():
                self.model(client).eval()(torch.zeros(1, *shape, device=self.tensors.device))
        except Exception:  # networks of users and libraries raise errors of many kinds
            rule = f"square images for {self.names[client]}"
            raise ArgumentError("data", rule, f"{shape[1]} x {shape[2]} pixels") from None

    def build(self, architecture: str, setting: str = "models") -> Model:
        """Return a new model for the data; the `setting` with its `architecture` is for errors."""
        data, spec, base = self.split.dataset, self.spec, architecture.partition(":")[0]
        vectors, tokens = data.is_images and data.shape[1:] == (1, 1), not data.is_images
        if not (foreign := is_foreign(architecture)):
            takes = base == "mlp" if vectors else (base == "lstm") == tokens
            rule = f"{'lstm' if tokens else 'any but lstm'} for the inputs of {data.name}"
            own = "mlp:64, another mlp or your own network for rows of features"
            require(takes, setting, own if vectors else rule, architecture)
        how: dict[str, Any] = {n: getattr(spec, n) for n in ("seed", "norm", "init")}
        how |= {"channels": int(data.inputs.max()) + 1 if tokens else data.shape[0]}
        how |= {"size": data.shape[-1], "classes": data.classes, "tokens": tokens}
        model = build(architecture, **how, head_layer=spec.head_layer if foreign else "")
        weights = dict(zip(spec.models, spec.weights, strict=False)).get(architecture, NONE)
        if weights != NONE:
            load_weights(model, weights)
        return model

    def initial(self, client: int) -> Params:
        """Return a copy of a client's initial parameters and buffers, in main memory."""
        return copy_parameters(self.model(client))


def copy_parameters(net: nn.Module) -> Params:
    """Return a copy of the parameters and buffers of a task's model, in main memory."""
    return {name: t.detach().cpu().clone() for name, t in net.state_dict().items()}


@lru_cache(2)
def task_of(spec: TaskSpec) -> Task:
    """Return the task that `spec` names, with data and models; the last two tasks are cached.

    Raises
    ------
    ArgumentError, DataError : data, partition or model do not exist, or do not fit together.

    Examples
    --------
    >>> task_of(TaskSpec(models=("mlp",), clients=2, examples=200)).model(1).feature_dim
    200
    """
    dataset, seed = load(spec.data), spec.seed
    if 0 < spec.examples < len(dataset):
        rows = stream(seed, "examples").permutation(len(dataset))[: spec.examples]
        dataset = dataset.take(np.sort(rows))
    vectors = dataset.is_images and dataset.shape[-1] == 1
    require(not (spec.augment and vectors), "augment", "false for vectors", spec.augment)
    how: dict[str, Any] = {"shares": spec.shares, "published": spec.published}
    split = partition(spec.partition, dataset, spec.clients, seed, **how)
    if split.dataset.is_images and spec.scaled != "train" and spec.scaling == "auto":
        said = "inputs are not scaled, as a network has its own weights (scaling=none)"
        warnings.warn(f"{said}; or set train or MEAN:STD", NetworkWarning, stacklevel=2)
    tensors = to_tensors(split, spec.device, spec.scaled, spec.seen)
    task = Task(spec, split, tensors, assign(spec.models, len(split)))
    for name in sorted(set(task.names)):
        model = task.build(name)
        model = resize_features(model, spec.features, spec.seed) if spec.features else model
        task.templates[name] = model.to(tensors.device)
        if spec.frozen:
            model.freeze()
    return task
