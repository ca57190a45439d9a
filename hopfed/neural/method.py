"""A federated method of networks, in two functions: the client's answer and the server's round.

    answer(client, question, down)  at a client: a generator that yields trainings, receives each
                                    when it is done, and returns the message to the server
    play(state, session)            at the server: asks the clients and computes the new state

The base class has clients that train alone. Simultaneous trainings of one architecture are stacked
where that is faster; a method need not consider this.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from hopfed._lib.settings import require
from hopfed.federation.contract import Call, Context, Fault, Metrics, Outcome, State
from hopfed.federation.messages import Field, Message, Spec, part_of
from hopfed.federation.rounds import Session
from hopfed.neural.models import Model
from hopfed.neural.training.evaluation import Classifier, Embedded, Network
from hopfed.neural.training.job import Job, Training, forward_flops, training_flops
from hopfed.neural.training.loops import train
from hopfed.neural.training.losses import Batch, Net, Objective, Params
from hopfed.neural.training.task import Task, TaskSpec, check_settings, copy_parameters, task_of
from hopfed.neural.training.task import setting as setting

Answer = Generator[Job, Job, Message]
Prefix = str | tuple[()]
Down = Mapping[int, Message]  # messages down, by client or for everyone
Played = tuple[State, Down, Metrics]  # result of a round: state of the server, messages, numbers


class Client:
    """A client during an answer or during scoring.

    Attributes
    ----------
    number : index of the client.
    state : arrays that it keeps from round to round, by name; empty before it first took part.
    context : seed, round, exchange and client of this answer.
    net, model : module that it trains, and its model; clients of one architecture share both.
    rows, labels, size : indices and labels of its training examples; their number, as a message.
    flops : FLOPs of this answer so far; a method adds FLOPs outside trainings.
    metrics : numbers about this answer, by name; "loss" is the loss of the last training.
    tuned : parameters of a newcomer's tuned model, see `Training.newcomers`.

    Examples
    --------
    >>> from hopfed.neural.methods.sohip import Standalone
    >>> method = Standalone(TaskSpec(models=("mlp",), clients=2, examples=200))
    >>> client = Client(method, {}, Context(seed=0, round=0, exchange=0, client=1))
    >>> client.size, list(client.initial)[-1], client.kept()
    ({'examples': array(69)}, 'head.bias', {})
    """

    def __init__(self, method: NeuralMethod, state: State, context: Context):
        if context.client is None:
            raise ValueError("the context of a client's step has no client")
        self.method, self.task, self.state, self.context = method, method.loaded, state, context
        self.number = number = context.client
        self.net, self.model = method.net(number), self.task.model(number)
        self.rows, self.labels = self.task.split.train[number], self.task.labels_of(number)
        self.size: Message = {"examples": np.asarray(len(self.rows))}
        self.flops = float(state.get("flops", 0.0)) if context.exchange else 0.0
        self.metrics, self.tuned = {"loss": float("nan")}, Params()
        self._trainings = 0

    @property
    def initial(self) -> Params:
        """Copy of the initial parameters and buffers of the client's module."""
        return self.method.initial(self.number)

    def kept(self, part: str = "model") -> Params:
        """Return the tensors of a `part` of its state; none before it first took part."""
        return unpack(self.state, part)

    def keep(self, params: Mapping[str, Tensor], part: str = "model") -> None:
        """Replace its state by the tensors `params`, named below `part`."""
        self.state = pack(params, part)

    def train(
        self,
        params: Params,
        objective: Objective | None = None,
        *,
        epochs: int | None = None,
        training: Training | None = None,
        augment: bool = True,
        path: tuple[Any, ...] = (),
        rows: np.ndarray | None = None,
        **more: Any,
    ) -> Job:
        """Describe a training, to be yielded: the `Job` comes back with the trained `params`.

        Defaults are the method's `objective`; its `epochs` and other `training` settings for this
        round; all `rows` of the client; and the `path` of the step, which names the random stream
        of batches. `augment`: images, if the task asks for it. `more` are other `Job` fields.
        """
        training = training or self.method.training.at(self.context.round)
        if epochs is None and training.stragglers > self.chance("straggler"):
            epochs = 1 + int(self.chance("epochs") * training.epochs) if training.epochs else 0
        training = training if epochs is None else replace(training, epochs=epochs)
        here = (self.context.round, self.context.exchange, self.number)
        path = path or (*here, *(("phase", self._trainings) if self._trainings else ()))
        self._trainings += 1
        objective, rows = objective or self.method.objective, self.rows if rows is None else rows
        more["augment"] = augment and self.method.task.augment and self.task.split.dataset.is_images
        return Job(self.net, params, rows, (self.context.seed, *path), objective, training, **more)

    def chance(self, purpose: str) -> float:
        """Draw a number in [0, 1) from the stream `purpose` of this exchange of the round."""
        return float(self.context.rng(purpose).random())

    def look(self, params: Params, rows: np.ndarray) -> Embedded:
        """Return features and logits of examples `rows` by the model `params`; counts FLOPs."""
        self.flops += len(rows) * forward_flops(self.method.task, self.task.names[self.number])
        return Network(self.model, params).embed(self.task.tensors, rows)


