"""Settings of a client's training, its optimizer, the job of one client, and its FLOPs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.adam import adam
from torch.optim.sgd import sgd
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.neural.data.tensors import Tensors
from hopfed.neural.models import Model
from hopfed.neural.models.networks import foreign_bodies
from hopfed.neural.training.losses import Batch, Net, Objective, Params
from hopfed.neural.training.task import TaskSpec, check_settings, setting, task_of

__all__ = ["Training"]

LISTS = {"sgd": ("momentum",), "adam": ("first", "second")}  # state: one tensor per parameter each
LISTS["amsgrad"] = (*LISTS["adam"], "largest")  # the largest second moment so far
COUNT = "count"  # an optimizer's number of steps; the only state that stacked clients share
TINY = 1e-12  # learning rate where a schedule reaches 0
SCHEDULES = re.compile(r"constant|cosine|step:([1-9]\d{0,8}):(0?\.\d*[1-9]\d*|1(?:\.0*)?)")

Forward = Callable[..., Any]  # (parameters, inputs) -> (features, logits), or the net's own output
Direct = Callable[[Params, Params], Params]  # (gradient, extra) -> gradient for the optimizer
Plan = Sequence[np.ndarray]  # rows of every step


@dataclass(frozen=True)
class Training:
    """Settings of a client's training in a round.

    Attributes
    ----------
    optimizer : "sgd", "adam" or "amsgrad".
    lr, momentum, weight_decay : settings of the optimizer; only sgd uses momentum.
    epochs : number of passes over the client's training examples.
    batch : number of examples in a step.
    clip : largest norm of a gradient; 0 for no limit.
    schedule, warmup, rounds : change of `lr` over the `rounds` of the run: a linear rise in the
        first `warmup` rounds; then "constant", "cosine", half a cosine towards 0 (Loshchilov and
        Hutter, ICLR 2017), or "step:K:F", times F after every K rounds.
    drop : probability that a client drops out of an exchange of a round after the question.
    stragglers : probability that a client trains for fewer `epochs` in a round, a number drawn
        from 1 to all, as in FedProx's paper.
    newcomers : number of epochs in which a client that never took part tunes its scored network by
        cross-entropy; 0 for none. Clients whose classifier is more than a network do not tune.
    record_bound, record_noise : private records (`hopfed.neural.methods.fedavg.Averaged`): the
        norm to which the gradient of each example is cut, 0 for none, and the noise multiplier.
    way : "sequential"; "stacked", clients of one architecture together; or "auto", together if
        a step is small, see `together`.
    precision : "float32", or "bfloat16" for the products of forward and backward passes;
        parameters, sums and the optimizer stay in float32.
    compile : backend of `torch.compile`, such as "inductor", for the loss; "" does not compile.

    Examples
    --------
    >>> [round(Training(lr=1.0, schedule="cosine", rounds=4).at(t).lr, 3) for t in range(4)]
    [1.0, 0.854, 0.5, 0.146]
    """

    optimizer: str = setting("sgd", tuple(LISTS))
    lr: float = setting(0.01, "above 0")
    momentum: float = setting(0.9, "at least 0")
    weight_decay: float = setting(0.0, "at least 0")
    epochs: int = setting(1, "at least 0")
    batch: int = setting(32, "at least 1")
    clip: float = setting(0.0, "at least 0")
    schedule: str = "constant"
    warmup: int = setting(0, "at least 0")
    rounds: int = setting(1, "at least 1")
    drop: float = setting(0.0, "at least 0 and below 1")
    stragglers: float = setting(0.0, "in [0, 1]")
    newcomers: int = setting(0, "at least 0")
    record_bound: float = setting(0.0, "at least 0")
    record_noise: float = setting(0.0, "at least 0")
    way: str = setting("auto", ("auto", "sequential", "stacked"))
    precision: str = setting("float32", ("float32", "bfloat16"))
    compile: str = ""

    def __post_init__(self) -> None:
        check_settings(self)
        if self.compile:
            known = sorted(torch.compiler.list_backends(exclude_tags=()))
            rule = f"one of {', '.join(known)}"
            require(self.compile in known, "compile", rule, repr(self.compile))
        clips = self.record_bound > 0 or not self.record_noise
        require(clips, "record_bound", "above 0 where records have noise", self.record_bound)
        rule = "constant, cosine, or step:ROUNDS:FACTOR such as step:10:0.5"
        require(bool(SCHEDULES.fullmatch(self.schedule)), "schedule", rule, repr(self.schedule))

    def at(self, t: int) -> Training:
        """Return the settings of round `t`, counted from 0, with its learning rate."""
        passed, length = t - self.warmup, max(self.rounds - self.warmup, 1)
        every, shrink = [*self.schedule.split(":"), "1", "1"][1:3]
        share = float(shrink) ** (max(passed, 0) // int(every))
        if self.schedule == "cosine":
            share = (1 + math.cos(math.pi * min(passed / length, 1.0))) / 2
        if passed < 0:
            share = (t + 1) / (self.warmup + 1)
        return self if share == 1.0 else replace(self, lr=max(share * self.lr, TINY))

    def casting(self, device: torch.device) -> AbstractContextManager[Any]:
        """Return the context for the computation of losses on `device`."""
        full = self.precision == "float32"
        return nullcontext() if full else torch.autocast(device.type, torch.bfloat16)


class Optimizer:
    """Optimizer as `torch.optim.SGD` and `Adam`, which continues from an earlier state."""

    def __init__(self, training: Training, params: Sequence[Tensor], state: Params):
        self.training, self.count = training, int(state.get(COUNT, 0))
        self.held = {n: [torch.zeros_like(p) for p in params] for n in LISTS[training.optimizer]}
        for name, tensor in self.state().items():
            tensor.copy_(state[name])

    def step(self, params: Sequence[Tensor], grads: Sequence[Tensor]) -> None:
        """Make one step in place; later steps may have only the first of the stacked clients."""
        lists = [
            [t[: len(p)] if t.shape != p.shape else t for t, p in zip(held, params, strict=True)]
            for held in self.held.values()
        ]
        self.count += 1
        pairs = zip(grads, params, strict=True)  # fused steps read memory in order
        like = [g if g.stride() == p.stride() else torch.empty_like(p).copy_(g) for g, p in pairs]
        both, ours = (list(params), like), self.training
        how: dict[str, Any] = {"lr": ours.lr, "weight_decay": ours.weight_decay, "maximize": False}
        if ours.optimizer == "sgd":
            how |= {"momentum": ours.momentum, "dampening": 0.0, "nesterov": False}
            sgd(*both, lists[0], fused=True, **how)
        else:
            steps = [torch.tensor(float(self.count - 1)) for _ in params]
            first, second, largest = (*lists, [])[:3]
            how |= {"amsgrad": len(lists) > 2, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
            adam(*both, first, second, largest, steps, foreach=False, **how)

    def state(self) -> dict[str, Tensor]:
        """Return the arrays that decide the next step; empty before the first step."""
        named = {f"{n}/{i}": t for n, held in self.held.items() for i, t in enumerate(held)}
        return named | {COUNT: torch.tensor(self.count)} if self.count else {}


@dataclass
class Job:
    """A training of one client."""

    net: nn.Module  # the module that is trained: a model, or a module that contains one
    params: Params = field(repr=False)  # parameters and buffers, which training replaces
    rows: np.ndarray = field(repr=False)  # indices of its examples, or of the examples of its plan
    path: tuple[Any, ...]  # seed, round, exchange, client: the random stream of its batches
    objective: Objective
    training: Training
    augment: bool = False  # whether images are cropped and mirrored at random
    extra: Params = field(default_factory=dict, repr=False)  # further tensors for its objective
    frozen: tuple[str, ...] = ()  # prefixes of the names of parameters that are not trained
    plan: Plan | None = field(default=None, repr=False)  # rows of every step; None for epochs
    moments: Params | None = field(default=None, repr=False)  # optimizer's state; None: not kept
    direct: Direct | None = None  # applied to a gradient before the optimizer's step
    gradient: Params = field(default_factory=dict, repr=False)  # of the last step, before `direct`
    loss: float = float("nan")  # mean over the steps of the last epoch; set by training

    def __post_init__(self) -> None:
        if self.plan is not None:
            self.rows = np.concatenate([self.rows[:0], *self.plan])
            self.training = replace(self.training, epochs=1)

    def steps(self) -> list[np.ndarray]:
        """Return the rows of every step: planned, sampled, or in a new order per epoch."""
        if self.plan is not None:
            return list(self.plan)
        (seed, *path), batch = self.path, self.training.batch
        if self.training.record_bound:
            count, rng = len(self.rows), stream(seed, "records", *path)
            steps = range(self.training.epochs * -(-count // batch))
            return [self.rows[rng.random(count) < batch / count] for _ in steps]
        found = []
        for epoch in range(self.training.epochs):
            order = stream(seed, "batches", *path, epoch).permutation(self.rows)
            cuts = list(range(batch, len(order), batch))
            if cuts and len(order) - cuts[-1] == 1 and has_batch_norm(self.net):
                cuts.pop()  # a single last example has no statistics, so it joins the batch before
            found += np.split(order, cuts) if len(order) else []
        return found

    @cached_property
    def trained(self) -> list[str]:
        """Names of the parameters that are trained."""
        return [n for n, p in self.net.named_parameters() if p.requires_grad and not self.stays(n)]

    def stays(self, name: str) -> bool:
        """Whether a parameter or buffer is frozen."""
        return name.startswith(self.frozen)

    def finish(self, params: Params, losses: np.ndarray) -> None:
        """Store the trained parameters, without frozen parts, and the mean loss."""
        self.params = {n: self.params[n] if self.stays(n) else t for n, t in params.items()}
        last = max(len(losses) // max(self.training.epochs, 1), 1)
        self.loss = float(np.mean(losses[-last:])) if len(losses) else float("nan")


def has_batch_norm(net: nn.Module) -> bool:
    """Whether a job's network has batch norm, so that examples of a batch affect each other."""
    return any(isinstance(layer, _BatchNorm) for layer in net.modules())


