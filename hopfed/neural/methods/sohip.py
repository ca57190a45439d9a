"""SoHip: clients exchange only memories, vectors of m numbers each way.

Source: arXiv:2603.25614, eqs. (2) to (16); theory/NOTES.md, "SoHip memory". The encoded
features of a batch are averaged and gated to a short-term memory. This is consolidated into the
client's long-term memory, fused with the server's collective memory, decoded, and added to the
features of every example.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, softmax

from hopfed._lib.settings import require
from hopfed.federation.aggregate import weighted_mean
from hopfed.federation.contract import EVERYONE, State
from hopfed.federation.messages import Message
from hopfed.federation.rounds import Session
from hopfed.neural.method import Client, NeuralMethod, Played, setting
from hopfed.neural.models.architectures import Model, init_for_relu
from hopfed.neural.models.networks import seed_weights
from hopfed.neural.training.evaluation import Classifier, Network
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params

__all__ = ["SoHip", "Standalone", "StandaloneBias"]

HEADS = ("linear", "mlp")
LATE = 0.2  # weight of a new batch in the running average of encoded examples
WITHOUT = {"a": ("importance",), "b": ("take", "forget", "output"), "c": ("fusion",)}


class MemoryForm(NamedTuple):
    """Settings of a memory: its shape (patterns, width), and the weights of its patterns.

    The kind decides the weights of the patterns M for an example with features z. "common": one
    pattern, eq. (14); "sample": ``softmax(beta cos(E(z) - c, M))``, as in a modern Hopfield
    network, where c is the mean over the batch in training and its running average in tests.
    """

    kind: str
    patterns: int
    width: int
    beta: float = 8.0  # inverse temperature of "sample", for vectors scaled to length 1
    ablation: str = ""  # letter of an ablation in the paper, see `SoHip`

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the memory."""
        return self.patterns, self.width


