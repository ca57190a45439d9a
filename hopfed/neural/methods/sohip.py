"""SoHip: clients exchange only memories, vectors of m numbers each way.

Source: arXiv:2603.25614, eqs. (2) to (16); theory/NOTES.md, "SoHip memory".

Algorithm 1 of the paper: the encoded features of a batch are averaged and gated to a short-term
memory. This is consolidated into the client's long-term memory. The long-term memory is fused with
the server's collective memory, decoded, and added to the features of every example of the batch.
The server averages the long-term memories.

Decisions where the paper leaves room:

- The long-term memory is a state without gradient from earlier batches. It and the collective
  memory start at zero. Every training batch of every epoch updates it; the client sends its last
  value.
- A client classifies with its last long-term memory and the latest collective memory; test examples
  change neither. The memory is then a constant. With a linear head it only adds an offset to the
  logits, ``H(Z + R(M)) = H(Z) + W_H R(M)``, so the function class is that of Standalone
  (theory/NOTES.md, "SoHip with a linear head"). The method `standalone-bias` is the control for
  this; the argument does not apply to `head="mlp"`.
- The weights p_i are inputs of Algorithm 1: data sizes that each client tells the server once,
  before the first round. A message therefore holds only the m numbers of a memory.
- Encoders of equal shapes start with equal weights. Nothing else aligns the memory spaces of
  clients with different architectures, and the paper gives no reason why their mean is meaningful.
- The paper does not give m; 64 is below the feature dimension of every model here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from hopfed._lib.settings import require
from hopfed.federation.aggregate import weighted_mean
from hopfed.federation.contract import EVERYONE, State
from hopfed.federation.messages import Message
from hopfed.federation.rounds import Session
from hopfed.neural.memory.recall import ABLATIONS, HEADS, KINDS, Form, Headed, Remembering
from hopfed.neural.method import Answer, Client, Played, below, setting
from hopfed.neural.methods.standalone import Standalone
from hopfed.neural.models import Model
from hopfed.neural.training.evaluation import Classifier, Network
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params


@dataclass(frozen=True)
class SoHip(Standalone, name="sohip", source="Yi, Zhao and Hu, 2026"):
    """Social Hippocampus Memory Learning (Yi et al., 2026), with extensions proposed here.

    Attributes
    ----------
    m : numbers in a memory, and so the largest number of numbers in a message.
    ablation : "a" without importance gate; "b" without consolidation, so the long-term memory is
        the last short-term memory; "c" without fusion with the collective memory; "d" without
        memory, which is Standalone. With "c" and "d" messages are empty, because they are not used.
    head : "linear", or "mlp" with a hidden layer before the classes.
    memory : "common", as in the paper, is one memory for all examples. The extensions divide the m
        numbers among p patterns of ``m // p``. "class" has one pattern for each class, weighted by
        the head's probability of the class. "sample" has `patterns` patterns, weighted by their
        similarity to the encoded example. See `hopfed.neural.memory.recall.Form`.
    patterns, beta : number of patterns and inverse temperature of "sample".
    aggregation : "mean", eq. (16); or "hopfield", proposed here. The latter groups the memories
        that the clients last sent, which the server keeps, by the archetypes of their binary form
        (`hopfed.neural.memory.archetypes.group`). Every client gets, for each of its patterns, the
        mean over the patterns of the same archetype, again m numbers. If no archetype is certain,
        every client gets the mean of eq. (16). The server's metric `archetypes` is the number of
        archetypes, or 0 for the mean. "class" does not allow "hopfield", because a pattern must
        stay with its class.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("sohip").traffic.up.tolist()  # bytes that each client sent
    [256, 256]
    """

    m: int = setting(64, "at least 1")
    ablation: str = setting("", ABLATIONS)
    head: str = setting("linear", HEADS)
    memory: str = setting("common", KINDS)
    patterns: int = setting(8, "at least 1")
    beta: float = setting(8.0, "above 0")
    aggregation: str = setting("mean", ("mean", "hopfield"))

    def __post_init__(self) -> None:
        object.__setattr__(self, "ablation", self.ablation.lower())  # the paper has capitals
        super().__post_init__()
        mixes = self.aggregation == "hopfield" and self.memory == "class"
        require(not mixes, "aggregation", "mean for a memory by class", self.aggregation)
        count = self._count()
        require(self.m >= count, "m", f"at least {count}, the number of patterns", self.m)

    @property
    def form(self) -> Form:
        """Settings of the memory."""
        count = self._count()
        return Form(self.memory, count, self.m // count, self.beta, self.ablation)

    @property
    def silent(self) -> bool:
        """Whether messages are empty."""
        return self.ablation in ("c", "d")

    def fetches(self, known: bool) -> bool:  # noqa: ARG002
        """A client classifies with the latest collective memory."""
        return True

    def wrap(self, model: Model) -> nn.Module:
        """The model with its memory."""
        if self.ablation == "d":
            return Headed(model, self.head, self.task.seed)
        return Remembering(model, self.form, self.head, self.task.seed)

    def received(self, down: Message) -> Params:
        """The collective memory; zeros before the server has sent one."""
        if self.ablation == "d":
            return {}
        return {
            "collective": torch.tensor(down["memory"]) if down else torch.zeros(self.form.shape)
        }

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy with the memory after this batch; the new memory is stored."""
        if self.ablation == "d":
            return super().objective(net, batch)
        _, logits, states = net(batch.x, batch.extra["collective"], batch.y, batch.mask)
        with torch.no_grad():
            for name, state in states.items():
                net.params[name].copy_(state)
        return batch.cross_entropy(logits)

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Train with the memory; keep the model, and send the long-term memory."""
        trained = yield client.train(self.begin(client, {}), extra=self.received(down))
        client.keep(trained.params)
        return {} if self.silent else {"memory": np.asarray(trained.params["long_term"])}

    def play(self, state: State, session: Session) -> Played:
        """Average as in eq. (16); with aggregation "hopfield" each gets the mean of its group.

        A pattern by class is averaged over the clients that hold the class.
        """
        heard = session.ask()
        if self.silent or not heard:
            return state, {}, {}
        parts = [m["memory"] for m in heard.values()]
        # A pattern without examples is zero; the mean leaves it out.
        held = [(part != 0).any(axis=1) for part in parts] if self.memory == "class" else None
        last = state.get("memory", np.zeros(self.form.shape, np.float32))
        mean = weighted_mean(parts, self._sizes(list(heard)), masks=held, default=last)
        state, down = {**state, "memory": mean}, {EVERYONE: {"memory": mean}}
        if self.aggregation == "mean":
            return state, down, {}
        from hopfed.neural.memory.archetypes import group  # which loads Numba

        state |= {f"of/{c}": m["memory"] for c, m in heard.items()}
        known = sorted(int(name.removeprefix("of/")) for name in state if name.startswith("of/"))
        rows = np.concatenate([state[f"of/{c}"] for c in known])
        weights = np.repeat(self._sizes(known), self.form.patterns)
        groups = group(rows, weights, session.context.derive("archetypes"))
        if groups is None:
            return state, down, {"archetypes": 0}
        means = groups.means.reshape(len(known), *self.form.shape)
        mine = {c: {"memory": own} for c, own in zip(known, means, strict=True)}
        return state, {**down, **mine}, {"archetypes": groups.count}

    def personal(self, client: Client, down: Message) -> Params:  # noqa: ARG002
        """The client's model without the memory."""
        return below(self.begin(client, {}), "model")

    def decide(self, client: Client, down: Message) -> Classifier:
        """The model with the client's last memory and the server's latest collective memory."""
        more = tuple(self.received(down).values())
        return Network(client.net, self.begin(client, {}), more)

    def _count(self) -> int:
        """Number of patterns in a memory."""
        if self.memory == "class":
            return self.loaded.classes
        return self.patterns if self.memory == "sample" else 1

    def _sizes(self, clients: list[int]) -> list[float]:
        return [float(len(self.loaded.split.train[c])) for c in clients]