def forward_of(net: nn.Module) -> Forward:
    """Return a job's function from parameters and inputs to the output of the network `net`.

    Like `torch.func.functional_call`, which compilers need, but that searches for every weight in
    every call, for more than half of the time of a small network. A `Model` returns both outputs.
    """
    more = (True,) if isinstance(net, Model) else ()
    places = _places(net)

    def forward(params: Params, *inputs: Tensor) -> Any:
        if torch.compiler.is_compiling():
            return functional_call(net, params, (*inputs, *more))
        put = [(table, key, n) for n in params for table, key in places.get(n, ())]
        before = [table[key] for table, key, _ in put]
        try:
            for table, key, n in put:
                table[key] = params[n]
            return net(*inputs, *more)
        finally:
            for (table, key, n), tensor in zip(put, before, strict=True):
                params[n] = table[key]  # a network may replace a buffer by a new tensor
                table[key] = tensor

    return forward


def _places(net: nn.Module) -> dict[str, list[tuple[dict[str, Any], str]]]:
    """Return name of a parameter or buffer -> table and key of each place that holds it."""
    found: dict[str, tuple[dict[str, Any], str]] = {}
    tied: dict[int, list[tuple[dict[str, Any], str]]] = {}
    for prefix, module in net.named_modules(remove_duplicate=False):
        for table in (module._parameters, module._buffers):
            for key, tensor in table.items():
                found[f"{prefix}.{key}" if prefix else key] = table, key
                tied.setdefault(id(tensor), []).append((table, key))
    return {n: tied[id(t[k])] for n, (t, k) in found.items() if t[k] is not None}


