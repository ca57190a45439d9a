"""LG-FedAvg: the head is averaged, the body stays local (theory/NOTES.md, "Baselines")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hopfed._lib.settings import require
from hopfed.federation.aggregate import mean_tree
from hopfed.federation.contract import EVERYONE, Context, State
from hopfed.federation.messages import Field, Message, Spec
from hopfed.neural.method import NeuralMethod, above, below, pack, spec_of, unpack
from hopfed.neural.methods.standalone import Standalone
from hopfed.neural.training.task import Params

__all__ = ["LGFedAvg"]

WEIGHTS = ("size", "equal")
SCORED = ("local", "global")


@dataclass(frozen=True)
class LGFedAvg(Standalone):
    """LG-FedAvg of Liang et al. (2020); the shared part is the last layer.

    A participant replaces its head by the latest mean of heads, trains its whole model, and sends
    the head: ``classes (dim + 1)`` numbers each way. It also sends its number of examples if
    `weights` is "size".

    Attributes
    ----------
    weights : weights of the mean: "size", as in the paper, or "equal".
    scored : model with which a client classifies: "local" is its model after training, as FedSSA's
        paper states for all methods that it compares; "global" is its body with the latest mean
        head, as in the authors' program.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = LGFedAvg(task, Training(way="sequential"))
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [8048, 8048]
    """

    weights: str = "size"
    scored: str = "local"

    name: ClassVar[str] = "lg-fedavg"
    source: ClassVar[str] = "Liang et al., 2020"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, known in (("weights", WEIGHTS), ("scored", SCORED)):
            got = getattr(self, name)
            require(got in known, name, f"one of {', '.join(known)}", repr(got))
        require_one_head(self)

    def start_params(self, state: State, down: Message, client: int) -> Params:
        """The client's own body and the global head."""
        own = super().start_params(state, down, client)
        return own | above(unpack(down, "head"), "head")

    def finish(self, state: State, params: Params, client: int) -> tuple[State, Message]:
        """Keep the model; send the head."""
        kept, _ = super().finish(state, params, client)
        message = pack(below(params, "head"), "head")
        if self.weights == "size":
            message["examples"] = np.asarray(len(self.loaded.split.train[client]))
        return kept, message

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """A head, and the number of examples if `weights` is "size"."""
        head = spec_of(below(self.initial(0), "head"), "head")
        return head | ({"examples": Field((), "iu")} if self.weights == "size" else {})

    def answer(
        self, state: State, messages: Mapping[int, Message]
    ) -> tuple[State, Mapping[int, Message]]:
        """Average the heads."""
        if not messages:
            return state, {}
        sizes = (
            [float(m["examples"]) for m in messages.values()] if self.weights == "size" else None
        )
        heads = [{n: a for n, a in m.items() if n != "examples"} for m in messages.values()]
        mean = mean_tree(heads, sizes)
        return mean, {EVERYONE: mean}

    def personal(self, state: State, down: Message, client: int) -> Params:
        """The client's own model; with `scored` "global" it has the global head."""
        if self.scored == "global":
            return self.start_params(state, down, client)
        return super().personal(state, down, client)


def require_one_head(method: NeuralMethod) -> None:
    """Raise ArgumentError if the heads of the clients' models have different shapes."""
    inputs = {name: model.head.in_features for name, model in method.loaded.templates.items()}
    got = ", ".join(f"{name} {width}" for name, width in inputs.items())
    rule = f"of one feature dimension for {method.name}, which shares the head"
    require(len(set(inputs.values())) == 1, "models", rule, got)
