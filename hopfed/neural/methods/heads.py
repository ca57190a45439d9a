"""Methods that share heads or one vector per class, and keep bodies local; some servers train.

Source: theory/NOTES.md, "Baselines", "FedSSA head aggregation"; arXiv:2312.09006, eqs. (3) to (6).
A message of rows is ``{"labels": (K,), "rows": (K, d)}`` for the K classes that its sender knows,
with ``"counts": (K,)`` of examples if these are weights; FedSSA's rows are the rows of heads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize, one_hot
from torch.optim import SGD, Adam, Optimizer

from hopfed._lib.settings import require
from hopfed.federation.contract import EVERYONE, State
from hopfed.federation.messages import Message
from hopfed.federation.rounds import Session
from hopfed.neural.method import Client, NeuralMethod, Played, above, below, pack, setting, unpack
from hopfed.neural.methods.fedavg import Averaged, mean_of_holders, mean_of_messages
from hopfed.neural.models.networks import seed_weights
from hopfed.neural.training.evaluation import Classifier, Embedded, Network
from hopfed.neural.training.loops import one_thread
from hopfed.neural.training.losses import Batch, Net, masked_mean, squared_distance
from hopfed.neural.training.task import Params, copy_parameters

__all__ = ["FD", "FedClassAvg", "FedGH", "FedGen", "FedProto", "FedSSA", "FedTGP", "LGFedAvg"]

LITERAL = 2  # largest T_stable of FedSSA with the literal sum
FAR = -1e9  # replaces minus infinity, whose gradient would be NaN


@dataclass(frozen=True)
class LGFedAvg(Averaged, name="lg-fedavg", source="Liang et al., 2020", shares="head.", keeps=True):
    """Liang et al. (2020): heads are averaged, bodies stay local; the head is the last layer.

    Attributes
    ----------
    weights : weights of the mean: "size", as in the paper, or "equal".
    scored : model with which a client classifies: "local", its own after training, as in FedSSA's
        paper; or "global", its body with the latest mean head, as in the authors' program.
    """

    weights: str = setting("size", ("size", "equal"))
    scored: str = setting("local", ("local", "global"))

    one_head: ClassVar[bool] = True
    by_record: ClassVar[bool] = True

    @property
    def scored_with(self) -> str:  # type: ignore[override]
        return "all" if self.scored == "global" else ""

    def sent(self, client: Client, params: Params) -> Message:
        message = super().sent(client, params)
        return {n: a for n, a in message.items() if n != "examples" or self.weights == "size"}


@dataclass(frozen=True)
class FedClassAvg(LGFedAvg, name="fedclassavg", source="Jang et al., ICPP 2022"):
    """Jang et al. (2022): ``CE + contrast SupCon + rho / 2 |head - global head|^2``.

    Differences: the paper contrasts two augmented views of every image; here a batch has one view,
    and the positives of an example are the other examples of its class. The authors' program uses
    features of any norm at temperature 100, and the mean of squares in the penalty; here features
    have norm 1, as in Khosla et al. (2020, arXiv:2004.11362), and squares are summed.

    Attributes
    ----------
    rho : strength of the penalty, 0.1 as in the authors' program.
    contrast : weight of the contrastive loss; if `rho` and `contrast` are 0, this is LG-FedAvg.
    temperature : temperature of the contrastive loss.
    """

    rho: float = setting(0.1, "at least 0")
    contrast: float = setting(1.0, "at least 0")
    temperature: float = setting(0.1, "above 0")

    def extra(self, client: Client, first: Params, down: Message) -> Params:
        return {n: t for n, t in first.items() if n.startswith("head.")}

    def objective(self, net: Net, batch: Batch) -> Tensor:
        features, logits = net(batch.x)
        contrast = supervised_contrast(features, batch, self.temperature)
        far = squared_distance(net.params, batch.extra)
        return batch.cross_entropy(logits) + self.contrast * contrast + self.rho / 2 * far


def supervised_contrast(features: Tensor, batch: Batch, temperature: float) -> Tensor:
    """Return a loss for shared heads, within classes (Khosla et al., 2020, eq. (2)), or 0."""
    real = torch.ones_like(features[:, 0]) if batch.mask is None else batch.mask
    z = normalize(features, dim=-1)
    others = real[None, :] * (1 - torch.eye(len(z), dtype=z.dtype, device=z.device))
    similar = torch.where(others > 0, z @ z.T / temperature, FAR)
    log_share = similar - torch.logsumexp(similar, dim=1, keepdim=True)
    alike = others * (batch.y[:, None] == batch.y)
    count = alike.sum(1)
    return masked_mean(-(alike * log_share).sum(1) / count.clamp(min=1), real * (count > 0))


@dataclass(frozen=True)
class FedSSA(NeuralMethod, name="fedssa", source="Yi et al., IJCAI 2024", one_head=True):
    """FedSSA of Yi et al. (IJCAI 2024): head rows are averaged class by class, over their holders.

    A client sends the rows of its head, with biases, for the classes s that it has seen; the server
    averages each over its holders, ``theta^s = mean_k theta_k^s``, eq. (3). In the next round a
    client blends, ``theta_k^s <- theta^s + mu_t theta_k^s``, eq. (4), and trains, eq. (6).

    Decided here: eq. (4) as printed multiplies the rows by prod(1 + mu_t), which costs up to 39
    points with T_stable = 20, so the literal sum is refused above 2. A class without messages this
    round keeps its last global row; a class that was never sent has a zero row, which clients
    ignore. Clients report their seen classes once. The mean is over the clients that answered; a
    client classifies with its own model after training.

    Attributes
    ----------
    fusion : "literal", eq. (4), or "normalised", eq. (4) divided by ``1 + mu_t``.
    mu_0 : in [0, 1]; ``mu_t = mu_0 cos(pi t / (2 T_stable))`` until round T_stable, then 0.
    stable : T_stable in rounds, at most 2 with "literal".
    ablation : "" is the full method. Without aggregation by class all rows are sent and averaged:
        "m1-a" is LG-FedAvg, "m1-b" LG-FedAvg with blending. Without blending the client's head is
        replaced by the global head, "m2-a", or only in its rows of seen classes, "m2-b".
    """

    fusion: str = setting("literal", ("literal", "normalised"))
    mu_0: float = setting(0.5, "in [0, 1]")
    stable: int = setting(2, "at least 1")
    ablation: str = setting("", ("", "m1-a", "m1-b", "m2-a", "m2-b"))

    def __post_init__(self) -> None:
        object.__setattr__(self, "ablation", self.ablation.lower())  # the paper has capitals
        super().__post_init__()
        rule = f"at most {LITERAL} with the literal sum, which grows the head: try normalised"
        require(self.fusion != "literal" or self.stable <= LITERAL, "stable", rule, self.stable)

    def seen(self, client: int) -> np.ndarray:
        """Return the classes among the client's training examples: bool (classes,)."""
        return np.bincount(self.loaded.labels_of(client), minlength=self.loaded.classes) > 0

    def mu(self, t: int) -> float:
        """Return the weight of the client's own rows in round t."""
        if t > self.stable or self.ablation in ("m1-a", "m2-a", "m2-b"):
            return 0.0
        return self.mu_0 * math.cos(math.pi * t / (2 * self.stable))

    def sent(self, client: Client, params: Params) -> Message:
        super().sent(client, params)
        held = self.seen(client.number) | (self.ablation in ("m1-a", "m1-b"))
        return {"rows": np.asarray(_rows(params))[held]}

    def play(self, state: State, session: Session) -> Played:
        heard = session.ask()
        if not heard:
            return state, {}, {}
        held = [state["seen"][c] | (self.ablation in ("m1-a", "m1-b")) for c in heard]
        head = mean_of_holders([m["rows"] for m in heard.values()], held, state["head"])  # eq. (3)
        down = {c: {"rows": head[seen]} for c, seen in enumerate(state["seen"])}
        if self.ablation in ("m1-a", "m2-a"):
            down = {EVERYONE: {"rows": head}}
        return state | {"head": head}, down, {}

    def begin(self, client: Client, down: Message) -> Params:
        params = super().begin(client, down)
        if "rows" not in down:
            return params
        head, rows = _rows(params), torch.tensor(down["rows"])
        read = torch.as_tensor(self.seen(client.number) | (self.ablation in ("m1-a", "m2-a")))
        mu, sent = self.mu(client.context.round), rows.any(dim=1, keepdim=True)
        total = 1 + mu if self.fusion == "normalised" else 1.0
        blend = mu / total * head[read] + rows / total  # eq. (4)
        head[read] = torch.where(sent, blend, head[read])
        width = params["head.weight"].shape[1]
        bias = {"head.bias": head[:, -1].clone()} if head.shape[1] > width else {}
        return params | bias | {"head.weight": head[:, :width].clone()}

    def server_start(self, seed: int) -> State:
        """Return the classes that clients have seen, (clients, classes), and zero rows."""
        super().server_start(seed)
        seen = np.stack([self.seen(c) for c in range(len(self.loaded.split))])
        width = _rows(self.loaded.initial(0)).shape[1]
        return {"seen": seen, "head": np.zeros((self.loaded.classes, width), np.float32)}


