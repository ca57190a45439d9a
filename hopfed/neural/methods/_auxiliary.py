"""Methods in which each client has its own model and a shared part, which the server averages."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import nn

from hopfed.federation.contract import Context, State
from hopfed.federation.messages import Field, Message, Spec
from hopfed.neural.method import above, below, pack, spec_of, unpack
from hopfed.neural.methods.fedavg import FedAvg
from hopfed.neural.model_pair import Pair
from hopfed.neural.models.base import Model
from hopfed.neural.models.registry import check_name
from hopfed.neural.training.task import Params


@dataclass(frozen=True)
class Auxiliary(FedAvg):
    """A client trains a module with the parts ``own``, its model, and ``shared``.

    Clients send only the shared part; the server returns its size-weighted mean over the
    participants. Everything else is state of the client. `Training.clip` limits the norm of the
    gradient of all parts together.
    """

    same_model: ClassVar[bool] = False
    shared: ClassVar[bool] = False
    keeps_shared: ClassVar[bool] = False  # whether the client keeps its copy, to classify with it

    @abstractmethod
    def wrap(self, model: Model) -> nn.Module:
        """Return the module of both parts."""

    def start_params(self, state: State, down: Message, client: int) -> Params:
        """Return the client's own parts, and the shared part from the server."""
        return self.initial(client) | unpack(state) | above(unpack(down), "shared")

    def finish(self, state: State, params: Params, client: int) -> tuple[State, Message]:  # noqa: ARG002
        """Send the shared part and keep the other parts."""
        kept = {n: t for n, t in params.items() if self.keeps_shared or not _is_shared(n)}
        size = np.asarray(len(self.loaded.split.train[client]))
        return pack(kept), pack(below(params, "shared")) | {"examples": size}

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """The shared part, and the number of examples."""
        return spec_of(self.first) | {"examples": Field((), "iu")}

    def personal(self, state: State, down: Message, client: int) -> Params:  # noqa: ARG002
        """Its own model."""
        return below(unpack(state), "own") or self.loaded.initial(client)

    @property
    def first(self) -> Params:
        """The shared part before the first round."""
        return below(self.initial(0), "shared")


@dataclass(frozen=True)
class Proxied(Auxiliary):
    """The shared part is a small model.

    Attributes
    ----------
    proxy : architecture of the small model; the published tables use FedSSA's smallest.
    """

    proxy: str = "cnn-5"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.proxy, "proxy")

    def wrap(self, model: Model) -> nn.Module:
        """A pair of models."""
        return Pair(model, self.loaded.build(self.proxy, "proxy"))


def _is_shared(name: str) -> bool:
    return name.startswith("shared.")
