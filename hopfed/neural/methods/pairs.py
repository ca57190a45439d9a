"""Methods in which each client has its own model, and a shared part that the server averages.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import normalize

from hopfed._lib.settings import require
from hopfed.federation.contract import EVERYONE, Context, State
from hopfed.federation.messages import Message, Spec
from hopfed.federation.messages import part_of as inside
from hopfed.federation.rounds import Session
from hopfed.neural.data.tensors import Tensors
from hopfed.neural.method import Answer, Client, Played, above, below, pack, setting, unpack
from hopfed.neural.methods.fedavg import FedAvg, mean_of_holders, mean_of_messages
from hopfed.neural.models import Model
from hopfed.neural.models.networks import check_name, seed_weights
from hopfed.neural.training.job import Job, forward_flops, forward_of, move_beside
from hopfed.neural.training.loops import one_thread
from hopfed.neural.training.losses import Batch, Net, squared_distance
from hopfed.neural.training.task import Params

__all__ = ["APFL", "FML", "Ditto", "FedKD", "FedMRL", "FedRAL", "PFedES"]


class Parts(nn.Module):
    """Parts of a client's module, and the function (module, inputs) that it computes."""

    def __init__(self, function: Callable[..., Any], **parts: nn.Module | nn.Parameter):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: Any) -> Any:
        """Return the value of the function at the inputs."""
        return self.function(self, *inputs)


def run_both_models(net: Any, x: Tensor) -> Any:
    """Return (features, logits) of both models of a pair, the own and the shared one."""
    own, shared = net.own.features(x), net.shared.features(x)
    return (own, net.own.head(own)), (shared, net.shared.head(shared))


@dataclass(frozen=True)
class TwoPartMethod(FedAvg, same_model=False, shares="shared.", part="own", scored_with=""):
    """Base of methods with two parts: ``own``, a client's model, and ``shared``, averaged."""


@dataclass(frozen=True)
class TwinMethod(TwoPartMethod, same_model=True, trains_first=True):
    """Base of methods with two parts of one architecture; ``own`` starts as the first ``shared``.

    A client that never took part trains its own part for the epochs of a round.
    """

    def wrap(self, model: Model) -> nn.Module:
        return Parts(run_both_models, own=deepcopy(model), shared=deepcopy(model))

    def begin(self, client: Client, down: Message) -> Params:
        found = super().begin(client, down)
        return found | ({} if client.state else above(below(found, "shared"), "own"))


@dataclass(frozen=True)
class Ditto(TwinMethod, name="ditto", source="Li et al., ICML 2021", scored_with="new"):
    """Li et al. (2021): each client keeps ``v = argmin CE(v) + lam / 2 |v - w|^2``.

    w is the received global model, before this round's training and averaging. Both models use the
    same batches; w equals FedAvg's model to the bit, and with ``lam = 0`` v equals Standalone's.
    Decided here: v is trained for as many epochs as w, and starts as the first w.

    Attributes
    ----------
    lam : strength of the penalty.
    """

    lam: float = setting(1.0, "at least 0")

    def extra(self, client: Client, first: Params, down: Message) -> Params:
        return {f"own.{n}": first[f"shared.{n}"] for n, _ in client.model.named_parameters()}

    def objective(self, net: Net, batch: Batch) -> Tensor:
        (_, own), (_, shared) = net(batch.x)
        far = squared_distance(net.params, batch.extra)
        return batch.cross_entropy(own) + batch.cross_entropy(shared) + self.lam / 2 * far


