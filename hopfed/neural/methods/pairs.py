"""Methods in which each client has its own model and a shared part, which the server averages.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from hopfed._lib.settings import require
from hopfed.federation.aggregate import weighted_mean
from hopfed.federation.contract import EVERYONE, State
from hopfed.federation.messages import Message
from hopfed.federation.rounds import Session
from hopfed.neural.data.tensors import Tensors
from hopfed.neural.memory.store import blend
from hopfed.neural.method import Answer, Client, Played, above, below, pack, setting, unpack
from hopfed.neural.methods.fedavg import FedAvg
from hopfed.neural.models import Model
from hopfed.neural.models.networks import check_name, drawing
from hopfed.neural.training.evaluation import Classifier, Network
from hopfed.neural.training.losses import Batch, Net, beside, squared_distance
from hopfed.neural.training.task import Params
from hopfed.neural.training.together import one_thread
from hopfed.neural.training.training import Job, forward_of

__all__ = ["APFL", "FML", "Ditto", "FedMRL", "FedRAL", "PFedES"]


class Pair(nn.Module):
    """A client's own model and a shared model; names start with ``own.`` or ``shared.``."""

    def __init__(self, own: Model, shared: Model):
        super().__init__()
        self.own, self.shared = own, shared

    def forward(self, x: Tensor) -> Any:
        """Return (features, logits) of both models."""
        own, shared = self.own.features(x), self.shared.features(x)
        return (own, self.own.head(own)), (shared, self.shared.head(shared))


@dataclass(frozen=True)
class Auxiliary(FedAvg, same_model=False, shared=False, opens="shared."):
    """A client trains a module with the parts ``own``, its model, and ``shared``.

    Clients send only the shared part; the server returns its size-weighted mean over the
    participants. Everything else is state of the client. `Training.clip` limits the norm of the
    gradient of all parts together.
    """

    keeps_shared: ClassVar[bool] = False  # whether the client keeps its copy, to classify with it
    copies: ClassVar[bool] = False  # whether its own part begins as the first shared part it gets

    def fetches(self, known: bool) -> bool:
        """A client has its own model; one that begins as the shared part, once it took part."""
        return self.copies and not known

    def wrap(self, model: Model) -> nn.Module:
        """Two models that start from the same weights."""
        return Pair(deepcopy(model), deepcopy(model))

    def begin(self, client: Client, down: Message) -> Params:
        """Return the client's own parts, and the shared part from the server."""
        found = client.initial | client.kept() | above(unpack(down), "shared")
        copied = above(below(found, "shared"), "own") if self.copies and not client.state else {}
        return found | copied

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Train both parts; send the shared one and keep the other."""
        first = self.begin(client, down)
        trained = yield client.train(first, extra=self.extra(client, first))
        return self.sent(client, trained.params)

    def extra(self, client: Client, first: Params) -> Params:  # noqa: ARG002
        """Further tensors that the objective uses, from those that training starts from."""
        return {}

    def sent(self, client: Client, params: Params) -> Message:
        """Return the shared part as a message; the client keeps the other parts."""
        client.keep({n: t for n, t in params.items() if self.keeps_shared or n[:7] != "shared."})
        return pack(below(params, "shared")) | client.size

    def personal(self, client: Client, down: Message) -> Params:  # noqa: ARG002
        """Its own model."""
        return below(client.kept(), "own") or client.task.initial(client.number)


@dataclass(frozen=True)
class Ditto(
    Auxiliary,
    name="ditto",
    source="Li et al., ICML 2021",
    same_model=True,
    copies=True,
    trains_first=True,
):
    """Li et al. (2021): each client keeps ``v = argmin CE(v) + lam / 2 |v - w|^2``.

    v is the personal model; w is the global model that the client received, before this round's
    training and averaging. Both models see the same batches, and their gradients are independent:
    the global model equals FedAvg's bit for bit, and with ``lam = 0`` the personal model equals
    Standalone's.

    Decided here: the personal model is trained for as many epochs as the global one. It starts as
    the first global model that the client receives. A client that never took part trains a personal
    model from the global one for the epochs of one round.

    Attributes
    ----------
    lam : strength of the penalty.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("ditto", lam=0.5).traffic.up.tolist()  # bytes that each client sent
    [220848, 220848]
    """

    lam: float = setting(1.0, "at least 0")

    def extra(self, client: Client, first: Params) -> Params:
        """Weights of the global model that the client received."""
        received = below(first, "shared")
        return {f"own.{n}": received[n] for n, _ in client.model.named_parameters()}

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy of both models, and lam / 2 times their squared distance."""
        (_, own), (_, shared) = net(batch.x)
        loss = batch.cross_entropy(own) + batch.cross_entropy(shared)
        return loss + self.lam / 2 * squared_distance(net.params, batch.extra) if self.lam else loss