def move_beside(params: Params, net: nn.Module) -> Params:
    """Return a job's tensors by name on a module's device; filters on a CPU with channels last.

    Convolutions and pools then take .8 to .95 of the time in training, .6 to .8 without gradients.
    Foreign networks keep their layout, as they may rely on it, for example by `Tensor.view`.
    """
    first = next(net.parameters(), None)
    if first is None:
        return params
    ours = first.device.type == "cpu" and not foreign_bodies(net)
    last = torch.channels_last if ours else torch.preserve_format
    forms = {n: last if t.ndim == 4 else torch.preserve_format for n, t in params.items()}
    return {n: t.to(first.device, memory_format=forms[n]) for n, t in params.items()}


def training_flops(job: Job, data: Tensors) -> float:
    """Return the FLOPs of a client's training job."""
    if not len(job.rows) or not job.trained:
        return 0.0
    return step_flops(job, data, job.training.batch) * len(job.rows) * job.training.epochs


def step_flops(job: Job, data: Tensors, batch: int) -> float:
    """Return a job's FLOPs per example and step, counted once per network, objective and size."""
    known = _COUNTED.setdefault(job.net, {})
    rows = job.rows[:batch] if job.plan is None else job.plan[0][:batch]
    key = job.objective, job.frozen, len(rows)
    if key not in known:
        x, y = data.batch(data.rows(rows))
        params = {n: t.detach().clone() for n, t in move_beside(job.params, job.net).items()}
        weights = [params[n].requires_grad_() for n in job.trained]
        alone = len(rows) == 1 and has_batch_norm(job.net)  # one example has no statistics
        net = Net(forward_of(job.net.train(not alone)), params)
        with _Counter() as flops:
            loss = job.objective(net, Batch(x, y, None, move_beside(job.extra, job.net)))
            torch.autograd.grad(loss, weights, allow_unused=True)
        known[key] = flops.total / len(x)
    return known[key]