def _rows(params: Params) -> Tensor:
    """Return the head as one row per class, (classes, dim + 1), with any bias last."""
    bias = [params["head.bias"][:, None]] if "head.bias" in params else []
    return torch.cat([params["head.weight"], *bias], dim=1)


@dataclass(frozen=True)
class Classwise(NeuralMethod):
    """Base of methods whose clients use and send a mean vector per class, with a counted pass."""

    counted: ClassVar[bool] = False  # whether messages hold the number of examples of each row

    @property
    def length(self) -> int:
        """Length of a row."""
        return self.loaded.feature_dim

    def values(self, seen: Embedded) -> np.ndarray:
        """Features of the examples `seen`, of which a row is the mean: (n, d)."""
        return seen.features

    def extra(self, client: Client, first: Params, down: Message) -> Params:
        rows, counts = self.table(down)
        return {"rows": torch.as_tensor(rows), "known": torch.as_tensor(np.float32(counts > 0))}

    def sent(self, client: Client, params: Params) -> Message:
        super().sent(client, params)
        seen = client.look(params, client.rows)
        held, where, counts = np.unique(client.labels, return_inverse=True, return_counts=True)
        sums = np.equal.outer(range(len(held)), where) @ self.values(seen).astype(np.float64)
        means = (sums / counts[:, None]).astype(np.float32)
        more = {"counts": counts.astype(np.int32)} if self.counted else {}
        return {"labels": held.astype(np.int32), "rows": means} | more

    def table(self, message: Message) -> tuple[np.ndarray, np.ndarray]:
        """Return rows (classes, d) of a message, and the examples (classes,) of each, default 1."""
        classes = self.loaded.classes
        rows, counts = np.zeros((classes, self.length), np.float32), np.zeros(classes)
        if "labels" in message:
            labels, held = np.asarray(message["labels"]), message.get("counts", 1)
            there = (labels >= 0) & (labels < classes)
            rows[labels[there]] = np.asarray(message["rows"])[there]
            counts[labels[there]] = np.broadcast_to(np.maximum(held, 0), labels.shape)[there]
        return rows, counts

    def means(self, messages: Iterable[Message]) -> tuple[np.ndarray, np.ndarray]:
        """Return mean rows (classes, d) of messages, weighted by examples; examples (classes,)."""
        total, counts = np.zeros((self.loaded.classes, self.length)), np.zeros(self.loaded.classes)
        for rows, number in map(self.table, messages):
            total += number[:, None] * rows
            counts += number
        return (total / np.maximum(counts, 1)[:, None]).astype(np.float32), counts