class HeadedModel(nn.Module):
    """A model, named ``model.``, with an optional hidden layer or learned shift of the features."""

    def __init__(self, model: Model, head: str, seed: int, shift: bool = False):
        super().__init__()
        self.model = model
        self.hidden, width = nn.Sequential(), model.feature_dim
        if head == "mlp":
            with seed_weights(seed, "memory", "hidden"):
                self.hidden = nn.Sequential(nn.Linear(width, width), nn.ReLU())
                init_for_relu(self.hidden)
        self.bias = nn.Parameter(torch.zeros(width)) if shift else None

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return (features, logits)."""
        z = self.model.features(x)
        z = z if self.bias is None else z + self.bias
        return z, self.model.head(self.hidden(z))


class MemoryModel(HeadedModel):
    """A model that adds a vector recalled from its memory to the features.

    Gates act on each pattern separately. The long-term memory is a buffer, without gradient.
    """

    long_term: Tensor
    centre: Tensor

    def __init__(self, model: Model, form: MemoryForm, head: str, seed: int):
        super().__init__(model, head, seed)
        self.form = form
        m, d = form.width, model.feature_dim
        sizes = {"encoder": (d, m), "decoder": (m, d), "importance": (m, m)}
        sizes |= dict.fromkeys(("take", "forget", "output", "fusion"), (2 * m, m))
        for name in (n for n in sizes if n not in WITHOUT.get(form.ablation, ())):
            with seed_weights(seed, "memory", name):  # weights depend only on seed, name and sizes
                setattr(self, name, nn.Linear(*sizes[name]))
        self.register_buffer("long_term", torch.zeros(form.shape))
        if form.kind == "sample":  # starts from random patterns
            with seed_weights(seed, "memory", "patterns"):
                self.long_term = normalize(torch.randn(form.shape), dim=1)
            self.register_buffer("centre", torch.zeros(m))

    def forward(  # type: ignore[override]
        self, x: Tensor, collective: Tensor, y: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Params]:
        """Return features plus recalled vector, logits, and the states after the batch by name.

        `collective` is the server's memory; the client's is consolidated only with labels `y`.
        """
        z = self.model.features(x)
        encoded = self.encoder(z)  # eq. (3)
        # Copies, because states are overwritten before the gradient is computed.
        states = {name: t.clone() for name, t in self.named_buffers(recurse=False)}
        real = torch.ones_like(encoded[:, :1]) if mask is None else mask[:, None]
        if self.form.kind == "sample":
            centre = states["centre"]
            if y is not None:
                centre = (encoded * real).sum(0) / real.sum()
                states["centre"] = (1 - LATE) * states["centre"] + LATE * centre
            encoded = encoded - centre
        if y is not None:
            states["long_term"] = self.consolidated(encoded, real, states["long_term"])
        complete = self.fused(states["long_term"], collective)
        recalled = self.decoder(complete)  # eq. (13)
        if self.form.kind == "sample":
            recalled = self.address(encoded, complete) @ recalled
        z = z + recalled  # eq. (14)
        return z, self.model.head(self.hidden(z)), states

    def consolidated(self, encoded: Tensor, real: Tensor, before: Tensor) -> Tensor:
        """Return the long-term memory after a batch, eqs. (4) to (9)."""
        sample = self.form.kind == "sample"  # each example has a share in each pattern's update
        share = self.address(encoded, before) * real if sample else real
        mass = share.sum(0)[:, None]
        short = share.T @ encoded / mass.clamp(min=torch.finfo(mass.dtype).tiny)  # eq. (4)
        if self.form.ablation != "a":
            short = torch.sigmoid(self.importance(short)) * short  # eqs. (5), (6)
        if self.form.ablation == "b":
            return short
        u = torch.cat([short, before], dim=-1)  # eq. (7)
        gates = (self.take, self.forget, self.output)
        take, forget, output = (torch.sigmoid(gate(u)) for gate in gates)  # eq. (8)
        return output * (forget * before + take * short)  # eq. (9)

    def fused(self, memory: Tensor, collective: Tensor) -> Tensor:
        """Return the complete memory, eqs. (10) to (12)."""
        if self.form.ablation == "c":
            return memory
        v = torch.cat([memory, collective], dim=-1)
        return torch.sigmoid(self.fusion(v)) * collective + memory

    def address(self, encoded: Tensor, memory: Tensor) -> Tensor:
        """Return the weights (B, patterns) of the patterns, by their cosines with the examples."""
        near = normalize(encoded, dim=-1) @ normalize(memory, dim=-1).T
        return softmax(self.form.beta * near, dim=-1)


@dataclass(frozen=True)
class SoHip(
    NeuralMethod, name="sohip", source="Yi, Zhao and Hu, 2026", part="model", scored_with="all"
):
    """Social Hippocampus Memory Learning (Yi et al., 2026), with extensions proposed here.

    Attributes
    ----------
    m : length of a memory, and so the largest length of a message.
    ablation : "a" without importance gate; "b" without consolidation, so the long-term memory is
        the last short-term memory; "c" without fusion, "d" without memory, both without messages.
    head : "linear", or "mlp" with a hidden layer before the classes.
    memory : "common", as in the paper, is one memory for all examples. "sample", proposed here,
        divides the length m among `patterns` patterns, weighted by their similarity to the
        encoded example, see `hopfed.neural.methods.sohip.MemoryForm`.
    patterns, beta : number of patterns and inverse temperature of "sample".
    """

    m: int = setting(64, "at least 1")
    ablation: str = setting("", ("", "a", "b", "c", "d"))
    head: str = setting("linear", HEADS)
    memory: str = setting("common", ("common", "sample"))
    patterns: int = setting(8, "at least 1")
    beta: float = setting(8.0, "above 0")

    def __post_init__(self) -> None:
        object.__setattr__(self, "ablation", self.ablation.lower())  # the paper has capitals
        super().__post_init__()
        count = self.form.patterns
        require(self.m >= count, "m", f"at least {count}, the number of patterns", self.m)

    @property
    def form(self) -> MemoryForm:
        """Settings of the memory."""
        count = self.patterns if self.memory == "sample" else 1
        return MemoryForm(self.memory, count, self.m // count, self.beta, self.ablation)

    def wrap(self, model: Model) -> nn.Module:
        if self.ablation == "d":
            return HeadedModel(model, self.head, self.task.seed)
        return MemoryModel(model, self.form, self.head, self.task.seed)

    def extra(self, client: Client, first: Params, down: Message) -> Params:
        """Return the collective memory; zeros before the server has sent it."""
        known = torch.tensor(down["memory"]) if down else torch.zeros(self.form.shape)
        return {} if self.ablation == "d" else {"collective": known}

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Return the cross-entropy with the memory after this batch; store the new memory."""
        if self.ablation == "d":
            return super().objective(net, batch)
        _, logits, states = net(batch.x, batch.extra["collective"], batch.y, batch.mask)
        with torch.no_grad():
            for name, state in states.items():
                net.params[name].copy_(state)
        return batch.cross_entropy(logits)

    def sent(self, client: Client, params: Params) -> Message:
        super().sent(client, params)
        return {} if self.ablation in ("c", "d") else {"memory": np.asarray(params["long_term"])}

    def play(self, state: State, session: Session) -> Played:
        heard = {c: m["memory"] for c, m in session.ask().items() if m}
        if not heard:
            return state, {}, {}
        sizes = [float(len(self.loaded.split.train[c])) for c in heard]
        mean = {"memory": weighted_mean(list(heard.values()), sizes)}  # eq. (16)
        return mean, {EVERYONE: mean}, {}

    def decide(self, client: Client, down: Message) -> Classifier:
        """Return the model with the client's last memory and the latest collective memory."""
        first = self.begin(client, {})
        return Network(client.net, first, tuple(self.extra(client, first, down).values()))


@dataclass(frozen=True)
class Standalone(NeuralMethod, name="standalone", source="baseline"):
    """Every client trains only on its own examples; also called IND and Local."""


@dataclass(frozen=True)
class StandaloneBias(
    Standalone, name="standalone-bias", source="control, proposed here", part="model", whole=True
):
    """Standalone with a learned vector added to the features; a control, proposed here.

    After training, SoHip's memory for all examples is a constant added to the features
    (theory/NOTES.md, "SoHip memory"). Here it is a parameter that starts at zero.

    Attributes
    ----------
    head : "linear", or "mlp" with a hidden layer before the classes, as in SoHip.
    """

    head: str = setting("linear", HEADS)

    def wrap(self, model: Model) -> nn.Module:
        return HeadedModel(model, self.head, self.task.seed, shift=True)