@dataclass(frozen=True)
class APFL(TwinMethod, name="apfl", source="Deng et al., 2020", scored_with="all"):
    """Deng et al. (2020): a client classifies by ``alpha v + (1 - alpha) w``.

    On each batch the global model w takes FedAvg's step, and the local model v a step along alpha
    times the gradient g of the mixture's loss. alpha takes a step along ``<v - w, g>``, and
    stays in [0, 1]. The server averages w; v and alpha stay with the client.

    The paper's Algorithm 1 and its authors' program move alpha once a round; other programs move
    alpha on every batch, where it soon is 0, which is FedAvg. Decided here: alpha takes one step of
    `Training.lr` on the round's first batch, or a step of the optimizer on every batch. v starts
    as the first w. Running statistics belong to the mixture.

    Attributes
    ----------
    alpha : initial weight of the local model.
    learn : whether alpha is learned. If not, 0 is FedAvg and 1 is Standalone, to the bit.
    moves : "round" or "batch", the time of a step of alpha.
    """

    alpha: float = setting(0.5, "in [0, 1]")
    learn: bool = True
    moves: str = setting("round", ("round", "batch"))

    def wrap(self, model: Model) -> nn.Module:
        alpha = nn.Parameter(torch.full((1,), float(self.alpha)))
        return Parts(run_both_models, own=deepcopy(model), shared=deepcopy(model), alpha=alpha)

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        still = not self.learn or self.moves == "round"
        job = client.train(self.begin(client, down), frozen=("alpha",) if still else ())
        rows = min(job.training.batch, len(job.rows))
        if self.learn and self.moves == "round" and job.training.epochs and rows:
            self._move_alpha(job, client.task.tensors)
            client.flops += 4 * rows * forward_flops(self.task, client.task.names[client.number])
        params = (yield job).params
        return self.sent(client, {**params, "alpha": params["alpha"].clamp(0, 1)})

    def _move_alpha(self, job: Job, data: Tensors) -> None:
        """Move alpha on the first batch; costs forward and backward passes of both models."""
        x, y = data.batch(data.rows(job.steps()[0]))
        params = move_beside(job.params, job.net)
        alpha = params["alpha"].requires_grad_()
        with one_thread():
            net = Net(forward_of(job.net.eval()), params | {"alpha": alpha})
            (slope,) = torch.autograd.grad(self.objective(net, Batch(x, y, None, {})), [alpha])
        moved = (alpha - job.training.lr * slope).detach().cpu().clamp(0, 1)
        job.params = job.params | {"alpha": moved}

    def objective(self, net: Net, batch: Batch) -> Tensor:
        raw = net.params["alpha"]
        alpha = raw + (raw.clamp(0, 1) - raw).detach()  # clipped, but with gradient 1
        shared = {n: w.detach() for n, w in below(net.params, "shared").items()}  # has its own loss
        mixture = self.mixture(below(net.params, "own"), shared, alpha)
        (_, mixed), (_, alone) = net.with_(above(mixture, "own"))(batch.x)
        return batch.cross_entropy(alone) + batch.cross_entropy(mixed)

    def personal(self, client: Client, down: Message) -> Params:
        found = self.begin(client, down)
        return self.mixture(below(found, "own"), below(found, "shared"), found["alpha"])

    def mixture(self, own: Params, shared: Params, alpha: Tensor) -> Params:
        """Return ``alpha v + (1 - alpha) w`` of the weights, with the buffers of v."""
        weights = (n for n, _ in self.loaded.model(0).named_parameters())
        return own | {n: (1 - alpha) * shared[n] + alpha * own[n] for n in weights}


@dataclass(frozen=True)
class ProxyMethod(TwoPartMethod):
    """Base of methods whose shared part is a small model.

    Attributes
    ----------
    proxy : architecture of the small model; published tables use the smallest of FedSSA.
    """

    proxy: str = "cnn-5"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.proxy, "proxy")

    def wrap(self, model: Model) -> nn.Module:
        return Parts(run_both_models, own=model, shared=self.loaded.build(self.proxy, "proxy"))


@dataclass(frozen=True)
class FML(ProxyMethod, name="fml", source="Shen et al., 2020"):
    """Shen et al. (2020): own and small shared model learn from each other (mutual learning).

    The own model minimises ``(1 - weight) CE + weight KL(p_shared || p_own)``, and the shared model
    ``(1 - weight_shared) CE + weight_shared KL(p_own || p_shared)``, without a gradient into the
    teaching model. Clients classify with their own models.

    Attributes
    ----------
    weight, weight_shared : 1 - alpha and 1 - beta in the paper; with a weight of 0 the own model is
        Standalone's.
    """

    weight: float = setting(0.5, "in [0, 1]")
    weight_shared: float = setting(0.5, "in [0, 1]")

    def objective(self, net: Net, batch: Batch) -> Tensor:
        (_, own), (_, shared) = net(batch.x)

        def loss(logits: Tensor, teacher: Tensor, weight: float) -> Tensor:
            lesson = batch.divergence(logits, teacher)
            return (1 - weight) * batch.cross_entropy(logits) + weight * lesson

        return loss(own, shared, self.weight) + loss(shared, own, self.weight_shared)