class Mixture(Pair):
    """A local and a shared model, and the weight ``alpha`` (1,) of the local one."""

    def __init__(self, own: Model, shared: Model, alpha: float):
        super().__init__(own, shared)
        self.alpha = nn.Parameter(torch.full((1,), float(alpha)))


@dataclass(frozen=True)
class APFL(
    Auxiliary,
    name="apfl",
    source="Deng et al., 2020",
    same_model=True,
    copies=True,
    trains_first=True,
):
    """Deng et al. (2020): a client classifies by ``alpha v + (1 - alpha) w``.

    v is the local model, w the global one. On each batch, w takes FedAvg's step. v steps along the
    gradient of the mixture's loss, which is alpha times the mixture's gradient, at the values
    before the step. alpha steps along ``<v - w, gradient of the mixture>``, and stays in [0, 1].
    The server averages w; v and alpha stay with the client.

    Sources differ about alpha. The paper's Algorithm 1 and its authors' program move it once a
    round, other programs on every batch, where it soon is 0 and the method FedAvg. Decided here:
    once a round it takes a step of `Training.lr` on the round's first batch; on every batch, a step
    of the same optimizer, with momentum and weight decay. v starts as the first global model that
    the client receives. Running statistics of a norm are those of the mixture. A client that never
    took part trains v and alpha for the epochs of one round.

    Attributes
    ----------
    alpha : initial weight of the local model.
    learn : whether alpha is learned. If not, 0 is FedAvg and 1 is Standalone, bit for bit.
    moves : "round" or "batch", when alpha is moved.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("apfl", alpha=0.25).traffic.up.tolist()  # bytes that each client sent
    [220848, 220848]
    """

    alpha: float = setting(0.5, "in [0, 1]")
    learn: bool = True
    moves: str = setting("round", ("round", "batch"))

    def fetches(self, known: bool) -> bool:  # noqa: ARG002
        """The global model is in the mixture."""
        return True

    def wrap(self, model: Model) -> nn.Module:
        """Two models that start from the same weights, and alpha."""
        return Mixture(deepcopy(model), deepcopy(model), self.alpha)

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Train both models, and alpha; keep v and alpha, send w."""
        still = not self.learn or self.moves == "round"
        job = client.train(self.begin(client, down), frozen=("alpha",) if still else ())
        rows = len(job.rows)
        if self.learn and self.moves == "round" and job.training.epochs and rows:
            self._move_alpha(job, client.task.tensors)
            client.spend(4 * min(job.training.batch, rows) / rows * client.pass_flops)
        params = (yield job).params
        return self.sent(client, {**params, "alpha": params["alpha"].clamp(0, 1)})

    def _move_alpha(self, job: Job, data: Tensors) -> None:
        """Take a step of alpha on the first batch; it costs twice a forward pass, and back."""
        x, y = data.batch(data.rows(job.steps()[0]))
        params = beside(job.params, job.net)
        alpha = params["alpha"].requires_grad_()
        with one_thread():
            net = Net(forward_of(job.net.eval()), params | {"alpha": alpha})
            (slope,) = torch.autograd.grad(self.objective(net, Batch(x, y, None, {})), [alpha])
        moved = (alpha - job.training.lr * slope).detach().cpu().clamp(0, 1)
        job.params = job.params | {"alpha": moved}

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy of the global model plus that of the mixture, which does not train w."""
        raw = net.params["alpha"]
        alpha = raw + (raw.clamp(0, 1) - raw).detach()  # clipped, but with gradient 1
        shared = {n: w.detach() for n, w in below(net.params, "shared").items()}
        mixture = self.mixture(below(net.params, "own"), shared, alpha)
        (_, mixed), (_, alone) = net.with_(above(mixture, "own"))(batch.x)
        return batch.cross_entropy(alone) + batch.cross_entropy(mixed)

    def personal(self, client: Client, down: Message) -> Params:
        """The mixture."""
        kept, shared = client.kept(), unpack(down) or below(client.initial, "shared")
        return self.mixture(below(kept, "own"), shared, kept["alpha"])

    def mixture(self, own: Params, shared: Params, alpha: Tensor) -> Params:
        """Return ``alpha v + (1 - alpha) w`` of the weights; buffers are those of v."""
        weights = dict(self.loaded.model(0).named_parameters())
        return {n: blend(shared[n], v, alpha) if n in weights else v for n, v in own.items()}


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
        return Pair(model, self.small())

    def small(self) -> Model:
        """The small model, new."""
        return self.loaded.build(self.proxy, "proxy")