@dataclass(frozen=True)
class NeuralMethod:
    """Base of the neural methods: clients that train alone.

    Properties of a method, such as `name` and `shares`, are class variables, which can be set in
    the class line: ``class Own(FedAvg, name="own", shares="features.")``.

    In all its methods `client` is a `Client`; `state` holds the arrays that the server, or a
    client, keeps, by name; `down` is the last message from the server, empty before the first;
    `question` is one of `questions`; `messages`, or `said`, are the clients' answers to it;
    `params` are parameters and buffers by name; `session` asks clients
    (`hopfed.federation.rounds.Session`); `net` is a network in training, `batch` the examples of a
    step (`hopfed.neural.training.losses`).

    Attributes
    ----------
    task : data, partition and models, by name.
    training : settings of a client's training.

    Examples
    --------
    >>> from hopfed.federation.engines import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.methods.fedavg import FedProx
    >>> method = FedProx(TaskSpec(models=("mlp",), clients=2, examples=200), Training(epochs=0))
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> method.name, method.source, sorted(played.state.server)[-1]
    ('fedprox', 'Li et al., MLSys 2020', 'model/head.weight')
    """

    task: TaskSpec
    training: Training = field(default_factory=Training)

    questions: ClassVar[tuple[str, ...]] = ("train",)  # questions of `play`, in order
    tells: ClassVar[tuple[str, ...]] = ("loss", "flops")  # names of clients' metrics
    name: ClassVar[str] = ""
    source: ClassVar[str] = ""
    same_model: ClassVar[bool] = False  # whether clients must share one architecture
    one_head: ClassVar[bool] = False  # whether their heads must have one shape
    shares: ClassVar[Prefix] = ()  # prefix of the tensors that clients send; "": all; (): none
    opens: ClassVar[Prefix] = ()  # prefix of the tensors that the server sends before round 0
    keeps: ClassVar[bool] = False  # whether clients keep the tensors that they send, too
    part: ClassVar[str] = ""  # name of the client's model in the trained module; "": all of it
    whole: ClassVar[bool] = False  # whether it classifies with the whole module
    frozen: ClassVar[tuple[str, ...]] = ()  # prefixes of the parameters that are not trained
    shared: ClassVar[bool] = False  # whether all clients classify with the model the server sent
    scored_with: ClassVar[str] = ""  # clients scored with the last message: "all", "new", "" none
    trains_first: ClassVar[bool] = False  # whether new clients train before they are scored
    tunes: ClassVar[bool] = False  # whether clients train to be scored, see `reading_flops`
    reads: ClassVar[type[NeuralMethod] | None] = None  # class whose models it uses, not subclasses
    by_record: ClassVar[bool] = False  # whether messages use examples only through one training

    def __init_subclass__(cls, **about: Any) -> None:
        super().__init_subclass__()
        if "shares" in about:
            about.setdefault("opens", about["shares"])
        if about.get("scored_with") == "new":
            about.setdefault("trains_first", True)
        own = {"begin", "personal", "ready", "decide"} & vars(cls).keys()
        if own or {"shares", "trains_first"} & about.keys():
            about.setdefault("shared", False)
        for name, value in about.items():
            setattr(cls, name, value)

    def __post_init__(self) -> None:
        check_settings(self)
        models, bound = self.task.models, self.training.record_bound
        one = len(set(models)) == 1 or not self.same_model
        require(one, "models", f"one architecture for {self.name}", ", ".join(models))
        rule = f"0 for {self.name}, whose messages reveal more of examples than one training"
        require(self.by_record or not bound, "record_bound", rule, bound)

    # Functions that methods override.

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Answer the server: train, and return the message of `sent`."""
        first = self.begin(client, down)
        extra = self.extra(client, first, down)
        trained = yield client.train(first, extra=extra, frozen=self.frozen)
        return self.sent(client, trained.params)

    def play(self, state: State, session: Session) -> Played:
        """Play a round at the server; return the new state, messages down, and metrics."""
        session.ask()
        return state, {}, {}

    def begin(self, client: Client, down: Message) -> Params:
        """Initial parameters of a client's training: kept, and received from the server."""
        return client.initial | client.kept() | unpack(down)

    def extra(self, client: Client, first: Params, down: Message) -> Params:  # noqa: ARG002
        """Further tensors for the objective; `first` are the parameters before training."""
        return {}

    def shared_of(self, client: Client, params: Params) -> Params:  # noqa: ARG002
        """Trained parameters and buffers that a client shares."""
        return {n: t for n, t in params.items() if n.startswith(self.shares)}

    def sent(self, client: Client, params: Params) -> Message:
        """Keep the client's part of trained parameters; return the message to the server."""
        shared = self.shared_of(client, params)
        client.keep({n: t for n, t in params.items() if self.keeps or n not in shared})
        return pack(shared) | client.size if self.shares != () else {}

    def wrap(self, model: Model) -> nn.Module:
        """Return the module that a client trains, which contains its model; equal in every call."""
        return model

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Return the loss of a batch: cross-entropy."""
        return batch.cross_entropy(net(batch.x)[1])

    def ready(self, client: Client, down: Message) -> Answer:
        """Prepare a client to be scored: train a new client if the method has `trains_first`."""
        if self.trains_first and not client.state:
            yield from self.answer(client, self.questions[0], down)
        return {}

    def personal(self, client: Client, down: Message) -> Params:
        """Return the parameters of the model with which the client now classifies."""
        params = self.begin(client, down if self.scored_with == "all" else {})
        return below(params, self.part) if self.part else params

    def decide(self, client: Client, down: Message) -> Classifier:
        """Return the client's present classifier: its model, unless a method overrides this."""
        if self.whole:
            return Network(client.net, self.begin(client, {}))
        return Network(client.model, client.tuned or self.personal(client, down))

    def tune_newcomer(self, client: Client, down: Message) -> Answer:
        """Prepare a client that never took part, and tune its model by cross-entropy."""
        yield from self.ready(client, down)
        plain, path = NeuralMethod.objective.__get__(self), ("newcomer", client.number)
        first, epochs = self.personal(client, down), self.training.newcomers
        client.tuned = (yield client.train(first, plain, epochs=epochs, path=path)).params
        return {}

    def fetches(self, known: bool) -> bool:
        """Whether a client classifies with the last message down; `known`: it has taken part."""
        return self.scored_with == "all" or (self.scored_with == "new" and not known)

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """Return the form of a client's message, derived from an answer without training."""
        return _form(self, context.client or 0, context.exchange)

    def reading_flops(self, client: int) -> float:  # noqa: ARG002
        """FLOPs of training before scoring, counted in each round of the client."""
        return 0.0

    # Functions for the federation.

    @property
    def loaded(self) -> Task:
        """The loaded task, made once per process."""
        return task_of(self.task)

    @property
    def drops(self) -> bool:
        """Whether clients may drop out, so that a round may have no answers."""
        return self.training.drop > 0

    def trained_as(self) -> NeuralMethod:
        """Return the method of the class `reads`, whose rounds are the same to the bit, or self."""
        base = vars(type(self)).get("reads")
        return base(**{f.name: getattr(self, f.name) for f in fields(base)}) if base else self

    def net(self, client: int) -> nn.Module:
        """Return the module that a client trains; clients of one architecture share it."""
        return _net(self, self.loaded.names[client])

    def initial(self, client: int) -> Params:
        """Return a copy of the initial parameters and buffers of a client's module."""
        return copy_parameters(self.net(client))

    def opening_bytes(self, client: int) -> int:
        """Return the bytes of the initial model, or part of it, that the server sends a client."""
        return sum(t.nbytes for n, t in self.initial(client).items() if n.startswith(self.opens))

    def readied(
        self, state: State, down: Message, client: int, new: bool = False
    ) -> tuple[Client, Message]:
        """Return a client ready to be scored, `new` if it never took part, and its message."""
        made = Client(self, state, Context(self.task.seed, 0, 0, client))
        plain = self.training.newcomers and new and made.net is made.model
        (found,) = _driven([(made, (self.tune_newcomer if plain else self.ready)(made, down))])
        if isinstance(found, Exception):
            raise found
        return made, down

    def classifier(self, state: State, down: Message, client: int) -> Classifier:
        """Return the classifier of a client, with an empty `state` if it never took part."""
        return self.decide(*self.readied(state, down, client))

    def alike(self, client: int) -> str:
        """Return the key that clients trained together must share: the architecture."""
        return self.loaded.names[client]

    def client_start(self, client: int, seed: int) -> State:  # noqa: ARG002
        """Return the state of a client before its first round."""
        return {}

    def server_start(self, seed: int) -> State:  # noqa: ARG002
        """Return the server's state before the first round; ArgumentError for unfit networks."""
        if self.one_head:
            self.loaded.feature_dim  # noqa: B018  (checks the networks)
        for client in map(self.loaded.names.index, self.loaded.templates):
            self.net(client)
            self.loaded.check_shape(client)
        return {}

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Return state, message and metrics of one client's answer."""
        outcome = self.client_steps([Call(state, down, context)])[0]
        if outcome.fault != Fault.NONE or not isinstance(outcome.message, dict):
            raise RuntimeError(outcome.reason)
        return outcome.state, outcome.message, outcome.metrics

    def client_steps(self, calls: Sequence[Call]) -> list[Outcome]:
        """Return outcomes of the clients of an exchange, in the order of `calls`."""
        absent = Outcome(fault=Fault.ABSENT, reason="dropped out of the round")
        found, drop = [absent] * len(calls), self.training.drop
        clients = [Client(self, call.state, call.context) for call in calls]
        there = {i: c for i, c in enumerate(clients) if not drop or c.chance("drop") >= drop}
        asked = ((self.questions[c.context.exchange], calls[i].down) for i, c in there.items())
        runs = [(c, self.answer(c, *ask)) for c, ask in zip(there.values(), asked, strict=True)]
        for (i, client), said in zip(there.items(), _driven(runs), strict=True):
            found[i] = self._outcome(client, said)
        return found

    def _outcome(self, client: Client, found: Message | Exception) -> Outcome:
        """Outcome of a client's answer, or of the error in it."""
        if isinstance(found, Exception):
            return Outcome(fault=Fault.RAISED, reason=f"{type(found).__name__}: {found}")
        if len(self.questions) > 1:  # FLOPs add up over the exchanges of a round
            client.state = client.state | {"flops": np.asarray(client.flops)}
        flops = client.flops + self.reading_flops(client.number)
        return Outcome(client.state, found, client.metrics | {"flops": flops})