@dataclass(frozen=True)
class FedMRL(ProxyMethod, name="fedmrl", source="Yi et al., NeurIPS 2024", keeps=True, whole=True):
    """Yi et al. (2024): two heads of nested width read a projection of own and shared features.

    The loss is the sum of both cross-entropies. The small model, extractor and head, is shared; the
    projector stays with the client. A client classifies with its own head and its last trained copy
    of the small model, which fits the projector; the authors' programs do the same. Unlike in the
    paper, the small model may have any width, because only its head must be narrow.

    Attributes
    ----------
    width : number of coordinates of the projection that the shared head reads; 0 is half of the
        smallest feature dimension of a client.
    """

    width: int = setting(0, "at least 0")

    def wrap(self, model: Model) -> nn.Module:
        small = self.loaded.build(self.proxy, "proxy")
        lengths = [model.feature_dim for model in self.loaded.templates.values()]
        rule = f"at most {min(lengths)}, the smallest feature dimension of a client"
        require(self.width <= min(lengths), "width", rule, self.width)
        with seed_weights(self.task.seed, "matryoshka"):
            width = self.width or max(1, round(min(lengths) / 2))
            head = nn.Linear(width, self.loaded.classes)
            projector = nn.Linear(model.feature_dim + small.feature_dim, model.feature_dim)
        shared = Model(small.features, head, small.feature_dim)

        def logits(net: Any, x: Tensor) -> tuple[Tensor, Tensor]:  # of the shared and the own head
            fused = net.projector(torch.cat([net.shared.features(x), net.own.features(x)], dim=1))
            return net.shared.head(fused[:, :width]), net.own.head(fused)

        return Parts(logits, own=model, shared=shared, projector=projector)

    def objective(self, net: Net, batch: Batch) -> Tensor:
        shared, own = net(batch.x)
        return batch.cross_entropy(own) + batch.cross_entropy(shared)


MATRIX = "shared.weight"  # name of the matrix in FedRAL's module
SENT = f"model/{MATRIX}"  # name of the matrix in messages


@dataclass(frozen=True)
class FedRAL(
    TwoPartMethod, name="fedral", source="Yi et al., ICCV 2025 (abstract)", keeps=True, whole=True
):
    """Yi et al. (2025): a shared square matrix rotates the features; built from the abstract.

    According to the abstract, every client's model contains a square matrix of the same shape,
    which learns the angles of the representations; clients with fewer resources send a matrix that
    is sparse around its diagonal; the server takes weighted means entry by entry. The text is not
    public. Decided here: the matrix A (d, d) stands between extractor and head, starts as the
    identity, and changes the direction of a feature vector but not its length. A client keeps,
    trains and sends the entries with |i - j| at most ``ceil(share (d - 1))``; an entry without
    messages keeps its value. The server sends the whole matrix. A client classifies with its own
    trained copy.

    Attributes
    ----------
    least, levels : clients take one of `levels` levels of resources in turn. The first level has
        all diagonals, the last level the share `least` of them; the others are evenly spaced.
    """

    least: float = setting(0.2, "in [0, 1]")
    levels: int = setting(5, "at least 1")

    opens = ()

    def server_start(self, seed: int) -> State:
        super().server_start(seed)
        return {SENT: np.eye(self.loaded.feature_dim, dtype=np.float32)}

    def wrap(self, model: Model) -> nn.Module:
        d = model.feature_dim
        matrix = nn.utils.skip_init(nn.Linear, d, d, bias=False)
        nn.init.eye_(matrix.weight)

        def rotated(net: Any, x: Tensor) -> tuple[Tensor, Tensor]:  # features, and their logits
            z = net.own.features(x)
            found = normalize(net.shared(z), dim=1) * z.norm(dim=1, keepdim=True)
            return found, net.own.head(found)

        return Parts(rotated, own=model, shared=matrix)

    def band(self, client: int) -> np.ndarray:
        """Return the entries that a client has: bool (d, d)."""
        d = self.loaded.feature_dim
        share = np.linspace(1.0, self.least, self.levels)[client % self.levels]
        far = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
        return np.asarray(far <= ceil(share * (d - 1)))

    def begin(self, client: Client, down: Message) -> Params:
        params = super().begin(client, down)
        return params | {MATRIX: params[MATRIX] * torch.as_tensor(self.band(client.number))}

    def extra(self, client: Client, first: Params, down: Message) -> Params:
        return {"band": torch.as_tensor(self.band(client.number), dtype=torch.float32)}

    def objective(self, net: Net, batch: Batch) -> Tensor:
        banded = {MATRIX: net.params[MATRIX] * batch.extra["band"]}
        return batch.cross_entropy(net.with_(banded)(batch.x)[1])

    def sent(self, client: Client, params: Params) -> Message:
        message = super().sent(client, params)
        return message | {SENT: message[SENT][self.band(client.number)]}

    def play(self, state: State, session: Session) -> Played:
        heard = session.ask()
        if not heard:
            return state, {}, {}
        sent, sizes = zip(*((m[SENT], float(m["examples"])) for m in heard.values()), strict=True)
        new = {SENT: mean_of_holders(sent, [self.band(c) for c in heard], state[SENT], sizes)}
        return new, {EVERYONE: new}, {}