_COUNTED: WeakKeyDictionary[nn.Module, dict[Any, float]] = WeakKeyDictionary()


@lru_cache(32)
def forward_flops(spec: TaskSpec, architecture: str) -> int:
    """Return FLOPs per example of a forward pass, for jobs of an architecture on a task's data."""
    made = task_of(spec)
    batch, _ = made.tensors.batch(made.tensors.rows(made.split.train[0][:2]))
    with _Counter() as flops, torch.no_grad():
        deepcopy(made.templates[architecture]).eval()(batch)
    return flops.total // len(batch)


def _convolution_backward(
    gradient: Tensor, x: Tensor, weight: Tensor, *args: Any, **_results: Any
) -> int:
    """Return FLOPs from shapes; PyTorch's formula (2.13) ignores groups, as in MobileNet-v2."""
    *_, transposed, _output_padding, _groups, wanted = args
    positions = (x if transposed else gradient).shape
    products = math.prod(positions[2:]) * positions[0] * weight.numel()
    return 2 * products * (wanted[0] + wanted[1])


class _Counter(TorchDispatchMode):
    """Counter of FLOPs by PyTorch's formulas; PyTorch's own imports a compiler, for 1.3 s."""

    formulas = flop_registry | {torch.ops.aten.convolution_backward: _convolution_backward}
    total = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run and count an operation, or the operations of its decomposition."""
        kwargs, formula = kwargs or {}, self.formulas.get(func._overloadpacket)
        if formula is None:
            with self:
                found = func.decompose(*args, **kwargs)
            if found is not NotImplemented:
                return found
        found = func(*args, **kwargs)
        if formula is not None:
            self.total += formula(*args, **kwargs, out_val=found)
        return found