def pack_class_rows(rows: np.ndarray, known: np.ndarray) -> Message:
    """Return a message of rows (classes, d), in place of heads, of `known` classes, with labels."""
    held = np.flatnonzero(known)
    return {"labels": held.astype(np.int32), "rows": rows[held]}


@dataclass(frozen=True)
class Prototypical(Classwise):
    """Base of methods that pull features to prototypes of a server: CE + lam ||z - C_y||^2 / d."""

    lam: float = setting(1.0, "at least 0")
    nearest: bool = False

    def fetches(self, known: bool) -> bool:
        return self.nearest  # else prototypes are used only in training

    def server_start(self, seed: int) -> State:
        super().server_start(seed)
        return pack_class_rows(*self.table({}))

    def objective(self, net: Net, batch: Batch) -> Tensor:
        features, logits = net(batch.x)
        far = ((features - batch.extra["rows"][batch.y]) ** 2).mean(dim=1)
        penalty = batch.mean(far * batch.extra["known"][batch.y])  # 0 for a class without prototype
        return batch.cross_entropy(logits) + self.lam * penalty

    def decide(self, client: Client, down: Message) -> Classifier:
        if not self.nearest or not len(down.get("labels", ())):
            return super().decide(client, down)
        network = Network(client.model, self.personal(client, down))
        rows, known = map(torch.as_tensor, self.table(down))

        def scores(x: Tensor) -> Tensor:  # negative distances, infinite without a prototype
            features = network.outputs(x)[0]
            far = torch.cdist(features, rows.to(features))
            return (-far).masked_fill(known.to(far) == 0, -torch.inf)

        return scores


