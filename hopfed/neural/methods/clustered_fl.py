"""Clustered FL: FedAvg in clusters, which are split when the clients' updates disagree.

Source: theory/NOTES.md, "Baselines". A cluster is split where its mean update is small and some of
its clients' are large: a stationary point of the common loss, but not of each client's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform

from hopfed.federation.contract import EVERYONE, State
from hopfed.federation.messages import Message, below
from hopfed.federation.rounds import Session
from hopfed.neural.averaged import mean_of
from hopfed.neural.method import Answer, Client, Played, pack, setting, unpack
from hopfed.neural.methods.fedavg import FedAvg
from hopfed.neural.training.evaluation import Network
from hopfed.neural.training.task import Params

__all__ = ["ClusteredFL"]

LEAST = 3  # smallest number of clients of a cluster that can be split


@dataclass(frozen=True)
class ClusteredFL(FedAvg, name="clustered-fl", source="Sattler et al., TNNLS 2020"):
    """Clustered federated learning of Sattler et al. (2020).

    A cluster is split if ``|mean update| < tol_1`` and ``max |update| > tol_2``, of the updates
    that arrived in time this round. The other members of a split cluster, and clients that never
    took part, choose the cluster whose model is best on their validation examples: they receive the
    models of all clusters while there is more than one, and every message names its cluster.

    The paper splits where the smallest similarity across the parts is largest, which is single
    linkage, which tends to cut off one client. The authors' program and that of kNN-Per use
    complete linkage, the default here. The paper's test on the norms of the gradients' noise is in
    neither program and not here.

    Attributes
    ----------
    tol_1, tol_2 : as in the programs. They are norms of updates of all weights, and fit one model
        and learning rate: with LeNet on digits nothing is ever split.
    linkage : "complete" or "single".
    """

    tol_1: float = setting(0.4, "at least 0")
    tol_2: float = setting(1.6, "at least 0")
    linkage: str = setting("complete", ("complete", "single"))

    def begin(self, client: Client, down: Message) -> Params:
        return self.choose(client, down)[1]

    def choose(self, client: Client, down: Message) -> tuple[int, Params]:
        """Return number and model of the client's cluster; without one, it chooses the best."""
        if "models" not in down:
            return int(down.get("cluster", 0)), super().begin(client, down)
        models = [unpack(down, f"{k}/model") for k in range(int(down["models"]))]
        return max(enumerate(models), key=lambda model: self._fits(model[1], client))

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        cluster, model = self.choose(client, down)
        trained = yield client.train(model)
        return self.sent(client, trained.params) | {"cluster": np.asarray(cluster)}

    def play(self, state: State, session: Session) -> Played:
        messages = session.ask()
        models, cluster_of = self._server(state)
        for k in range(len(models)):
            heard = {c: m for c, m in messages.items() if int(m["cluster"]) == k}
            timely = [c for c in heard if c not in session.ages]
            cluster_of[timely] = k  # a late message may name a cluster that was split meanwhile
            part = self.parts({c: heard[c] for c in timely}, models[k])
            if part is not None:
                first, second = part
                cluster_of[cluster_of == k] = -1  # clients that sent no update will choose
                cluster_of[first], cluster_of[second] = k, len(models)
                models.append(_mean([heard[c] for c in second]))
                heard = {c: heard[c] for c in first}
            models[k] = _mean(heard.values()) or models[k]
        every = {f"{k}/{n}": a for k, model in enumerate(models) for n, a in model.items()}
        every["models"] = np.asarray(len(models))
        own = [model | {"cluster": np.asarray(k)} for k, model in enumerate(models)]
        down = {EVERYONE: every if len(models) > 1 else own[0]}
        if len(models) > 1:
            down |= {c: own[k] for c, k in enumerate(cluster_of.tolist()) if k >= 0}
        return every | {"cluster_of": cluster_of}, down, {"clusters": len(models)}

    def parts(
        self, messages: Mapping[int, Message], model: Message
    ) -> tuple[list[int], list[int]] | None:
        """Return the two parts of a cluster's participants, or None if it is not split."""
        if len(messages) < LEAST:
            return None
        gram = self._products(messages, model)
        sizes = np.array([float(m["examples"]) for m in messages.values()])
        weights, norms = sizes / sizes.sum(), np.sqrt(gram.diagonal())
        at_rest = np.sqrt(max(weights @ gram @ weights, 0.0)) < self.tol_1
        if not (at_rest and norms.max() > self.tol_2):
            return None
        scale = np.where(norms > 0, norms, 1)
        second = bipartition(gram / np.outer(scale, scale), self.linkage)
        clients = np.array(list(messages))
        return clients[~second].tolist(), clients[second].tolist()

    def _products(self, messages: Mapping[int, Message], model: Message) -> np.ndarray:
        """Inner products of the updates of the weights, (clients, clients)."""
        gram = np.zeros((len(messages), len(messages)))
        for name, _ in self.loaded.model(0).named_parameters():
            moved = [m[f"model/{name}"] - model[f"model/{name}"] for m in messages.values()]
            updates = np.stack([u.ravel() for u in moved]).astype(np.float64)
            gram += updates @ updates.T
        return gram

    def _server(self, state: State) -> tuple[list[Message], np.ndarray]:
        """Models of the clusters, and the cluster of each client, -1 if it is not known."""
        if not state:
            return [pack(self.initial(0))], np.full(len(self.loaded.split), -1)
        models = [below(state, str(k)) for k in range(int(state["models"]))]
        return models, np.array(state["cluster_of"])

    def _fits(self, params: Params, client: Client) -> tuple[float, float]:
        """Accuracy of a model on the client's validation examples, then its log-likelihood."""
        rows = self.loaded.split.validation[client.number]
        seen = Network(client.model, params).embed(self.loaded.tensors, rows)
        logits = seen.logits.astype(np.float64)
        chances = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        right = (logits.argmax(axis=1) == seen.labels).mean()
        return float(right), float(chances[np.arange(len(rows)), seen.labels].mean())


def _mean(messages: Iterable[Message]) -> Message:
    """Mean of the models in messages, by size; empty without messages."""
    sent = [{n: a for n, a in m.items() if n != "cluster"} for m in messages]
    return mean_of(sent) if sent else {}


def bipartition(similarity: np.ndarray, method: str) -> np.ndarray:
    """Divide clients into two parts: bool (n,), True for the second; client 0 is in the first."""
    apart = np.clip(1 - (similarity + similarity.T) / 2, 0, 2)
    np.fill_diagonal(apart, 0)
    part = cut_tree(linkage(squareform(apart), method), n_clusters=2).ravel()
    return np.asarray(part != part[0])