@dataclass(frozen=True)
class PFedES(TwoPartMethod, name="pfedes", source="Yi et al., AAAI 2025 (and its program)"):
    """Yi et al. (2025): a small shared extractor before each client's model, trained in turn.

    Details follow the authors' program. The extractor G has two 3 x 3 convolutions, each with
    ReLU, from the image's channels to `kernels` and back. A round has two phases of equal epochs
    (the program's second has 10 more): with G frozen, the model F minimises ``(1 - mu) CE(F(x)) +
    mu CE(F(G(x)))``; with F frozen, G minimises ``CE(F(G(x)))``. The server averages G; a client
    classifies with F alone. Running statistics of F come from plain images.

    Attributes
    ----------
    mu : weight of the extracted images in the loss of the model; 0 is Standalone.
    kernels : number of channels between the two convolutions.
    """

    mu: float = setting(0.5, "in [0, 1]")
    kernels: int = setting(8, "at least 1")

    def wrap(self, model: Model) -> nn.Module:
        data, channels = self.loaded.split.dataset, self.loaded.split.dataset.shape[0]
        require(data.is_images, "data", "images for pfedes", self.task.data)
        with seed_weights(self.task.seed, "extractor"):
            there = nn.Conv2d(channels, self.kernels, 3, padding=1)
            back = nn.Conv2d(self.kernels, channels, 3, padding=1)
        parts = {"own": model, "shared": nn.Sequential(there, nn.ReLU(), back, nn.ReLU())}
        return Parts(lambda net, x, out: net.own(net.shared(x) if out else x), **parts)

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        own = yield client.train(self.begin(client, down), frozen=("shared.",))
        epochs = self.training.epochs
        both = yield client.train(own.params, self.through, epochs=epochs, frozen=("own.",))
        return self.sent(client, both.params)

    def objective(self, net: Net, batch: Batch) -> Tensor:
        plain = batch.cross_entropy(net(batch.x, False))
        return (1 - self.mu) * plain + self.mu * self.through(net, batch)

    def through(self, net: Net, batch: Batch) -> Tensor:
        """Return the cross-entropy on extracted images; running statistics do not change."""
        buffers = {f"own.{n}" for m in self.loaded.templates.values() for n, _ in m.named_buffers()}
        own = {n: net.params[n].clone() for n in buffers & net.params.keys()}
        return batch.cross_entropy(net.with_(own)(batch.x, True))


LEAST = 0.1  # lower bound of the divisor CE_own + CE_shared