@dataclass(frozen=True)
class FML(Proxied, name="fml", source="Shen et al., 2020"):
    """Shen et al. (2020): own and small shared model learn from each other (mutual learning).

    On each batch the own model minimises ``(1 - weight) CE + weight KL(p_shared || p_own)``, and
    the shared model ``(1 - weight_shared) CE + weight_shared KL(p_own || p_shared)``. No gradient
    of a KL flows into the teaching model. One optimizer steps both. Clients classify with their own
    models.

    Attributes
    ----------
    weight : weight of the KL in the loss of the own model, 1 - alpha in the paper; 0 is
        Standalone.
    weight_shared : weight of the KL in the loss of the shared model, 1 - beta in the paper.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("fml").traffic.up.tolist()  # bytes that each client sent
    [1333040, 1333040]
    """

    weight: float = setting(0.5, "in [0, 1]")
    weight_shared: float = setting(0.5, "in [0, 1]")

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Sum of the losses of both models."""
        (_, own), (_, shared) = net(batch.x)

        def loss(logits: Tensor, teacher: Tensor, weight: float) -> Tensor:
            labels = batch.cross_entropy(logits)
            return blend(labels, batch.divergence(logits, teacher), weight) if weight else labels

        return loss(own, shared, self.weight) + loss(shared, own, self.weight_shared)


class Matryoshka(nn.Module):
    """A client's own and the shared model; both heads read one projection of both features.

    The projection is as long as the own features. The own head reads all of it, the shared head
    only its first coordinates.
    """

    def __init__(self, own: Model, shared: Model):
        super().__init__()
        self.own, self.shared = own, shared
        self.projector = nn.Linear(own.feature_dim + shared.feature_dim, own.feature_dim)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of the shared and of the own head, (B, classes) each."""
        both = torch.cat([self.shared.features(x), self.own.features(x)], dim=1)
        fused = self.projector(both)
        nested = fused[:, : self.shared.head.in_features]
        return self.shared.head(nested), self.own.head(fused)


@dataclass(frozen=True)
class FedMRL(Proxied, name="fedmrl", source="Yi et al., NeurIPS 2024", keeps_shared=True):
    """Yi et al. (2024): own and shared features, projected, are read by two heads of nested width.

    The loss is the sum of both cross-entropies. The small model, extractor and head, is shared. The
    projector stays with the client from round to round. The client classifies with its own head
    and with the small model as it last trained it, because the projector was trained with that copy
    and not with the next mean; the authors' programs do the same. In the paper the small model has
    narrower features than every client. Here it may have any width, because only its head must be
    narrow.

    Attributes
    ----------
    width : number of coordinates of the projection that the shared head reads; 0 takes the share
        `nested` of the shortest features of a client.
    nested : that share; 1 reads the whole projection of such a client, which is then not nested.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("fedmrl", width=8).traffic.up.tolist()  # bytes that each client sent
    [1313360, 1313360]
    """

    width: int = setting(0, "at least 0")
    nested: float = setting(0.5, "in (0, 1]")

    def server_start(self, seed: int) -> State:
        """Check the width against the models."""
        self._width()
        return super().server_start(seed)

    def wrap(self, model: Model) -> nn.Module:
        """Both models and the projector."""
        small = self.small()
        with drawing(self.task.seed, "matryoshka"):
            head = nn.Linear(self._width(), self.loaded.classes)
            return Matryoshka(model, Model(small.features, head, small.feature_dim))

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Sum of both heads' cross-entropies."""
        shared, own = net(batch.x)
        return batch.cross_entropy(own) + batch.cross_entropy(shared)

    def decide(self, client: Client, down: Message) -> Classifier:  # noqa: ARG002
        """The own head, with the projection and the small model as last trained."""
        return Network(client.net, self.begin(client, {}))

    def _width(self) -> int:
        lengths = [model.feature_dim for model in self.loaded.templates.values()]
        rule = f"at most {min(lengths)}, the shortest features of a client"
        require(self.width <= min(lengths), "width", rule, self.width)
        return self.width or max(1, round(self.nested * min(lengths)))


