"""What all neural methods share: local training on the contract of `hopfed.federation`.

A method says what a client starts from, what it minimises, what it sends, and how the server
answers. Training is here: the clients of an exchange are trained together where that is faster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from hopfed._lib.settings import check_types, require
from hopfed.federation.contract import Context, Metrics, State
from hopfed.federation.engines import Call, Outcome
from hopfed.federation.faults import Fault
from hopfed.federation.messages import Field, Message, Spec
from hopfed.neural.models.base import Model
from hopfed.neural.training.cost import forward_flops, step_flops
from hopfed.neural.training.evaluation import Classifier, Network
from hopfed.neural.training.task import Params, Task, TaskSpec, task_of
from hopfed.neural.training.training import Forward, Job, Phase, Training, cross_entropy
from hopfed.neural.training.ways import train


@dataclass(frozen=True)
class NeuralMethod(ABC):
    """Base of the neural methods.

    In what its methods take, `state` is what a client or the server keeps, arrays by name; `down`
    the last message from the server; `messages` those of the clients that were heard, by client;
    `client` an index; `call` a step to be made, with its `context` in the federation, and `job` the
    training that it leads to; `seed` that of the run. Of a batch, `x` (B, ...) are inputs, `y` (B,)
    labels, and `mask` (B,) is 0 where a row only pads it; `forward` is the net as a function of its
    `params`, tensors by name, and `extra` what else the objective looks at.

    Attributes
    ----------
    task : data, partition and models, by name.
    training : how a client trains.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.methods.fedprox import FedProx
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
    same_model: ClassVar[bool] = False  # whether clients must share one architecture
    shared: ClassVar[bool] = False  # whether clients classify by what the server sent to all

    def __post_init__(self) -> None:
        check_types(self)
        one = len(set(self.task.models)) == 1
        rule = f"one architecture for {self.name}"
        require(one or not self.same_model, "models", rule, ", ".join(self.task.models))

    @property
    def made(self) -> Task:
        """The task itself, made once per process."""
        return task_of(self.task)

    # What a method says.

    def wrap(self, model: Model) -> nn.Module:
        """What a client trains: its model, or a module that holds it and more.

        The weights of what is added must be the same whenever it is made.
        """
        return model

    def phases(self) -> tuple[Phase, ...]:
        """Parts of a client's training in a round, one after the other."""
        return (Phase(self.training.epochs, self.objective),)

    @abstractmethod
    def starts(self, state: State, down: Message, client: int) -> Params:
        """Parameters that a client trains from."""

    def begins(self, call: Call) -> Params:
        """What a client trains from in the round of `call`, where that depends on the round."""
        return self.starts(call.state, call.down, _client(call))

    def extra(self, state: State, down: Message, client: int) -> Params:  # noqa: ARG002
        """What else its objective looks at."""
        return {}

    def objective(
        self,
        forward: Forward,
        params: Params,
        x: Tensor,
        y: Tensor,
        mask: Tensor | None,
        extra: Params,
    ) -> Tensor:
        """Loss of a batch; cross-entropy unless a method says otherwise."""
        del extra
        return cross_entropy(forward(params, x)[1], y, mask)

    @abstractmethod
    def ends(self, state: State, params: Params, client: int) -> tuple[State, Message]:
        """State and message of a client after training."""

    def closes(self, call: Call, params: Params) -> tuple[State, Message]:
        """What `ends` says, where it depends on the message down or on the round too."""
        return self.ends(call.state, params, _client(call))

    @abstractmethod
    def answer(
        self, state: State, messages: Mapping[int, Message]
    ) -> tuple[State, Mapping[int, Message]]:
        """Server's state and messages down."""

    def classifier(self, state: State, down: Message, client: int) -> Classifier:
        """By what a client would classify now: its model, unless a method says otherwise."""
        return Network(self.made.model(client), self.personal(state, down, client))

    @abstractmethod
    def personal(self, state: State, down: Message, client: int) -> Params:
        """Parameters of the client's model as it would classify now."""

    @abstractmethod
    def expects(self, down: Message, context: Context) -> Spec:
        """Form of a client's message."""

    # What the base does.

    def net(self, client: int) -> nn.Module:
        """Return what a client trains, one object for all clients of an architecture."""
        return _net(self, self.made.names[client])

    def initial(self, client: int) -> Params:
        """Parameters and buffers that a client's net starts with, its own copy."""
        return {n: t.detach().clone() for n, t in self.net(client).state_dict().items()}

    def alike(self, client: int) -> str:
        """What clients must have in common to be trained together: the architecture."""
        return self.made.names[client]

    def client_start(self, client: int, seed: int) -> State:  # noqa: ARG002
        """State of a client before its first round."""
        return {}

    def server_start(self, seed: int) -> State:  # noqa: ARG002
        """State of the server before the first round."""
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
                jobs[i] = self._job(call)
            except Exception as error:  # whatever is wrong with a client concerns it alone
                failed[i] = Outcome(fault=Fault.RAISED, reason=f"{type(error).__name__}: {error}")
        flops = dict.fromkeys(jobs, 0.0)
        for number, phase in enumerate(self.phases()):
            if calls and phase.exchange not in (None, calls[0].context.exchange):
                continue
            for i, job in jobs.items():
                job.begin(phase, number)
                flops[i] += self._flops(job, calls[i], number) * len(job.rows) * phase.epochs
            settings = replace(self.training, epochs=phase.epochs)
            ours = list(jobs.values())
            augment = self.made.augment if phase.augment else None
            train(ours, self.made.tensors, settings, phase.objective, augment)
        return [
            failed[i] if i in failed else self._outcome(calls[i], jobs[i], flops[i])
            for i in range(len(calls))
        ]

    def settled(self, state: State, down: Message, client: int) -> State:
        """Return `state`, or what a client that never took part would keep of a round alone."""
        if state:
            return state
        return self.client_step(state, down, Context(self.task.seed, 0, 0, client))[0]

    def server_step(
        self, state: State, messages: Mapping[int, Message], context: Context
    ) -> tuple[State, Mapping[int, Message], Metrics]:
        """Answer the clients."""
        del context
        state, down = self.answer(state, messages)
        return state, down, {}

    def _job(self, call: Call) -> Job:
        c = _client(call)
        context = call.context
        return Job(
            self.net(c),
            self.begins(call),
            self.made.split.train[c],
            (context.seed, context.round, context.exchange, c),
            self.extra(call.state, call.down, c),
        )

    def _flops(self, job: Job, call: Call, number: int) -> float:
        """FLOPs of one example in a step of a phase, counted once for an architecture."""
        if not len(job.rows):
            return 0.0
        key = self, self.made.names[_client(call)], number
        if key not in _COUNTED:
            rows = job.rows[: self.training.batch]
            batch = self.made.tensors.batch(self.made.tensors.rows(rows))
            _COUNTED[key] = step_flops(job, *batch, self.phases()[number].objective)
        return _COUNTED[key]

    def _pass_flops(self, call: Call, job: Job) -> float:
        """FLOPs of a pass over the client's examples, such as one after training."""
        return len(job.rows) * forward_flops(self.task, self.made.names[_client(call)])

    def _outcome(self, call: Call, job: Job, flops: float) -> Outcome:
        state, message = self.closes(call, job.params)
        return Outcome(state, message, {"loss": job.loss, "flops": flops})