@dataclass(frozen=True)
class FedKD(ProxyMethod, name="fedkd", source="Wu et al., Nature Communications 2022"):
    """Wu et al. (2022): a local mentor and a small shared mentee.

    Each model minimises ``CE + weight (KL + MSE) / (CE_own + CE_shared)``, with the KL divergence
    from the outputs of the other model, and the MSE between the own and the shared features, which
    a matrix W_h maps; it stays with the client. No gradient flows into the teaching model or the
    divisor; W_h is trained with the mentee. The divisor is at least 0.1. The paper has no bound,
    but a client that fits its examples would divide by almost 0 (3 of 40 rounds of one-class
    clients on digits ended in NaN).

    Clients and server send updates. Each tensor, as a matrix (first axis, all other axes), is
    truncated to the leading singular directions that hold the share `energy` of its squares. The
    server applies exactly the truncated mean that it sends, so that all models are equal; a client
    that missed a broadcast gets the whole model. The share rises linearly from `start` to `end`;
    the server counts only rounds with at least one message.

    Attributes
    ----------
    weight : weight of distillation; 0 is Standalone.
    start, end : kept share of the squares in the first and in the last round.
    rounds : number of rounds over which the share rises.
    """

    weight: float = setting(1.0, "at least 0")
    start: float = setting(0.95, "in (0, 1]")
    end: float = setting(0.98, "in (0, 1]")
    rounds: int = setting(20, "at least 1")

    def energy(self, round_: int) -> float:
        """Return the kept share of the squares in round `round_`, counted from 0."""
        return self.start + min(round_ / max(self.rounds - 1, 1), 1.0) * (self.end - self.start)

    def wrap(self, model: Model) -> nn.Module:
        small = self.loaded.build(self.proxy, "proxy")
        match = nn.Parameter(torch.eye(model.feature_dim, small.feature_dim))

        def matched(net: Any, x: Tensor) -> Any:
            own, (features, logits) = run_both_models(net, x)
            return own, (functional.linear(features, net.match), logits)

        return Parts(matched, own=model, shared=small, match=match)

    def objective(self, net: Net, batch: Batch) -> Tensor:
        (mentor, own), (mentee, shared) = net(batch.x)
        loss = batch.cross_entropy(own) + batch.cross_entropy(shared)

        def lesson(features: Tensor, logits: Tensor, other: Tensor, teacher: Tensor) -> Tensor:
            far = ((features - other.detach()) ** 2).mean(dim=1)
            return batch.divergence(logits, teacher) + batch.mean(far)

        lessons = lesson(mentor, own, mentee, shared) + lesson(mentee, shared, mentor, own)
        return loss + self.weight * lessons / loss.detach().clamp(min=LEAST)

    def begin(self, client: Client, down: Message) -> Params:
        shared = unpack(pack(self._received(client, down)))
        return super().begin(client, {}) | above(shared, "shared")

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        base, version = self._received(client, down), np.asarray(down.get("version", 0))
        trained = yield client.train(self.begin(client, down))
        whole = self.sent(client, trained.params)
        client.state = client.state | pack(base, "base")
        update = {n: whole[f"model/shared.{n}"] - array for n, array in base.items()}
        message = pack(truncate_update(update, self.energy(int(version))), "update")
        return message | {"version": version, "examples": whole["examples"]}

    def expects(self, down: Message, context: Context) -> Spec:
        due = super().expects(down, context)  # with any number of directions
        wide = {n: f.shape[1:] for n, f in due.items() if f.shape[1:]}
        return {**due, **{n: replace(due[n], shape=(None, *s)) for n, s in wide.items()}}

    def play(self, state: State, session: Session) -> Played:
        heard = session.ask()
        if not heard:
            return state, {}, {}
        version, model = int(state.get("version", 0)), inside(state, "model") or self._first()
        sent = ((inside(m, "update"), m["examples"]) for m in heard.values())
        updates = ({**expand_update(update, model), "examples": n} for update, n in sent)
        step = truncate_update(mean_of_messages(updates), self.energy(version))
        new = {"version": np.asarray(version + 1)}
        whole = new | pack(add_step(model, step))
        current = [c for c, m in heard.items() if int(m["version"]) == version]
        return whole, {EVERYONE: whole} | dict.fromkeys(current, new | pack(step, "update")), {}

    def _received(self, client: Client, down: Message) -> Message:
        """Return the server's shared model, reconstructed from a message to the client."""
        if "version" not in down:
            return self._first()
        step = inside(down, "update")
        return add_step(inside(client.state, "base"), step) if step else inside(down, "model")

    def _first(self) -> Message:
        return {n: np.asarray(t) for n, t in below(self.initial(0), "shared").items()}


def truncate_matrix(matrix: np.ndarray, energy: float) -> np.ndarray:
    """Compress a pair's shared (m, n): fewest singular directions, share `energy` of squares."""
    m, n = matrix.shape
    if not np.isfinite(matrix).all():
        return np.full((1, m + n), np.nan, dtype=matrix.dtype)
    short = (matrix if m <= n else matrix.T).astype(np.float64)
    # The smaller Gram matrix costs less than a full singular value decomposition.
    squares, directions = np.linalg.eigh(short @ short.T)
    held = np.cumsum(squares[::-1].clip(min=0))
    rank = min(int(np.searchsorted(held, energy * held[-1])) + 1, len(held))
    kept = directions[:, ::-1][:, :rank].T
    parts = (kept, kept @ short) if m <= n else (kept @ short, kept)
    return np.concatenate(parts, axis=1).astype(matrix.dtype)


def truncate_update(update: Message, energy: float) -> Message:
    """Compress a pair's shared part: arrays of two axes or more, as matrices (first, others)."""
    wide = {n: array.reshape(len(array), -1) for n, array in update.items() if array.ndim > 1}
    return {**update, **{n: truncate_matrix(matrix, energy) for n, matrix in wide.items()}}


def expand_update(sent: Message, like: Message) -> Message:
    """Return the arrays of a pair's shared part from `truncate_update`, in shapes of `like`."""
    wide = {name: len(array) for name, array in like.items() if array.ndim > 1}
    made = {n: (sent[n][:, :m].T @ sent[n][:, m:]).reshape(like[n].shape) for n, m in wide.items()}
    return {name: made.get(name, sent[name]) for name in like}


def add_step(model: Message, step: Message) -> Message:
    """Return the shared model of a pair plus a truncated step."""
    return {name: model[name] + moved for name, moved in expand_update(step, model).items()}
