"""Clients that exchange nothing: the lower baseline of every table, and a control of SoHip's."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from hopfed.federation.messages import Message
from hopfed.neural.memory.recall import HEADS, Shifted
from hopfed.neural.method import Client, NeuralMethod, below, setting
from hopfed.neural.models import Model
from hopfed.neural.training.evaluation import Classifier, Network
from hopfed.neural.training.task import Params


@dataclass(frozen=True)
class Standalone(NeuralMethod, name="standalone", source="baseline"):
    """Every client trains only on its own examples; also called IND and Local.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("standalone").traffic.up.tolist()  # bytes that each client sent
    [0, 0]
    """


@dataclass(frozen=True)
class StandaloneBias(Standalone, name="standalone-bias", source="control, proposed here"):
    """Standalone with a learned vector added to the features; a control, proposed here.

    Source: theory/NOTES.md, "SoHip with a linear head". After training, SoHip's memory for all
    examples (arXiv:2603.25614) is a constant added to the features. Any gain must come from
    training with this constant. Here the constant is a parameter that starts at zero, without
    memory, gates or exchange.

    Attributes
    ----------
    head : "linear", or "mlp" with a hidden layer before the classes, as in SoHip.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("standalone-bias").traffic.up.tolist()  # bytes that each client sent
    [0, 0]
    """

    head: str = setting("linear", HEADS)

    def wrap(self, model: Model) -> nn.Module:
        """The model with the vector added to its features."""
        return Shifted(model, self.head, self.task.seed)

    def personal(self, client: Client, down: Message) -> Params:
        """The client's model without the vector."""
        return below(self.begin(client, down), "model")

    def decide(self, client: Client, down: Message) -> Classifier:
        """The model with the vector."""
        return Network(client.net, self.begin(client, down))