MATRIX = "shared.weight"


class Turned(nn.Module):
    """A model whose head reads features with the direction of ``A z`` and the length of z."""

    def __init__(self, own: Model):
        super().__init__()
        self.own = own
        self.shared = nn.utils.skip_init(nn.Linear, own.feature_dim, own.feature_dim, bias=False)
        nn.init.eye_(self.shared.weight)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the turned features, and the logits (B, classes)."""
        z = self.own.features(x)
        turned = normalize(self.shared(z), dim=1) * z.norm(dim=1, keepdim=True)
        return turned, self.own.head(turned)


@dataclass(frozen=True)
class FedRAL(
    Auxiliary,
    name="fedral",
    source="Yi et al., ICCV 2025 (from the description)",
    keeps_shared=True,
    opens=None,
):
    """Yi et al. (2025): a shared square matrix turns the features; built from the abstract.

    The text of the paper is not public. According to the abstract, every client's model contains a
    square matrix of the same shape, which learns the angles of the representations. Clients with
    fewer resources send a matrix that is sparse around its diagonal. The server takes weighted
    means entry by entry.

    Decided here: the matrix A (d, d) stands between extractor and head and starts as the identity.
    It changes the direction of a feature vector but not its length, so that clients share only
    angles, at any scale of the features. It is trained with the model on cross-entropy. A client
    keeps, trains and sends the entries with |i - j| at most ``ceil(share (d - 1))``. The mean of an
    entry is over the clients that sent it, weighted by size; an entry that nobody sent keeps its
    value. The server sends the whole matrix. A client classifies with its own trained copy.

    Attributes
    ----------
    least, levels : clients take in turn one of `levels` levels of resources. The first level has
        all diagonals, the last has the share `least` of them; the others are evenly spaced.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("fedral", least=0.5).traffic.up.tolist()  # bytes that each client sent
    [160008, 157608]
    """

    least: float = setting(0.2, "in [0, 1]")
    levels: int = setting(5, "at least 1")

    def server_start(self, seed: int) -> State:
        """The identity; an entry keeps its value until a client sends it."""
        super().server_start(seed)
        return {"model/weight": np.eye(self.loaded.feature_dim, dtype=np.float32)}

    def wrap(self, model: Model) -> nn.Module:
        """The model and the matrix."""
        return Turned(model)

    def band(self, client: int) -> np.ndarray:
        """Entries that a client has: bool (d, d)."""
        d = self.loaded.feature_dim
        share = np.linspace(1.0, self.least, self.levels)[client % self.levels]
        far = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
        return np.asarray(far <= ceil(share * (d - 1)))

    def begin(self, client: Client, down: Message) -> Params:
        """The client's model, and its entries of the server's matrix."""
        params = super().begin(client, down)
        return params | {MATRIX: params[MATRIX] * torch.as_tensor(self.band(client.number))}

    def extra(self, client: Client, first: Params) -> Params:  # noqa: ARG002
        """The entries that the client has."""
        return {"band": torch.as_tensor(self.band(client.number), dtype=torch.float32)}

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy, with a gradient only for the entries of the band."""
        banded = {MATRIX: net.params[MATRIX] * batch.extra["band"]}
        return batch.cross_entropy(net.with_(banded)(batch.x)[1])

    def sent(self, client: Client, params: Params) -> Message:
        """Send the entries of the band, row by row."""
        message = super().sent(client, params)
        own = message["model/weight"][self.band(client.number)]
        return message | {"model/weight": own}

    def play(self, state: State, session: Session) -> Played:
        """Average each entry over the clients that sent it."""
        heard = session.ask()
        if not heard:
            return state, {}, {}
        bands, before = [self.band(c) for c in heard], np.asarray(state["model/weight"])
        parts = [np.zeros_like(before) for _ in bands]
        for part, band, message in zip(parts, bands, heard.values(), strict=True):
            part[band] = message["model/weight"]
        sizes = [float(m["examples"]) for m in heard.values()]
        mean = weighted_mean(parts, sizes, masks=bands, default=before)
        new = {"model/weight": np.asarray(mean)}
        return new, {EVERYONE: new}, {}

    def decide(self, client: Client, down: Message) -> Classifier:  # noqa: ARG002
        """The model with its matrix as last trained."""
        return Network(client.net, self.begin(client, {}))


