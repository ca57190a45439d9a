"""Base class of all neural methods: local training on the contract of `hopfed.federation`.

The base class is a client that trains alone. A method says what it does otherwise: what a client
starts from, the loss that it minimises, the message that it sends, and the server's answer. Clients
of one architecture are trained together where that is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from hopfed._lib.settings import check_types, require
from hopfed.federation.aggregate import mean_tree
from hopfed.federation.contract import Context, Metrics, State
from hopfed.federation.engines import Call, Outcome
from hopfed.federation.faults import Fault
from hopfed.federation.messages import Field, Message, Spec
from hopfed.neural.models.base import Model
from hopfed.neural.training.cost import forward_flops, step_flops
from hopfed.neural.training.evaluation import Classifier, Network
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.stacked_or_not import train
from hopfed.neural.training.task import Params, Task, TaskSpec, copied, task_of
from hopfed.neural.training.training import Job, Phase, Training

Rule = str | tuple[str, ...]  # of a setting: a range of `RANGES`, or the words that it may be
RANGES: dict[str, Callable[[float], bool]] = {
    "above 0": lambda v: v > 0,
    "at least 0": lambda v: v >= 0,
    "at least 1": lambda v: v >= 1,
    "at least 0 and below 1": lambda v: 0 <= v < 1,
    "in [0, 1]": lambda v: 0 <= v <= 1,
    "in (0, 1]": lambda v: 0 < v <= 1,
}


@dataclass(frozen=True)
class NeuralMethod:
    """Base of the neural methods.

    Arguments have the same meaning in all its methods. `state` holds the arrays that a client or
    the server keeps, by name. `down` is the last message from the server. `messages` maps each
    client that answered to its message. `client` is an index. `call` is one step to make, with its
    `context` in the federation; `job` is the training of that step. `seed` is the seed of the run.
    `params` are the parameters and buffers of a network by name. `net` is a network in training,
    and `batch` the examples of a step, see `hopfed.neural.training.losses`.

    Attributes
    ----------
    task : data, partition and models, by name.
    training : how a client trains.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.methods.fedavg import FedProx
    >>> method = FedProx(TaskSpec(models=("mlp",), clients=2, examples=200), Training(epochs=0))
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> method.name, method.source, sorted(played.state.server)[-1]
    ('fedprox', 'Li et al., MLSys 2020', 'model/head.weight')
    """

    task: TaskSpec
    training: Training = field(default_factory=Training)

    exchanges: ClassVar[int] = 1
    fresh: ClassVar[bool] = False
    name: ClassVar[str] = ""
    source: ClassVar[str] = ""
    rules: ClassVar[Mapping[str, Rule]] = {}  # of a method's own settings
    same_model: ClassVar[bool] = False  # whether clients must share one architecture
    shared: ClassVar[bool] = False  # whether all clients classify with the model the server sent
    reads: ClassVar[type[NeuralMethod] | None] = None  # see `trained_as`
    opens: ClassVar[str | None] = None  # prefix of what the server sends before round 0; "": all
    trains_first: ClassVar[bool] = False  # whether one that never took part trains to be scored

    def __post_init__(self) -> None:
        check_types(self)
        one = len(set(self.task.models)) == 1
        rule = f"one architecture for {self.name}"
        require(one or not self.same_model, "models", rule, ", ".join(self.task.models))
        for part in reversed(type(self).__mro__):
            for name, rule in vars(part).get("rules", {}).items():
                got = getattr(self, name)
                if isinstance(rule, str):
                    require(RANGES[rule](got), name, rule, got)
                else:
                    known = ", ".join(word for word in rule if word)
                    require(got in rule, name, f"one of {known}", repr(got))

    @property
    def loaded(self) -> Task:
        """The task itself, made once per process."""
        return task_of(self.task)

    def trained_as(self) -> NeuralMethod:
        """Return the method whose rounds are the same to the bit; itself if they are its own.

        A class that only classifies in another way with what another class trains names that class
        in `reads`. Subclasses may train otherwise, so `reads` is not inherited.
        """
        base = type(self).__dict__.get("reads")
        return self if base is None else base(self.task, self.training)

    # Steps that a method defines, where it is not a client that trains alone.

    def wrap(self, model: Model) -> nn.Module:
        """Return the module that a client trains: its model, or a module that contains it.

        Added parts must start with the same weights in every call.
        """
        return model

    def phases(self) -> tuple[Phase, ...]:
        """Parts of a client's training in a round, in order."""
        return (Phase(self.training.epochs, self.objective),)

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Loss of a batch: cross-entropy."""
        return batch.cross_entropy(net(batch.x)[1])

    def start_params(self, state: State, down: Message, client: int) -> Params:  # noqa: ARG002
        """Parameters that a client trains from: those after its last training."""
        return unpack(state) or self.initial(client)

    def start_params_at(self, call: Call) -> Params:
        """As `start_params`, for a method where they depend on the round."""
        return self.start_params(call.state, call.down, client_of(call.context))

    def extra(self, state: State, down: Message, client: int) -> Params:  # noqa: ARG002
        """Further tensors that the client's objective uses."""
        return {}

    def finish(self, state: State, params: Params, client: int) -> tuple[State, Message]:  # noqa: ARG002
        """State and message of a client after training: its model; nothing."""
        return pack(params), {}

    def finish_at(self, call: Call, params: Params) -> tuple[State, Message]:
        """As `finish`, for a method where the result also depends on `down` or on the round."""
        return self.finish(call.state, params, client_of(call.context))

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """Form of a client's message: that of the message with which it begins."""
        return _form(self, context.client or 0)

    def answer(
        self,
        state: State,
        messages: Mapping[int, Message],  # noqa: ARG002
    ) -> tuple[State, Mapping[int, Message]]:
        """Server's state and messages down: nothing."""
        return state, {}

    def personal(self, state: State, down: Message, client: int) -> Params:
        """Parameters of the model with which the client classifies now."""
        return self.start_params(state, down, client)

    def classifier(self, state: State, down: Message, client: int) -> Classifier:
        """Return the client's present classifier: its model, unless a method overrides this."""
        return Network(self.loaded.model(client), self.personal(state, down, client))

    def reading_flops(self, client: int) -> float:  # noqa: ARG002
        """FLOPs of a client after training, in a round it takes part in."""
        return 0.0

    def fetches(self, known: bool) -> bool:  # noqa: ARG002
        """Whether a client classifies with the server's last message; `known`: it took part."""
        return False

    def scoring_flops(self, client: int, known: bool, heard: bool) -> float:  # noqa: ARG002
        """FLOPs of training for a score alone; `known`: it took part once, `heard`: this round."""
        if known or not self.trains_first:
            return 0.0
        job = self.job(Call({}, {}, Context(self.task.seed, 0, 0, client)))
        spent = 0.0
        for number, phase in enumerate(self.phases()):
            job.begin(phase, number)
            spent += self.training_flops(job, phase) * phase.epochs if job.trained() else 0.0
        return spent + self.reading_flops(client)

    # What methods use.

    def net(self, client: int) -> nn.Module:
        """Return the module that a client trains; clients of one architecture share the object."""
        return _net(self, self.loaded.names[client])

    def initial(self, client: int) -> Params:
        """Copy of the parameters and buffers that a client's network starts with."""
        return copied(self.net(client))

    def size(self, client: int) -> Message:
        """Number of the client's training examples, as a message tells it."""
        return {"examples": np.asarray(len(self.loaded.split.train[client]))}

    def opening_bytes(self, client: int) -> int:
        """Bytes of the first model, or the part of it, that the server sends to a client."""
        if self.opens is None:
            return 0
        return sum(t.nbytes for n, t in self.initial(client).items() if n.startswith(self.opens))

    def pass_flops(self, client: int) -> float:
        """FLOPs of one forward pass over the client's training examples."""
        examples = len(self.loaded.split.train[client])
        return float(examples * forward_flops(self.task, self.loaded.names[client]))

    def after_one_round(self, state: State, down: Message, client: int) -> State:
        """Return `state`; for a client that never took part, its state after one round alone."""
        if state:
            return state
        return self.client_step(state, down, Context(self.task.seed, 0, 0, client))[0]

    # The contract of the federation.

    def alike(self, client: int) -> str:
        """Key that clients must share to be trained together: the architecture."""
        return self.loaded.names[client]

    def client_start(self, client: int, seed: int) -> State:  # noqa: ARG002
        """State of a client before its first round."""
        return {}

    def server_start(self, seed: int) -> State:  # noqa: ARG002
        """State of the server before the first round; networks that do not fit are refused here.

        Raises
        ------
        ArgumentError : a network cannot be made for the data, or does not take images of
            their shape.
        """
        for client in {
            name: c for c, name in reversed(list(enumerate(self.loaded.names)))
        }.values():
            self.net(client)
            self.loaded.check_shape(client)
        return {}

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Train one client."""
        outcome = self.client_steps([Call(state, down, context)])[0]
        if outcome.fault != Fault.NONE or not isinstance(outcome.message, dict):
            raise RuntimeError(outcome.reason)
        return outcome.state, outcome.message, outcome.metrics

    def client_steps(self, calls: Sequence[Call]) -> list[Outcome]:
        """Train the clients of an exchange; outcomes in the order of `calls`."""
        jobs: dict[int, Job] = {}
        failed: dict[int, Outcome] = {}
        for i, call in enumerate(calls):
            try:
                jobs[i] = self.job(call)
            except Exception as error:  # the fault of one client must not stop the others
                failed[i] = Outcome(fault=Fault.RAISED, reason=f"{type(error).__name__}: {error}")
        flops = dict.fromkeys(jobs, 0.0)
        training = self.training.at(calls[0].context.round) if calls else self.training
        for number, phase in enumerate(self.phases()):
            if calls and phase.exchange not in (None, calls[0].context.exchange):
                continue
            for job in jobs.values():
                job.begin(phase, number)
            ours = {i: job for i, job in jobs.items() if job.trained()}
            for i, job in ours.items():
                flops[i] += self.training_flops(job, phase) * phase.epochs
            settings = replace(training, epochs=phase.epochs)
            augment = self.loaded.augment if phase.augment else None
            train(list(ours.values()), self.loaded.tensors, settings, phase.objective, augment)
        return [
            failed[i] if i in failed else self.outcome(calls[i], jobs[i], flops[i])
            for i in range(len(calls))
        ]

    def server_step(
        self, state: State, messages: Mapping[int, Message], context: Context
    ) -> tuple[State, Mapping[int, Message], Metrics]:
        """Answer the clients."""
        del context
        state, down = self.answer(state, messages)
        return state, down, {}

    def job(self, call: Call) -> Job:
        """The training of a step."""
        c = client_of(call.context)
        path = call.context.seed, call.context.round, call.context.exchange, c
        extra = self.extra(call.state, call.down, c)
        rows = self.loaded.split.train[c]
        return Job(self.net(c), self.start_params_at(call), rows, path, extra)

    def training_flops(self, job: Job, phase: Phase) -> float:
        """FLOPs of an epoch of a phase."""
        if not len(job.rows):
            return 0.0
        each = step_flops(job, phase.objective, self.loaded.tensors, self.training.batch)
        return each * len(job.rows)

    def outcome(self, call: Call, job: Job, flops: float) -> Outcome:
        """What comes of a step whose training took so many `flops`."""
        state, message = self.finish_at(call, job.params)
        flops += self.reading_flops(client_of(call.context))
        return Outcome(state, message, {"loss": job.loss, "flops": flops})


@lru_cache(32)
def _net(method: NeuralMethod, architecture: str) -> nn.Module:
    return method.wrap(method.loaded.templates[architecture]).to(method.loaded.tensors.device)


@lru_cache(4096)
def _form(method: NeuralMethod, client: int) -> Spec:
    message = method.finish({}, method.initial(client), client)[1]
    arrays = {name: np.asarray(array) for name, array in message.items()}
    return {n: Field(a.shape, "f" if a.dtype.kind == "f" else "iu") for n, a in arrays.items()}


def size_weighted(messages: Mapping[int, Message]) -> Message:
    """Mean of the clients' messages, weighted by their numbers of examples, which it leaves out.

    Parameters
    ----------
    messages : client -> arrays of the same names, with "examples" among them; one or more.

    Examples
    --------
    >>> sent = {c: {"w": np.full(1, float(c)), "examples": np.array(c)} for c in (1, 3)}
    >>> size_weighted(sent)
    {'w': array([2.5])}
    """
    sizes = [float(m["examples"]) for m in messages.values()]
    parts = [{n: a for n, a in m.items() if n != "examples"} for m in messages.values()]
    return mean_tree(parts, sizes)


def client_of(context: Context) -> int:
    """Return the client of a client step.

    Parameters
    ----------
    context : where in the federation the step is made; ValueError if it is a step of the server.

    Examples
    --------
    >>> client_of(Context(seed=0, round=2, exchange=0, client=5))
    5
    """
    if context.client is None:
        raise ValueError("the context of a client step names no client")
    return context.client


def pack(params: Mapping[str, Any], prefix: str = "model") -> dict[str, np.ndarray]:
    """Return tensors as the arrays of a state or message, with names below `prefix`.

    Parameters
    ----------
    params : name -> tensor.

    Examples
    --------
    >>> list(pack({"w": torch.ones(1)}))
    ['model/w']
    """
    return {f"{prefix}/{n}": np.asarray(t.detach().cpu()) for n, t in params.items()}


def unpack(arrays: Mapping[str, Any], prefix: str = "model") -> Params:
    """Undo `pack`: copy the arrays below `prefix` into tensors.

    Parameters
    ----------
    arrays : a state or a message; training cannot change it, because the tensors are copies.
    prefix : as in `pack`.

    Examples
    --------
    >>> unpack({"model/w": np.ones(1), "examples": np.array(3)})
    {'w': tensor([1.], dtype=torch.float64)}
    """
    start = prefix + "/"
    named = {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}
    return {n: torch.as_tensor(np.array(a)) for n, a in named.items()}


def below(params: Mapping[str, Tensor], prefix: str) -> Params:
    """Select the parameters of the part `prefix` of a network, by their names within that part.

    Parameters
    ----------
    params : name -> tensor, of the whole network.

    Examples
    --------
    >>> list(below({"shared.head.bias": torch.ones(1), "gate": torch.ones(1)}, "shared"))
    ['head.bias']
    """
    start = prefix + "."
    return {n.removeprefix(start): t for n, t in params.items() if n.startswith(start)}


def above(params: Mapping[str, Tensor], prefix: str) -> Params:
    """Undo `below`: give the parameters of the part `prefix` their names in the whole network.

    Parameters
    ----------
    params : name -> tensor, of the part.

    Examples
    --------
    >>> list(above({"head.bias": torch.ones(1)}, "shared"))
    ['shared.head.bias']
    """
    return {f"{prefix}.{n}": t for n, t in params.items()}