def _driven(runs: Sequence[tuple[Client, Answer]]) -> list[Message | Exception]:
    """Run the answers of clients, and make simultaneous trainings together."""
    found: list[Message | Exception] = [{}] * len(runs)
    waiting: dict[int, Job | None] = dict.fromkeys(range(len(runs)))
    while waiting:
        jobs: dict[int, Job] = {}
        for i, job in waiting.items():
            try:
                jobs[i] = next(runs[i][1]) if job is None else runs[i][1].send(job)
            except StopIteration as end:
                found[i] = end.value
            except Exception as error:  # an error of one client must not stop the others
                found[i] = error
        train(list(jobs.values()), runs[0][0].task.tensors)
        for i, job in jobs.items():
            runs[i][0].metrics["loss"] = job.loss
            runs[i][0].flops += training_flops(job, runs[i][0].task.tensors)
        waiting = dict(jobs)
    return found


@lru_cache(32)
def _net(method: NeuralMethod, architecture: str) -> nn.Module:
    return method.wrap(method.loaded.templates[architecture]).to(method.loaded.tensors.device)


@lru_cache(4096)
def _form(method: NeuralMethod, client: int, exchange: int) -> Spec:
    arrays = untrained(method, client, exchange)
    return {n: Field(a.shape, "f" if a.dtype.kind == "f" else "iu") for n, a in arrays.items()}