class Preceded(nn.Module):
    """A model, and an optional extractor before it from images to images of the same size."""

    def __init__(self, own: Model, shared: nn.Module):
        super().__init__()
        self.own, self.shared = own, shared

    def forward(self, x: Tensor, extracted: bool) -> Tensor:
        """Return the model's logits (B, classes) of the images or of the extracted images."""
        logits: Tensor = self.own(self.shared(x) if extracted else x)
        return logits


@dataclass(frozen=True)
class PFedES(
    Auxiliary,
    name="pfedes",
    source="Yi et al., AAAI 2025 (from the description and the authors' program)",
):
    """Yi et al. (2025): a small shared extractor before each client's model, trained in turn.

    Details are those of the authors' program. The extractor G has two 3 x 3 convolutions, each with
    ReLU, from the image's channels to `kernels` and back. A round has two phases. With G frozen,
    the model F minimises ``(1 - mu) CE(F(x)) + mu CE(F(G(x)))``. With F frozen, G minimises
    ``CE(F(G(x)))``. The server takes the size-weighted mean of G. A client classifies with F alone.
    If F has batch norms, their running statistics are those of plain images.

    Attributes
    ----------
    mu : weight of the extracted images in the loss of the model; 0 is Standalone.
    kernels : number of channels between the two convolutions.
    turns : epochs of the second phase; 0 means as many as the first (the program has 10 more).

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("pfedes").traffic.up.tolist()  # bytes that each client sent
    [620, 620]
    """

    mu: float = setting(0.5, "in [0, 1]")
    kernels: int = setting(8, "at least 1")
    turns: int = setting(0, "at least 0")

    def server_start(self, seed: int) -> State:
        """Raise ArgumentError if the data are not images."""
        data = self.loaded.split.dataset
        require(data.is_images, "data", "images for pfedes", self.task.data)
        return super().server_start(seed)

    def wrap(self, model: Model) -> nn.Module:
        """The model and the extractor before it."""
        channels = self.loaded.split.dataset.shape[0]
        with drawing(self.task.seed, "extractor"):
            there = nn.Conv2d(channels, self.kernels, 3, padding=1)
            back = nn.Conv2d(self.kernels, channels, 3, padding=1)
        return Preceded(model, nn.Sequential(there, nn.ReLU(), back, nn.ReLU()))

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Train the model, then the extractor; send the second."""
        own = yield client.train(self.begin(client, down), frozen=("shared.",))
        turns = self.turns or self.training.epochs
        both = yield client.train(own.params, self.through, epochs=turns, frozen=("own.",))
        return self.sent(client, both.params)

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Loss of the model on the images and on the extracted images."""
        plain = batch.cross_entropy(net(batch.x, False))
        return (1 - self.mu) * plain + self.mu * self.through(net, batch) if self.mu else plain

    def through(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy on the extracted images, which move no statistics of the model."""
        buffers = {f"own.{n}" for m in self.loaded.templates.values() for n, _ in m.named_buffers()}
        own = {n: net.params[n].clone() for n in buffers & net.params.keys()}
        return batch.cross_entropy(net.with_(own)(batch.x, True))
