"""Hebbian read-out: bits of images, one operator of a client, and a read-out in closed form.

Source: proposed here; theory/NOTES.md, "One-shot Hebbian read-out". That ridge
regression over clients is a sum is known (Fed3R, Fani et al., ICML 2024; AFL, He et al., CVPR
2025). One bit for each feature, filters and thresholds that are sums too, and the mixture with the
client's own are of this project.

No gradient is computed, and one round is enough. It has four exchanges:

1. sums and sums of products of image patches up; the server whitens them and draws filters;
2. sums of the filters' responses up; their means are the thresholds of the bits;
3. the operator ``A = Z^T Z`` of a client's bits and the class sums ``B = Z^T Y`` up, as integers;
4. the likelihood of the client's validation examples, for every setting of a small grid, up; the
   setting with the highest sum comes down. Each example counts alike: in a mean over clients one
   with three examples decides.

A client classifies with ``(A + w A_c + rho n)^-1 (B + w B_c)`` and adds the logarithm of its own
class shares over those of all, to a power. rho, w, the power and the scale of the scores are the
settings of the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hopfed._lib.cache import Recent
from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.federation.contract import EVERYONE, Context, Metrics, State
from hopfed.federation.messages import Field, Message, Spec, digest
from hopfed.hopfield.encoding import Encoding, symmetric
from hopfed.kernels import PackedBits, pack
from hopfed.neural.bits import Filters, Patches, as_bits
from hopfed.neural.methods._closed_form import ClosedForm
from hopfed.neural.readout import Choice, Sums, log_probabilities, readouts
from hopfed.spectral.operators import DenseOperator

__all__ = ["Hebbian"]

RIDGES = (0.1, 0.3, 1.0, 3.0)
OWN = (0.0, 3.0, 30.0)  # weights of a client's own examples
SCALES = (2.0, 4.0, 8.0, 16.0, 32.0)
PRIORS = (0.0, 0.5, 1.0)
READINGS = ("personal", "global", "alone")

_READOUTS = Recent(1 << 28)  # (task, message down, weight, ridges, client) -> (R, D, C)


@dataclass(frozen=True, eq=False)
class Readout:
    """A client's classifier: bits of its inputs, and a read-out.

    Attributes
    ----------
    bits : images (B, ...) -> bits (B, D).
    weights : (D, C) float64.
    choice : settings of the read-out.
    shift : (C,) logarithm of the client's class shares over those of all.
    """

    bits: Callable[[Tensor], Tensor]
    weights: np.ndarray = field(repr=False)
    choice: Choice
    shift: np.ndarray = field(repr=False)

    def __call__(self, x: Tensor) -> Tensor:
        """Return log-probabilities (B, classes), float64."""
        scores = self.bits(x).cpu().numpy().astype(np.float64) @ self.weights
        return torch.as_tensor(log_probabilities(scores, self.choice, self.shift), device=x.device)


@dataclass(frozen=True)
class Hebbian(ClosedForm):
    """The Hebbian read-out; `models` and the settings of training are of no account.

    Attributes
    ----------
    filters : random filters of patches; each gives two features for each field.
    patch : side of a patch, in pixels.
    fields : responses are averaged over so many fields in each direction.
    reading : "personal", a mixture with the client's own examples and class shares; "global", the
        same read-out for all; "alone", of the client's own examples only, with bits that all agreed
        on.

    Raises
    ------
    ArgumentError : the data are no images, a patch is larger than they are, or a setting is out of
        its range.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> method = Hebbian(TaskSpec(models=("mlp",), clients=2, examples=200), filters=8)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [9256, 9256]
    """

    filters: int = 64
    patch: int = 3
    fields: int = 2
    reading: str = "personal"

    name: ClassVar[str] = "hebbian"
    source: ClassVar[str] = "proposed here"
    exchanges: ClassVar[int] = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("filters", "patch", "fields"):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        rule = f"one of {', '.join(READINGS)}"
        require(self.reading in READINGS, "reading", rule, repr(self.reading))

    @property
    def patches(self) -> Patches:
        """Patches of the images."""
        data = self.loaded.split.dataset
        require(data.is_images, "data", "images", data.name)
        channels, height, width = data.shape
        return Patches(channels, height, width, self.patch)

    @property
    def n_bits(self) -> int:
        """D: two bits for each filter and field, and a constant."""
        return 2 * self.filters * self.fields**2 + 1

    def choices(self) -> list[Choice]:
        """Settings that validation chooses from."""
        own = {"personal": OWN, "global": (0.0,), "alone": (-1.0,)}[self.reading]
        priors = PRIORS if self.reading == "personal" else (0.0,)
        return [Choice(*row) for row in product(RIDGES, own, SCALES, priors)]

    def server_start(self, seed: int) -> State:
        """Nothing; but data of another kind, and patches too large for them, are refused here."""
        del seed
        require(self.patches.length > 0, "patch", "at least one number", self.patch)
        return {}

    # What a client sends, exchange by exchange.

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer an exchange from the client's own examples."""
        client = context.client
        if client is None:
            raise ArgumentError("context", "that of a client", "none")
        if not self._asked(down, context):
            return state, {}, {"flops": 0.0, "loss": float("nan")}
        if context.exchange == 0:
            message = self._patch_sums(client)
        elif context.exchange == 1:
            message = self._feature_sums(down, client)
        elif context.exchange == 2:
            message = self._operator(down, client)
            state = dict(message)
        else:
            message = self._likelihoods(state, down, client)
        cost = {"flops": self._flops_of(context.exchange, client), "loss": float("nan")}
        return state, message, cost

    def _asked(self, down: Message, context: Context) -> bool:
        """Whether this exchange is of use: who is in the sums has no more to say."""
        known = ("kernel", "thresholds", "", "choice")[context.exchange]
        if context.exchange == 2:
            return context.client not in np.asarray(down.get("members", ()))
        return known not in down

    def _patch_sums(self, client: int) -> Message:
        data = self.loaded.tensors
        batches = (x for x, _ in data.batches(self.loaded.split.train[client]))
        total, squares, count = self.patches.moments(batches)
        low = squares[np.tril_indices(len(squares))]
        return {"total": total, "squares": low, "patches": np.asarray(count)}

    def _feature_sums(self, down: Message, client: int) -> Message:
        data, filters = self.loaded.tensors, self._filters(down)
        total = np.zeros(filters.length)
        rows = self.loaded.split.train[client]
        for x, _ in data.batches(rows):
            total += filters(x).double().sum(dim=0).cpu().numpy()
        return {"sums": total, "examples": np.asarray(len(rows))}

    def _operator(self, down: Message, client: int) -> Message:
        rows, labels = self._rows(down, client, "train")
        sums = Sums.of(rows, labels, self.loaded.classes)
        by_class = {"by_class": sums.by_class.astype(np.int32), "classes": sums.counts}
        return self._encoding.encode(rows) | by_class

    def _likelihoods(self, state: State, down: Message, client: int) -> Message:
        bits, labels = self._bits(down, client, "validation")
        if not len(labels):
            return {"likelihoods": np.zeros(len(self.choices())), "examples": np.asarray(0)}
        own, pooled = self._sums(state), self._sums(down)
        shift = own.log_prior() - pooled.log_prior()
        scores = {
            weight: bits @ self._readouts(down, pooled, own, weight, RIDGES, client)
            for weight in {choice.own for choice in self.choices()}
        }
        found = []
        for choice in self.choices():
            logs = log_probabilities(scores[choice.own][RIDGES.index(choice.ridge)], choice, shift)
            found.append(logs[np.arange(len(labels)), labels].sum())
        return {"likelihoods": np.array(found), "examples": np.asarray(len(labels))}

    def expects(self, down: Message, context: Context) -> Spec:
        """Sums of patches, of features, of bits; likelihoods of the settings; each only once."""
        if not self._asked(down, context):
            return {}
        d, D, C = self.patches.length, self.n_bits, self.loaded.classes
        number = Field((), "iu", least=0)
        return (
            {
                "total": Field((d,), "f"),
                "squares": Field((d * (d + 1) // 2,), "f"),
                "patches": number,
            },
            {"sums": Field((D - 1,), "f", least=0), "examples": number},
            {
                **self._encoding.spec,
                "by_class": Field((D, C), "i", within="examples"),
                "classes": Field((C,), "i", least=0, within="examples"),
            },
            {"likelihoods": Field((len(self.choices()),), "f", most=0), "examples": number},
        )[context.exchange]

    # What the server makes of it.

    def server_step(
        self, state: State, messages: Mapping[int, Message], context: Context
    ) -> tuple[State, Mapping[int, Message], Metrics]:
        """Draw filters, set thresholds, add operators, choose a setting."""
        said = [c for c in sorted(messages) if messages[c]]
        if not said:
            return state, {}, {}
        heard = [messages[c] for c in said]
        if context.exchange == 0:
            state = self._drawn(heard)
        elif context.exchange == 1:
            examples = sum(int(m["examples"]) for m in heard)
            total = np.sum([m["sums"] for m in heard], axis=0)
            state = dict(state) | {"thresholds": (total / max(examples, 1)).astype(np.float32)}
        elif context.exchange == 2:
            state = dict(state) | self._added(state, heard, said)
        else:
            best = np.sum([m["likelihoods"] for m in heard], axis=0).argmax()
            state = dict(state) | {"choice": np.asarray(best)}
        return state, {EVERYONE: dict(state)}, {}

    def _drawn(self, heard: list[Message]) -> State:
        d = self.patches.length
        low = np.sum([m["squares"] for m in heard], axis=0)
        squares = np.zeros((d, d))
        squares[np.tril_indices(d)] = low
        squares = squares + np.tril(squares, -1).T
        count = max(sum(int(m["patches"]) for m in heard), 1)
        total = np.sum([m["total"] for m in heard], axis=0)
        rng = stream(self.task.seed, "filters")
        moments = total, squares, float(count)
        made = Filters.drawn(self.patches, moments, self.filters, self.fields, rng)
        return {"kernel": made.kernel, "mean": made.mean}

    def _added(self, state: State, heard: list[Message], said: list[int]) -> State:
        """Add operators to those of before: integers, so that no order of clients matters."""
        names = ("counts", "examples", "by_class", "classes")
        before = [state] if "counts" in state else []
        sums = {n: np.sum([m[n] for m in [*before, *heard]], axis=0, dtype=np.int64) for n in names}
        width = np.int16 if int(sums["examples"]) <= np.iinfo(np.int16).max else np.int32
        members = np.union1d(np.asarray(state.get("members", ()), dtype=np.int64), said)
        return sums | {"counts": sums["counts"].astype(width), "members": members}

    # What a client makes of the server's answer.

    def classifier(self, state: State, down: Message, client: int) -> Readout:
        """The client's read-out; before a round is over all classes are equal to it."""
        classes = self.loaded.classes
        if "choice" not in down:
            none = np.zeros((1, classes))
            return Readout(_no_bits, none, Choice(1.0, 0.0, 1.0, 0.0), np.zeros(classes))
        choice = self.choices()[int(down["choice"])]
        own = self._sums(state) if state else self._own(down, client)
        pooled = self._sums(down)
        weights = self._readouts(down, pooled, own, choice.own, (choice.ridge,), client)[0]
        filters, thresholds = self._filters(down), np.asarray(down["thresholds"])
        shift = own.log_prior() - pooled.log_prior()
        return Readout(lambda x: as_bits(filters(x), thresholds), weights, choice, shift)

    def _readouts(
        self,
        down: Message,
        pooled: Sums,
        own: Sums,
        weight: float,
        ridges: tuple[float, ...],
        client: int,
    ) -> np.ndarray:
        """Read-outs (R, D, C); those without the client's own examples are made once for all."""
        key = self.task, digest(down), weight, ridges, client if weight else None
        found: np.ndarray = _READOUTS.get(
            key, lambda: readouts(_mixed(pooled, own, weight), ridges)
        )
        return found

    @property
    def _encoding(self) -> Encoding:
        return Encoding(self.n_bits)

    def _filters(self, down: Message) -> Filters:
        return Filters(self.patches, down["kernel"], down["mean"], self.fields)

    def _bits(self, down: Message, client: int, part: str) -> tuple[np.ndarray, np.ndarray]:
        """Bits (n, D) float32 and labels (n,) of a part of the client's examples."""
        filters, thresholds = self._filters(down), np.asarray(down["thresholds"])
        found = [
            (as_bits(filters(x), thresholds).cpu().numpy(), y.cpu().numpy())
            for x, y in self.loaded.tensors.batches(getattr(self.loaded.split, part)[client])
        ]
        bits, labels = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return bits, labels

    def _rows(self, down: Message, client: int, part: str) -> tuple[PackedBits, np.ndarray]:
        bits, labels = self._bits(down, client, part)
        return pack(bits.astype(np.int8)), labels

    def _sums(self, message: Message) -> Sums:
        by_class = np.asarray(message["by_class"], dtype=np.int64)
        D, n = self.n_bits, float(message["examples"])
        operator = DenseOperator(D, n, n, symmetric(message["counts"], D, n))
        return Sums(operator, by_class, np.asarray(message["classes"]))

    def _own(self, down: Message, client: int) -> Sums:
        rows, labels = self._rows(down, client, "train")
        return Sums.of(rows, labels, self.loaded.classes)

    def _flops_of(self, exchange: int, client: int) -> float:
        """Multiplications and additions of a step, by its products."""
        p, n = self.patches, len(self.loaded.split.train[client])
        positions = (p.height - p.size + 1) * (p.width - p.size + 1)
        features = 2.0 * n * positions * p.length * self.filters
        D, C = self.n_bits, self.loaded.classes
        weights = len({choice.own for choice in self.choices()})
        return (
            2.0 * n * positions / 9 * p.length**2,
            features,
            features + n * D * (D + 2.0 * C),
            weights * 10.0 * D**3,
        )[exchange]


def _no_bits(x: Tensor) -> Tensor:
    return x.new_zeros((len(x), 1))


def _mixed(pooled: Sums, own: Sums, weight: float) -> Sums:
    """Sums of all with `weight` times the client's own; its own alone below 0."""
    if weight < 0:
        return own
    return pooled + own * weight if weight else pooled
