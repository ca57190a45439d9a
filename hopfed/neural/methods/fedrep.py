"""FedRep: the body is averaged, the head stays local; the two are trained alternately.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hopfed._lib.settings import require
from hopfed.federation.contract import Context, State
from hopfed.federation.messages import Field, Message, Spec
from hopfed.neural.method import above, below, pack, spec_of, unpack
from hopfed.neural.methods.fedavg import FedAvg
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Phase


@dataclass(frozen=True)
class FedRep(FedAvg):
    """FedRep of Collins et al. (2021).

    In each round a participant first trains its head with the global body frozen. It then trains
    the body with its head frozen, and sends the body. Frozen parts do not change, running
    statistics included. A client classifies with its head on the latest global body. A client that
    never took part first trains a head on it.

    Attributes
    ----------
    head : epochs of training the head; the body is trained for `training.epochs`.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = FedRep(task, Training(way="sequential"), head=2)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [212808, 212808]
    """

    head: int = 10

    name: ClassVar[str] = "fedrep"
    source: ClassVar[str] = "Collins et al., ICML 2021"
    shared: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.head >= 0, "head", "at least 0", self.head)

    def phases(self) -> tuple[Phase, ...]:
        """The head, then the body."""
        return (
            Phase(self.head, self.objective, frozen=("features.",)),
            Phase(self.training.epochs, self.objective, frozen=("head.",)),
        )

    def start_params(self, state: State, down: Message, client: int) -> Params:
        """The global body and its own head."""
        body, head = unpack(down, "body"), unpack(state, "head")
        return self.loaded.initial(client) | above(body, "features") | above(head, "head")

    def finish(self, state: State, params: Params, client: int) -> tuple[State, Message]:  # noqa: ARG002
        """Keep the head, send the body."""
        size = np.asarray(len(self.loaded.split.train[client]))
        message = pack(below(params, "features"), "body") | {"examples": size}
        return pack(below(params, "head"), "head"), message

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """A body, and the number of examples."""
        body = below(self.loaded.initial(0), "features")
        return spec_of(body, "body") | {"examples": Field((), "iu")}

    def personal(self, state: State, down: Message, client: int) -> Params:
        """The client's head on the global body."""
        return self.start_params(self.after_one_round(state, down, client), down, client)
