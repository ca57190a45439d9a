"""A model with a memory between its features and its head: the network of SoHip.

Source: arXiv:2603.25614, eqs. (2) to (15); theory/NOTES.md, "SoHip memory" and "SoHip with a linear
head".

The memory consists of `patterns` vectors of `width` numbers. A decoder maps the recalled vector to
the features, to which it is added. In the paper all examples recall the same vector; this is the
default. As an extension, examples may recall different vectors from a memory of the same size:
see `Form`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, softmax

from hopfed._lib.settings import require
from hopfed.neural.memory.store import blend, gate
from hopfed.neural.models.architectures import Model, rectified
from hopfed.neural.models.networks import drawing
from hopfed.neural.training.task import Params

HEADS = ("linear", "mlp")
KINDS = ("common", "class", "sample")
LATE = 0.2  # weight of a new batch in the running average of encoded examples
ABLATIONS = ("", "a", "b", "c", "d")


@dataclass(frozen=True)
class Form:
    """Settings of a memory: its size, and how examples address it.

    Attributes
    ----------
    kind : how an example with features z weights the patterns M; it recalls their weighted sum.

        "common" : one pattern, the same for every example, eq. (14).
        "class" : one pattern for each class, weighted by the softmax of the head's own logits.
        "sample" : weights ``softmax(beta cos(E(z) - c, M))``, as in a modern Hopfield network.

    patterns, width : the memory has the shape (patterns, width); a message holds all its numbers.
    beta : inverse temperature of "sample". Patterns and encoded examples are normalised to length
        1, because gates below one shrink the memory from batch to batch, and short patterns would
        get equal weights. A component common to all encoded examples would have the same effect;
        the centre c removes it. c is the mean over the batch in training and a running average
        over recent batches in a test. It stays with the client.
    ablation : letters as in the paper: "a" without importance gate, "b" without consolidation, "c"
        without fusion with the collective memory; "" for the full method.
    """

    kind: str
    patterns: int
    width: int
    beta: float = 8.0
    ablation: str = ""

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the memory."""
        return self.patterns, self.width

    def blank(self, seed: int) -> Tensor:
        """Return the memory before the first batch: zeros for the kinds "common" and "class".

        The patterns of "sample" start in different directions, because equal patterns would stay
        equal. All clients start with the same patterns, so that their mean is meaningful.
        """
        if self.kind != "sample":
            return torch.zeros(self.shape)
        with drawing(seed, "memory", "patterns"):
            return normalize(torch.randn(self.shape), dim=1)


class Headed(nn.Module):
    """A model; with `head` "mlp" it has a hidden layer of ReLU units before its head.

    The names of the model's own parameters start with ``model.``.
    """

    def __init__(self, model: Model, head: str, seed: int):
        super().__init__()
        require(head in HEADS, "head", f"one of {', '.join(HEADS)}", repr(head))
        self.model = model
        self.hidden: nn.Module = nn.Identity()
        if head == "mlp":
            width = model.feature_dim
            with drawing(seed, "memory", "hidden"):
                self.hidden = nn.Sequential(nn.Linear(width, width), nn.ReLU())
                rectified(self.hidden)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return (features, logits)."""
        z = self.model.features(x)
        return z, self.logits(z)

    def logits(self, z: Tensor) -> Tensor:
        """Turn features into logits."""
        logits: Tensor = self.model.head(self.hidden(z))
        return logits


class Shifted(Headed):
    """A model that adds one learned vector to the features; a control without a memory."""

    def __init__(self, model: Model, head: str, seed: int):
        super().__init__(model, head, seed)
        self.bias = nn.Parameter(torch.zeros(model.feature_dim))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return (shifted features, logits)."""
        z = self.model.features(x) + self.bias
        return z, self.logits(z)