def untrained(method: NeuralMethod, client: int = 0, exchange: int = 0) -> Message:
    """Return a new `client`'s message in an `exchange` of a neural `method`, parameters untrained.

    Examples
    --------
    >>> from hopfed.neural.methods import method
    >>> list(untrained(method("fedavg")(TaskSpec(models=("mlp:8",), examples=200))))[-2:]
    ['model/head.bias', 'examples']
    """
    made = Client(method, {}, Context(method.task.seed, 0, exchange, client))
    steps = method.answer(made, method.questions[exchange], {})
    job = None
    try:
        while True:
            job = next(steps) if job is None else steps.send(job)
    except StopIteration as end:
        return {name: np.asarray(array) for name, array in end.value.items()}


def pack(params: Mapping[str, Any], prefix: str = "model") -> dict[str, np.ndarray]:
    """Return tensors or arrays `params` as arrays of a method's state or message, below `prefix`.

    Examples
    --------
    >>> list(pack({"w": torch.ones(1)}))
    ['model/w']
    """
    held = {n: t.detach().cpu() if isinstance(t, Tensor) else t for n, t in params.items()}
    return {f"{prefix}/{n}": np.asarray(t) for n, t in held.items()}


def unpack(arrays: Mapping[str, Any], prefix: str = "model") -> Params:
    """Undo `pack`: copy `arrays` of a method's state or message below `prefix` into tensors.

    Examples
    --------
    >>> unpack({"model/w": np.ones(1), "examples": np.array(3)})
    {'w': tensor([1.], dtype=torch.float64)}
    """
    return {n: torch.as_tensor(np.array(a)) for n, a in part_of(arrays, prefix).items()}


def below(params: Mapping[str, Tensor], prefix: str) -> Params:
    """Select `params` of a method's part `prefix` of a network, by their names within the part.

    Examples
    --------
    >>> list(below({"shared.head.bias": torch.ones(1), "gate": torch.ones(1)}, "shared"))
    ['head.bias']
    """
    start = prefix + "."
    return {n.removeprefix(start): t for n, t in params.items() if n.startswith(start)}


def above(params: Mapping[str, Tensor], prefix: str) -> Params:
    """Undo `below`: return `params` of a method's part `prefix` by names in the whole network.

    Examples
    --------
    >>> list(above({"head.bias": torch.ones(1)}, "shared"))
    ['shared.head.bias']
    """
    return {f"{prefix}.{n}": t for n, t in params.items()}