_COUNTED: dict[tuple[NeuralMethod, str, int], float] = {}


@lru_cache(32)
def _net(method: NeuralMethod, architecture: str) -> nn.Module:
    return method.wrap(method.made.templates[architecture])


def _client(call: Call) -> int:
    if call.context.client is None:
        raise ValueError("a client step without a client")
    return call.context.client


def pack(params: Mapping[str, Any], prefix: str = "model") -> dict[str, np.ndarray]:
    """Name arrays of a state or message below `prefix`.

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
    """Tensors of what `pack` named; copies, so that training cannot change what was given.

    Parameters
    ----------
    arrays : a state or a message.
    prefix : of the names that are wanted.

    Examples
    --------
    >>> unpack({"model/w": np.ones(1), "examples": np.array(3)})
    {'w': tensor([1.], dtype=torch.float64)}
    """
    start = prefix + "/"
    return {
        n.removeprefix(start): torch.as_tensor(np.array(a))
        for n, a in arrays.items()
        if n.startswith(start)
    }


def below(params: Mapping[str, Tensor], prefix: str) -> Params:
    """Parameters of the part `prefix` of a net, by their names within that part.

    Parameters
    ----------
    params : name -> tensor, of the whole net.

    Examples
    --------
    >>> list(below({"shared.head.bias": torch.ones(1), "gate": torch.ones(1)}, "shared"))
    ['head.bias']
    """
    start = prefix + "."
    return {n.removeprefix(start): t for n, t in params.items() if n.startswith(start)}


def above(params: Mapping[str, Tensor], prefix: str) -> Params:
    """Undo `below`: names of the part `prefix` as the net has them.

    Parameters
    ----------
    params : name -> tensor, of the part.

    Examples
    --------
    >>> list(above({"head.bias": torch.ones(1)}, "shared"))
    ['shared.head.bias']
    """
    return {f"{prefix}.{n}": t for n, t in params.items()}


def spec_of(params: Mapping[str, Tensor], prefix: str = "model") -> dict[str, Field]:
    """Form of packed parameters.

    Parameters
    ----------
    params : name -> tensor.
    prefix : as in `pack`.

    Examples
    --------
    >>> spec_of({"w": torch.ones(2, 3)})["model/w"].shape
    (2, 3)
    """
    return {
        f"{prefix}/{n}": Field(tuple(t.shape), "f" if t.is_floating_point() else "iu")
        for n, t in params.items()
    }