@dataclass(frozen=True)
class FedProto(Prototypical, name="fedproto", source="Tan et al., AAAI 2022"):
    """Tan et al. (2022): cross-entropy + lam ||z - C_y||^2 / d.

    A client's prototypes are the mean features z of its classes; the server's prototypes C are the
    means over the clients with that class. A class without messages this round keeps its last
    prototype; a class that was never sent has no penalty. The squared distance is divided by the
    feature length d, as in the authors' program.

    Attributes
    ----------
    lam : strength of the penalty; 0 is Standalone.
    weights : weights of the mean over clients: "equal", as in the authors' program; or "size", by
        examples of the class, as in the paper's eq. (6) without its second division by the number
        of clients (arXiv:2105.00243), which the program omits, too.
    nearest : classify by the nearest prototype, as in the paper, instead of by the head.
    """

    weights: str = setting("equal", ("size", "equal"))

    @property
    def counted(self) -> bool:  # type: ignore[override]
        """Whether messages hold numbers of examples, as weights."""
        return self.weights == "size"

    def play(self, state: State, session: Session) -> Played:
        rows, counts = self.means(session.ask().values())
        before, known = self.table(state)
        rows = np.where(counts[:, None] > 0, rows, before)
        prototypes = pack_class_rows(rows, counts + known)
        return prototypes, {EVERYONE: prototypes}, {}


@dataclass(frozen=True)
class FD(Classwise, name="fd", source="Jeong et al., 2018"):
    """Jeong et al. (2018), federated distillation: cross-entropy + lam CE(t_y, softmax).

    For each of its classes, a client sends the mean softmax output over its examples after
    training; in the paper, during training. For a class of several clients, the target t_y is the
    mean of the outputs that the *other* clients sent; absent clients get the mean over all.

    Attributes
    ----------
    lam : weight of the soft labels; 0 is Standalone.
    """

    lam: float = setting(1.0, "at least 0")

    @property
    def length(self) -> int:
        return self.loaded.classes

    def objective(self, net: Net, batch: Batch) -> Tensor:
        _, logits = net(batch.x)
        soft = -(batch.extra["rows"][batch.y] * logits.log_softmax(dim=1)).sum(dim=1)
        taught = batch.mean(soft * batch.extra["known"][batch.y])
        return batch.cross_entropy(logits) + self.lam * taught

    def values(self, seen: Embedded) -> np.ndarray:
        return np.asarray(softmax(seen.logits, axis=1))

    def play(self, state: State, session: Session) -> Played:
        heard = session.ask()
        rows, counts = self.means(heard.values())
        down = {EVERYONE: pack_class_rows(rows, counts)}
        for c, own in heard.items():
            rows, counts = self.means(m for other, m in heard.items() if other != c)
            down[c] = pack_class_rows(rows, counts * self.table(own)[1])
        return state, down, {}


@dataclass(frozen=True)
class FedGH(Classwise, name="fedgh", source="Yi et al., ACM MM 2023", opens="head.", one_head=True):
    """Yi et al. (2023): the server trains a head on the mean features of clients' classes.

    A client replaces its head by the global head, trains its model, with which it classifies, and
    sends the mean features of each of its classes. On each of them, client by client and class by
    class, the server takes a step of gradient descent on the head's cross-entropy.

    Attributes
    ----------
    head_lr : learning rate of the server; 0.01 as in HtFLlib and the authors' program, where the
        optimizer of another network takes the step, so that the head never moves.
    """

    head_lr: float = setting(0.01, "above 0")

    def play(self, state: State, session: Session) -> Played:
        head = dict(state) or pack({n: t for n, t in self.initial(0).items() if n[:5] == "head."})
        W, b = "model/head.weight", "model/head.bias"
        for rows, known in map(self.table, session.ask().values()):
            for y in np.flatnonzero(known):
                z = rows[y][: head[W].shape[1]]
                truth = np.eye(len(known), dtype=np.float32)[y]
                slope = softmax(head[W] @ z + head.get(b, 0.0)) - truth
                steps = {W: np.outer(slope, z), b: slope}
                head = {n: a - self.head_lr * steps[n] for n, a in head.items()}
        head = {n: np.asarray(a, np.float32) for n, a in head.items()}
        return head, {EVERYONE: head}, {}


