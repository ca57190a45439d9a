"""What is learned: data divided among clients, their models, and how a client trains.

A `TaskSpec` is a name for all of it, small enough to travel to worker processes; `Task` is the
thing itself, made once in every process that needs it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch

from hopfed._lib.random import stream
from hopfed._lib.settings import check_types, require
from hopfed.neural.data import Partition, load, partition
from hopfed.neural.data.tensors import Augment, Tensors, to_tensors
from hopfed.neural.models import assign, build
from hopfed.neural.models.base import Model
from hopfed.neural.models.registry import reads_text

Params = dict[str, torch.Tensor]


@dataclass(frozen=True)
class TaskSpec:
    """Names of data, partition and models.

    Attributes
    ----------
    data : what `hopfed.neural.data.load` takes.
    partition : what `hopfed.neural.data.partition` takes.
    clients : number of clients.
    models : architectures, by turns over the clients; mlp:200x100 and lstm:64 have these widths.
    norm : "group" or "batch".
    published : keep the dataset's own test split.
    examples : at most this many examples of the dataset, drawn at random; 0 for all.
    shares : training, validation and test examples of a client, as 8:1:1.
    augment : random crops and flips of training images.
    seed : of partition and initial weights.

    Raises
    ------
    ArgumentError : a field of another type, or outside of its range.

    Examples
    --------
    >>> TaskSpec(clients=0)
    Traceback (most recent call last):
        ...
    hopfed.errors.ArgumentError: clients must be at least 1, got 0
    """

    data: str = "digits"
    partition: str = "dirichlet:0.5"
    clients: int = 10
    models: tuple[str, ...] = ("lenet",)
    norm: str = "group"
    published: bool = False
    examples: int = 0
    shares: tuple[float, ...] = (8.0, 1.0, 1.0)
    augment: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        require(self.clients >= 1, "clients", "at least 1", self.clients)
        require(self.examples >= 0, "examples", "at least 0", self.examples)


@dataclass(frozen=True, eq=False)
class Task:
    """Data, models and initial weights of a federation.

    Attributes
    ----------
    spec : its name.
    split : the partition.
    tensors : the data on the device.
    names : architecture of each client.
    templates : architecture -> model; its weights are the initial ones.

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
        """Length of the features of every client; an error where they differ."""
        lengths = {name: model.feature_dim for name, model in self.templates.items()}
        got = ", ".join(f"{name} of {length}" for name, length in lengths.items())
        require(len(set(lengths.values())) == 1, "models", "of one feature length", got)
        return next(iter(lengths.values()))

    @property
    def augment(self) -> Augment | None:
        """What is done to training images."""
        return Augment() if self.spec.augment and self.tensors.mean is not None else None

    def model(self, client: int) -> Model:
        """Architecture of a client."""
        return self.templates[self.names[client]]

    def build(self, architecture: str) -> Model:
        """Make a model for the data, such as a small one that all clients share."""
        data = self.split.dataset
        rule = f"{'any but lstm' if data.is_images else 'lstm'} for the inputs of {data.name}"
        require(reads_text(architecture) != data.is_images, "model", rule, repr(architecture))
        if data.is_images:
            channels, size = data.shape[0], data.shape[-1]
        else:
            channels, size = int(data.inputs.max()) + 1, data.shape[0]
        return build(
            architecture,
            channels=channels,
            size=size,
            classes=data.classes,
            seed=self.spec.seed,
            norm=self.spec.norm,
        )

    def initial(self, client: int) -> Params:
        """Initial parameters and buffers of a client, its own copy."""
        return {name: t.detach().clone() for name, t in self.model(client).state_dict().items()}


@lru_cache(2)
def task_of(spec: TaskSpec) -> Task:
    """Load the data and make the models that `spec` names.

    Parameters
    ----------
    spec : names of it; the last two tasks are kept.

    Raises
    ------
    ArgumentError, DataError : data, partition or model that are not there or do not fit.

    Examples
    --------
    >>> task_of(TaskSpec(models=("mlp",), clients=2, examples=200)).model(1).feature_dim
    200
    """
    dataset = load(spec.data)
    if 0 < spec.examples < len(dataset):
        rows = stream(spec.seed, "examples").permutation(len(dataset))[: spec.examples]
        dataset = dataset.take(np.sort(rows))
    split = partition(
        spec.partition,
        dataset,
        spec.clients,
        spec.seed,
        shares=spec.shares,
        published=spec.published,
    )
    task = Task(spec, split, to_tensors(split), assign(spec.models, len(split)))
    task.templates.update((name, task.build(name)) for name in sorted(set(task.names)))
    return task
