"""FedMD: clients match the mean logits of all clients on public data, then train on own data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hopfed._lib.settings import require
from hopfed.federation.aggregate import mean_tree
from hopfed.federation.contract import EVERYONE, Context, State
from hopfed.federation.engines import Call
from hopfed.federation.messages import Field, Message, Spec
from hopfed.neural.method import client_of
from hopfed.neural.methods._stepwise import Consulting
from hopfed.neural.training.losses import masked_mean
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Forward, Phase, Plan


@dataclass(frozen=True)
class FedMD(Consulting):
    """Li and Wang (2019): communicate, aggregate, distribute, digest, revisit.

    Source: theory/NOTES.md, "Baselines".

    Rounds consist of steps, as in FedH2L. The public minibatches of all nodes together form the
    public minibatch of a round. Clients send their logits on it; the server sends the mean to all.
    A client then makes `digest` steps towards the mean, and `steps` steps on its own examples. The
    loss of the first is the mean absolute difference of the logits, as in the authors' program.
    Before its first round a client makes `transfer` steps on the labelled public examples, then as
    many on its own.

    Attributes
    ----------
    digest : steps towards the mean logits (the consensus) in a round.
    transfer : steps on public and then on own examples before the first round; 0 means none.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = FedMD(task, Training(way="sequential"), transfer=2)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [800, 800]
    """

    digest: int = 1
    transfer: int = 100

    name: ClassVar[str] = "fedmd"
    source: ClassVar[str] = "Li and Wang, NeurIPS workshop 2019"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.digest >= 1, "digest", "at least 1", self.digest)
        require(self.transfer >= 0, "transfer", "at least 0", self.transfer)
        known = self.labelled or not self.transfer
        require(known, "transfer", "0 where public data have no labels", self.transfer)

    def phases(self) -> tuple[Phase, ...]:
        """Transfer on public and on own examples; then digest and revisit."""
        return (
            Phase(1, self.objective, exchange=0),
            Phase(1, self.objective, exchange=0),
            Phase(1, self.match, exchange=1, augment=False),
            Phase(1, self.objective, exchange=1),
        )

    def plans(self, call: Call) -> dict[int, Plan]:
        """Steps of each phase; transfer has steps only in a client's first round."""
        if call.context.exchange:
            digest = self.digest if call.down else 0
            return {2: [self._shown(call.context)] * digest, 3: self.own_steps(call)}
        images = 0 if call.state else self.transfer * self.training.batch
        rng = call.context.rng("transfer")
        own = self.rows(client_of(call.context), self.local)
        return {
            0: self.minibatches(np.concatenate(self.seeds.public), rng, images),
            1: self.minibatches(own, rng, images),
        }

    def extra(self, state: State, down: Message, client: int) -> Params:  # noqa: ARG002
        """The consensus."""
        return {n: torch.from_numpy(np.array(a)) for n, a in down.items()}

    def match(self, net: Net, batch: Batch) -> Tensor:
        """Mean absolute difference to the consensus."""
        forward, params, x, y, mask, extra = net.forward, net.params, batch.x, batch.y, batch.mask, batch.extra  # noqa: E501
        del y
        logits = forward(params, x)[1]
        return masked_mean((logits - extra["logits"][: len(logits)]).abs().mean(dim=1), mask)

    def says(self, call: Call, params: Params) -> tuple[Message, int]:
        """Logits of the public minibatch."""
        shown = self._shown(call.context)
        logits, _ = self.scores(client_of(call.context), params, shown)
        return {"logits": logits.cpu().numpy()}, len(shown)

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """Logits, then nothing."""
        if context.exchange:
            return {}
        return {"logits": Field((len(self._shown(context)), self.loaded.classes), "f")}

    def answer(
        self, state: State, messages: Mapping[int, Message]
    ) -> tuple[State, Mapping[int, Message]]:
        """Send the mean to everyone."""
        return state, {EVERYONE: mean_tree(list(messages.values())) if messages else {}}

    def _shown(self, context: Context) -> np.ndarray:
        return np.concatenate(self.batches(context))