class Remembering(Headed):
    """A model that adds a vector recalled from its memory to the features.

    Encoder, decoder and gates are single linear layers with PyTorch's initial weights; a gate takes
    one pattern at a time. The long-term memory is a buffer, so no gradient flows from one batch to
    the next.
    """

    long_term: Tensor
    centre: Tensor

    def __init__(self, model: Model, form: Form, head: str, seed: int):
        super().__init__(model, head, seed)
        self.form = form
        m, d = form.width, model.feature_dim
        self.encoder = _linear(d, m, seed, "encoder")
        self.decoder = _linear(m, d, seed, "decoder")
        if form.ablation != "a":
            self.importance = _linear(m, m, seed, "importance")
        if form.ablation != "b":
            self.take = _linear(2 * m, m, seed, "take")
            self.forget = _linear(2 * m, m, seed, "forget")
            self.output = _linear(2 * m, m, seed, "output")
        if form.ablation != "c":
            self.fusion = _linear(2 * m, m, seed, "fusion")
        self.register_buffer("long_term", form.blank(seed))
        if form.kind == "sample":
            self.register_buffer("centre", torch.zeros(m))

    def forward(  # type: ignore[override]
        self, x: Tensor, collective: Tensor, y: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Params]:
        """Return features plus recalled vector, logits, and the states after the batch by name.

        `collective` is the server's memory, (patterns, width). Labels `y` are given only in
        training: the memory is consolidated only then. `mask` is 0 on padding rows.
        """
        z = self.model.features(x)
        encoded = self.encoder(z)  # eq. (3)
        # Copies are used, because states are overwritten before the gradient is computed.
        states = {name: t.clone() for name, t in self.named_buffers(recurse=False)}
        if self.form.kind == "sample":
            centre = states["centre"]
            if y is not None:
                real = torch.ones_like(encoded[:, :1]) if mask is None else mask[:, None]
                centre = (encoded * real).sum(0) / real.sum()
                states["centre"] = blend(states["centre"], centre, LATE)
            encoded = encoded - centre
        if y is not None:
            states["long_term"] = self.consolidated(encoded, y, mask, states["long_term"])
        complete = self.fused(states["long_term"], collective)
        recalled = self.decoder(complete)  # eq. (13)
        if self.form.kind == "class":
            recalled = softmax(self.logits(z), dim=-1) @ recalled
        elif self.form.kind == "sample":
            recalled = self.address(encoded, complete) @ recalled
        z = z + recalled  # eq. (14)
        return z, self.logits(z), states

    def consolidated(
        self, encoded: Tensor, y: Tensor, mask: Tensor | None, before: Tensor
    ) -> Tensor:
        """Long-term memory after a batch, eqs. (4) to (9); a pattern without examples stays."""
        share = self._shares(encoded, y, before)
        if mask is not None:
            share = share * mask[:, None]
        mass = share.sum(0)[:, None]
        short = share.T @ encoded / mass.clamp(min=torch.finfo(mass.dtype).tiny)  # eq. (4)
        if self.form.ablation != "a":
            short = torch.sigmoid(self.importance(short)) * short  # eqs. (5), (6)
        after = short
        if self.form.ablation != "b":
            u = torch.cat([short, before], dim=-1)  # eq. (7)
            take, forget, output = (
                torch.sigmoid(g(u)) for g in (self.take, self.forget, self.output)
            )  # eq. (8)
            after = output * gate(before, short, forget, take)  # eq. (9)
        return torch.where(mass > 0, after, before)

    def fused(self, memory: Tensor, collective: Tensor) -> Tensor:
        """Complete memory, eqs. (10) to (12)."""
        if self.form.ablation == "c":
            return memory
        v = torch.cat([memory, collective], dim=-1)
        return gate(collective, memory, torch.sigmoid(self.fusion(v)), 1.0)

    def address(self, encoded: Tensor, memory: Tensor) -> Tensor:
        """Weights (B, patterns) of an exponential memory of the patterns, all of length 1.

        Its sign is the step of `hopfed.memory.AssociativeMemory` by the exponential rule.
        """
        near = normalize(encoded, dim=-1) @ normalize(memory, dim=-1).T
        return softmax(self.form.beta * near, dim=-1)

    def _shares(self, encoded: Tensor, y: Tensor, memory: Tensor) -> Tensor:
        """Share (B, patterns) of every example in the update of every pattern."""
        if self.form.kind == "common":
            return torch.ones_like(encoded[:, :1])
        if self.form.kind == "class":
            classes = torch.arange(self.form.patterns, device=y.device)
            return (y[:, None] == classes).to(encoded.dtype)
        return self.address(encoded, memory)


def _linear(inside: int, outside: int, seed: int, name: str) -> nn.Linear:
    """Make a layer whose weights depend only on seed, name and sizes."""
    with drawing(seed, "memory", name):
        return nn.Linear(inside, outside)
