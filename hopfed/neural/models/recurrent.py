"""The two-layer LSTM for next-character prediction of LEAF's Shakespeare task and kNN-Per.

Source: theory/NOTES.md, "Text of the neural experiments".

The cell is written out instead of taken from `nn.LSTM`. The fused kernels of `nn.LSTM` have no
batching rule: under `vmap` they run client by client, and their operations are not counted. On one
CPU core the written-out cell makes the step of one client about a sixth longer. A step of five
clients together takes about a third of the time at batch 8, and three quarters at batch 64.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from hopfed._lib.memory_limits import require_memory
from hopfed._lib.settings import require
from hopfed.neural.models.base import Model, Shape


class LSTMLayer(nn.RNNCellBase):
    """One layer, with the parameter names, shapes and initialisation of `nn.LSTMCell`."""

    def __init__(self, inside: int, width: int):
        super().__init__(inside, width, bias=True, num_chunks=4)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Map (B, T, inside) to the hidden states (B, T, width) and the last cell state."""
        # One product computes the input's part of the gates for all times: it has no recurrence.
        driven = linear(inputs, self.weight_ih, self.bias_ih + self.bias_hh)
        h = c = driven.new_zeros(driven.shape[0], self.hidden_size)
        hidden = []
        for drive in driven.unbind(1):
            i, f, g, o = (drive + linear(h, self.weight_hh)).chunk(4, dim=-1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            hidden.append(h)
        return torch.stack(hidden, dim=1), c


class StackedLSTM(nn.Module):
    """Module from tokens (B, T) to the last states of all layers (B, 2 layers width).

    The hidden states come first, from the top layer down, then the cell states in the same order.

    Parameters
    ----------
    tokens : number of different tokens; an input holds integers below it.
    embedding : length of the vector a token is mapped to.
    width : units of a layer.
    layers : number of layers.
    """

    def __init__(self, tokens: int, embedding: int, width: int, layers: int):
        super().__init__()
        self.embedding = nn.Embedding(tokens, embedding)
        widths = [embedding] + [width] * layers
        self.layers = nn.ModuleList(LSTMLayer(a, b) for a, b in pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        """Run over the tokens from zero states and return the last states."""
        sequence = self.embedding(x)
        hidden: list[Tensor] = []
        memory: list[Tensor] = []
        for layer in self.layers:
            sequence, c = layer(sequence)
            hidden.insert(0, sequence[:, -1])
            memory.insert(0, c)
        return torch.cat(hidden + memory, dim=-1)


class TopHidden(nn.Linear):
    """Linear layer that reads only the first `in_features` numbers: the top hidden state."""

    def forward(self, z: Tensor) -> Tensor:
        """Return the logits (B, out_features) of features (B, at least in_features)."""
        return super().forward(z[..., : self.in_features])


def lstm(shape: Shape, *, embedding: int = 8, width: int = 256) -> Model:
    """LSTM of two layers of `width` units; its 4 width features are all hidden and cell states.

    As in the base model of kNN-Per (arXiv:2111.09360), the head reads only the hidden state of the
    top layer, but a datastore keeps all features. The paper does not give the embedding length; 8
    is the value of LEAF.
    """
    for name, value in (("embedding", embedding), ("width", width)):
        require(isinstance(value, int) and value > 0, name, "at least 1", repr(value))
    numbers = shape.channels * embedding + 4 * width * (embedding + 3 * width)
    require_memory(8 * numbers, "model lstm")  # weights in float32, and their gradients
    features = StackedLSTM(shape.channels, embedding, width, layers=2)
    return Model(features, TopHidden(width, shape.classes), 4 * width)