def descend_loss(params: Params, optimizer: Optimizer, steps: Iterable[Any], loss: Any) -> Params:
    """Return a server's parameters, for heads or class vectors, after a step on each batch."""
    with one_thread():
        for batch in steps:
            optimizer.zero_grad()
            loss(*batch).backward()
            optimizer.step()
    return {n: t.detach() for n, t in params.items()}


def apply_two_layers(params: Params, x: Tensor) -> Tensor:
    """Return the output of a server's two layers, ReLU between, for heads or class vectors."""
    hidden = (x @ params["0.weight"].T + params["0.bias"]).relu()
    return hidden @ params["2.weight"].T + params["2.bias"]


@dataclass(frozen=True)
class FedTGP(Prototypical, name="fedtgp", source="Zhang et al., AAAI 2024"):
    """Zhang et al. (2024): FedProto with prototypes that the server trains with adaptive margins.

    The server's prototypes are the outputs of a network with one hidden layer of d units for one
    learned vector per class, trained on the clients' mean features z by ``CE(softmax(-|z - C_s| -
    margin [s = y]), y)``, in batches of the clients' batch size. The margin is the largest distance
    between two classes' means over the clients, at most `margin`.

    Attributes
    ----------
    lam : strength of the penalty, 0.1 as in the paper (1 in the authors' program); 0 is Standalone.
    nearest : classify by the nearest prototype instead of by the head.
    margin : largest margin, tau in the paper, which has 100.
    margins : the margin is the largest distance of a class to the "farthest" class, as in the
        paper, or to the "nearest" class, as in the authors' program.
    passes : passes over the rows in a round, 100 as in the paper (1000 in the program).
    prototype_lr : learning rate of the server's plain gradient descent (0.005 in the program).
    """

    lam: float = setting(0.1, "at least 0")
    margin: float = setting(100.0, "at least 0")
    margins: str = setting("farthest", ("farthest", "nearest"))
    passes: int = setting(100, "at least 1")
    prototype_lr: float = setting(0.01, "above 0")

    def first(self) -> Params:
        """Return initial prototypes: vectors ``points`` and two layers ``net``."""
        d = self.length
        with seed_weights(self.task.seed, "prototypes"):
            net = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
            points = torch.randn(self.loaded.classes, d)
        return {"points": points} | above(copy_parameters(net), "net")

    def play(self, state: State, session: Session) -> Played:
        sent = [self.table(message) for message in session.ask().values()]
        known = np.any([self.table(state)[1], *(c for _, c in sent)], axis=0)
        params = unpack(state, "server") or self.first()
        if sent:
            z = torch.as_tensor(np.concatenate([rows[held > 0] for rows, held in sent]))
            y = torch.as_tensor(np.concatenate([np.flatnonzero(held) for _, held in sent]))
            params = self.trained(params, z, y, session.context.rng("prototypes"))
        prototypes = apply_two_layers(below(params, "net"), params["points"]).numpy()
        down = pack_class_rows(prototypes, known)  # of all classes that were sent so far
        return down | pack(params, "server"), {EVERYONE: down}, {}

    def trained(self, params: Params, z: Tensor, y: Tensor, rng: np.random.Generator) -> Params:
        """Return prototypes trained on rows z (n, d) of classes y (n,), in orders of `rng`."""
        means = torch.stack([z[y == s].mean(0) for s in y.unique()])
        apart = torch.cdist(means, means)
        if self.margins == "nearest" and len(means) > 1:
            apart = apart.fill_diagonal_(torch.inf).min(0).values
        margin = min(float(apart.max()), self.margin)
        params = {n: t.requires_grad_() for n, t in params.items()}

        def loss(at: Tensor) -> Tensor:
            far = torch.cdist(z[at], apply_two_layers(below(params, "net"), params["points"]))
            far = far + margin * one_hot(y[at], far.shape[1])
            return cross_entropy(-far, y[at])

        orders = (torch.as_tensor(rng.permutation(len(z))) for _ in range(self.passes))
        steps = ((at,) for order in orders for at in order.split(self.training.batch))
        return descend_loss(params, SGD(params.values(), lr=self.prototype_lr), steps, loss)


@dataclass(frozen=True)
class FedGen(LGFedAvg, name="fedgen", source="Zhu et al., ICML 2021"):
    """Zhu et al. (2021): a generator of features by label, trained at the server, teaches clients.

    Clients share heads, the paper's variant that sends no models, and report their numbers
    of examples of each label. The server trains the generator z = G(y, e), with labels y in these
    proportions, normal e and one hidden layer, by Adam on the cross-entropy of the mean logits of
    the clients' heads, plus ``diversity exp(-mean(|z - z'| |e - e'|^2))`` over pairs, with means
    over the entries. A client adds ``lam CE(head(z), y)`` over new z in each round but the first.

    Attributes
    ----------
    weights, scored : see LG-FedAvg.
    lam : weight of the loss on generated features, 1 as in the paper; 0 is LG-FedAvg.
    diversity : weight of the term that keeps G from ignoring e.
    latent, hidden : length of e, and units of the hidden layer.
    draws : number of features generated for a client's loss, and for a step of G.
    passes : steps of G in a round.
    generator_lr : learning rate of G; like the sizes and `passes`, as in the authors' program for
        MNIST, where the weight of generated features falls from 10.
    """

    lam: float = setting(1.0, "at least 0")
    diversity: float = setting(1.0, "at least 0")
    latent: int = setting(32, "at least 1")
    hidden: int = setting(256, "at least 1")
    draws: int = setting(32, "at least 1")
    passes: int = setting(50, "at least 1")
    generator_lr: float = setting(3e-4, "above 0")

    def first(self) -> Params:
        """Return the initial generator: layers that read the label and the noise."""
        wide = self.loaded.model(0).head.in_features
        with seed_weights(self.task.seed, "generator"):
            read = nn.Linear(self.loaded.classes + self.latent, self.hidden)
            return copy_parameters(nn.Sequential(read, nn.ReLU(), nn.Linear(self.hidden, wide)))

    def drawn(self, counts: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Draw labels (n,) in the proportions of `counts`, and noise (n, latent), by `rng`."""
        y = rng.choice(len(counts), self.draws, p=counts / counts.sum())
        noise = rng.standard_normal((self.draws, self.latent), dtype=np.float32)
        return torch.as_tensor(y), torch.as_tensor(noise)

    def generated(self, params: Params, y: Tensor, noise: Tensor) -> Tensor:
        """Return features (n, d) of labels y and noise, by the generator's `params`."""
        return apply_two_layers(params, torch.cat([one_hot(y, self.loaded.classes), noise], dim=1))

    def extra(self, client: Client, first: Params, down: Message) -> Params:
        generator = unpack(down, "generator")
        if not generator or not self.lam:
            return {}
        y, noise = self.drawn(down["labels"], client.context.rng("draws"))
        return {"y": y, "z": self.generated(generator, y, noise)}

    def sent(self, client: Client, params: Params) -> Message:
        counts = np.bincount(client.labels, minlength=self.loaded.classes).astype(np.int32)
        return super().sent(client, params) | {"labels": counts}

    def objective(self, net: Net, batch: Batch) -> Tensor:
        loss, more = super().objective(net, batch), batch.extra
        if not more:
            return loss
        logits = more["z"] @ net.params["head.weight"].T + net.params.get("head.bias", 0.0)
        return loss - self.lam * logits.log_softmax(dim=1).gather(1, more["y"][:, None]).mean()

    def play(self, state: State, session: Session) -> Played:
        heard = session.ask()
        if not heard:
            return state, {EVERYONE: state}, {}
        heads = [{n: a for n, a in m.items() if n != "labels"} for m in heard.values()]
        counts = np.sum([np.maximum(m["labels"], 0) for m in heard.values()], axis=0)
        generator = unpack(state, "generator") or self.first()
        if self.lam and counts.sum():
            plain = mean_of_messages(pack(unpack(head)) for head in heads)  # without sizes
            rng = session.context.rng("generator")
            generator = self.trained(generator, unpack(plain), counts, rng)
        after = mean_of_messages(heads) | pack(generator, "generator") | {"labels": counts}
        return after, {EVERYONE: after}, {}

    def trained(
        self, params: Params, head: Params, counts: np.ndarray, rng: np.random.Generator
    ) -> Params:
        """Return the generator trained on a mean `head`; `rng` draws labels, by their `counts`."""
        params = {n: t.requires_grad_() for n, t in params.items()}

        def loss(y: Tensor, noise: Tensor) -> Tensor:
            z = self.generated(params, y, noise)
            logits = z @ head["head.weight"].T + head.get("head.bias", 0.0)
            far = (z[:, None] - z).abs().mean(2) * (noise[:, None] - noise).square().mean(2)
            return cross_entropy(logits, y) + self.diversity * (-far.mean()).exp()

        steps = (self.drawn(counts, rng) for _ in range(self.passes))
        return descend_loss(params, Adam(params.values(), lr=self.generator_lr), steps, loss)
