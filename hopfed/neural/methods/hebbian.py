"""Hebbian read-out: bits of examples, an operator per client, and a read-out in closed form.

Source: proposed here; theory/NOTES.md, "One-shot Hebbian read-out". It is known that ridge
regression needs only sums (Fed3R, Fani et al., ICML 2024; AFL, He et al., CVPR 2025). New are a bit
per feature, filters and thresholds that also come from sums, and the mixture with a client's sums.

One round is enough; it has four exchanges, in which clients send:

1. sums and sums of products of image patches; the server whitens them and draws filters;
2. sums of the filters' responses; their means are the thresholds of the bits;
3. the operator ``A = Z^T Z`` of a client's bits and the class sums ``B = Z^T Y``, as integers;
4. the likelihood of the client's validation examples for every setting of a small grid; the
   server returns the setting with the highest sum over all examples.

A client classifies with ``(A + w A_c + rho n)^-1 (B + w B_c)`` and adds the logarithm of its class
shares relative to all clients, times a factor. With ``bits=public`` and ``choose=own`` it sends
only the third message, so that its sums can be removed exactly (`hopfed.neural.collected_sums`),
and noise on this message makes the method private (`hopfed.neural.readouts.ridge`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product
from math import log, sqrt
from operator import add
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor

from hopfed._lib.cache import Recent
from hopfed._lib.settings import require
from hopfed.federation.contract import EVERYONE, Context, State
from hopfed.federation.messages import Field, Message, Spec, digest, part_of
from hopfed.federation.rounds import Session
from hopfed.neural.method import Answer, Client, Down, NeuralMethod, Played, setting
from hopfed.neural.models.networks import encoder_of, keep_object
from hopfed.neural.readouts import codes as codes
from hopfed.neural.readouts import ridge as linear
from hopfed.neural.training.evaluation import Classifier, Network
from hopfed.neural.training.job import forward_flops
from hopfed.theory.private import noise_multiplier

__all__ = ["AFL", "Hebbian", "RanPAC", "SAFLe"]

RIDGES = (0.1, 0.3, 1.0, 3.0)
OWN = (0.0, 3.0, 30.0)  # weights of a client's own examples
SCALES = (2.0, 4.0, 8.0, 16.0, 32.0)
PRIORS = (0.0, 0.5, 1.0)
LIKELY = 1e-2  # smallest relative likelihood of a setting in a client's mixture
CHANCE = 1e-9  # probability that an honest release with noise is refused
MOST = 2**40  # largest number of examples of a client, for exact sums
# Arrays that decide the codes; rows and networks have no kernel.
AGREED = ("kernel", "mean", "thresholds", "spread", "first/counts", "first/by_class")
BITS = ("columns", "random", "components", "group", "patch", "fields", "mirror", "kind", "coding")
COUNTED = ("counts", "by_class", "classes", "examples")  # integer sums, which are exact
FIRST = "first"  # prefix of the names of sums that decide components
WORDS = ("auto", "patches", "rows", "network")  # encoders
RULE = f"{', '.join(WORDS)}, a torch.nn.Module, a function, or importable as module:f"
SENT = "sent/"  # prefix of kept client messages in the server's state

Readouts = Callable[[float, float], np.ndarray]  # weight of own examples, ridge -> (D, C)


def _nbytes(made: Any) -> int:
    """Return the bytes of a cached value, at least one."""
    return sum(map(_nbytes, made)) if isinstance(made, tuple) else getattr(made, "nbytes", 1)


_BITS = Recent(1 << 27, _nbytes)  # bits and labels of a client's examples
_MADE = Recent(1 << 28, _nbytes)  # components, networks, read-outs, likelihoods and ridges


@dataclass(frozen=True)
class Hebbian(NeuralMethod, name="hebbian", source="proposed here"):
    """The Hebbian read-out; settings of training have no effect.

    Attributes
    ----------
    encoder : features behind the bits: "patches", responses of random filters of image patches;
        "rows", the inputs; "network", features of the first of `models`, with its initial weights
        or the weights of the task; "auto", rows for rows and patches for images; or a module or
        function of inputs (B, ...), or its name ``module:function``, the same as the server's.
    filters : number of random filters of patches; each gives two features per field.
    patch : side of a patch, in pixels.
    fields : number of fields in each direction over which responses are averaged.
    bits : "pooled", filters and thresholds follow from sums over the clients' examples, in two
        exchanges; "public", from the seed alone, for patches, and for rows unless the code is
        "bits"; rows then have thresholds 0 and spread 1.
    code : code of features: "bits"; "bytes", 16 steps of a common spread, from -127 to 127;
        "roots", the same for their signed square roots; "coarse", 3 steps for these roots;
        "floats", 4,096 steps, to 256 spreads; "auto", bytes for rows, otherwise bits.
    columns, random : number of random projections, or of rectified random projections, which
        replace the features; 0 for none.
    components : number of components of a Gaussian kernel on square roots of the features, from
        the sums of a further exchange (`hopfed.neural.readouts.codes`); 0 for none.
    group : number of neighbouring bits, from each bit on, whose products are also read.
    discriminant : whether the read-out is Fisher's linear discriminant instead of least squares;
        the ridge must then be "gcv".
    mirror : whether an image and its mirror image are two training examples, and the mean of
        their bits is classified. For photographs; not for digits or letters.
    reading : "personal", a mixture with the client's own examples and class shares; "global", the
        same read-out for all; "alone", from the client's own examples, with the common bits.
    ridge : "grid", by validation; "gcv", from the spectrum of the pooled operator.
    choose : "all", one setting for the federation; "own", each client mixes the settings that are
        likely on its own validation examples, and sends nothing about them.
    keep : whether the server keeps the sums of each client, so that a client can be forgotten.
    pooling : "equal", all examples have equal weight; "resembling", examples of clients with other
        class means have less weight. For this the server must see the sums of each client.
    epsilon, delta : with epsilon above 0, noise makes the counts (epsilon, delta)-private for each
        example. It is drawn from the seed of the run: a simulation. `Collected` draws the noise
        from a secret.

    Examples
    --------
    >>> from hopfed.federation.engines import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> method = Hebbian(TaskSpec(models=("mlp",), clients=2, examples=200), filters=8)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [7956, 7956]
    """

    filters: int = setting(64, "at least 1")
    patch: int = setting(3, "at least 1")
    fields: int = setting(2, "at least 1")
    encoder: str = "auto"
    bits: str = setting("pooled", ("pooled", "public"))
    code: str = setting("auto", ("auto", *codes.CODES))
    columns: int = setting(0, "at least 0")
    random: int = setting(0, "at least 0")
    components: int = setting(0, "at least 0")
    group: int = setting(1, "at least 1")
    discriminant: bool = False
    mirror: bool = False
    reading: str = setting("personal", ("personal", "global", "alone"))
    ridge: str = setting("grid", ("grid", "gcv"))
    choose: str = setting("all", ("all", "own"))
    keep: bool = False
    pooling: str = setting("equal", ("equal", "resembling"))
    epsilon: float = setting(0.0, "at least 0")
    delta: float = 1e-5

    questions: ClassVar[tuple[str, ...]] = ("patches", "features", "sums", "likelihoods")

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoder", keep_object(self.encoder))
        super().__post_init__()
        require(self.encoder in WORDS or ":" in self.encoder, "encoder", RULE, repr(self.encoder))
        if self.components:
            self.require_settings("with components", bits="pooled", code="auto", random=0)
        if self.group > 1:
            self.require_settings("with groups", code="bits", mirror=False, epsilon=0.0)
        if self.discriminant:
            self.require_settings("with discriminant", ridge="gcv")
        if self.encoder == "network":
            require(self.bits == "pooled", "bits", "pooled for the encoder network", self.bits)
            require(len(self.task.models) == 1, "models", "one, the encoder", self.task.models)
        if self.pooling != "equal":
            self.require_settings(f"where pooling is {self.pooling}", reading="personal")
        if self.epsilon:
            code = "auto" if self.code == "auto" else "bits"
            own = {"bits": "public", "choose": "own", "ridge": "grid", "pooling": "equal"}
            self.require_settings("where counts have noise", **own, mirror=False, code=code)
            noise_multiplier(self.epsilon, self.delta)  # checks the budget

    def require_settings(self, where: str, **wanted: object) -> None:
        """Raise ArgumentError, which says `where`, for other values of the `wanted` settings."""
        for name, value in wanted.items():
            require(getattr(self, name) == value, name, f"{value} {where}", getattr(self, name))

    def fetches(self, known: bool) -> bool:
        return True  # a read-out follows from the sums of all

    def server_start(self, seed: int) -> State:
        """Return no state; ArgumentError for data that do not fit the settings."""
        data = self.loaded.split.dataset
        pictures = data.is_images and data.shape[1:] != (1, 1)
        if self.kind not in WORDS:
            self._foreign  # noqa: B018  (checks the encoder)
        if self.kind == "patches":
            rule = "images (rows take encoder=rows, and text a network)"
            require(pictures, "data", rule, data.name)
            most = min(data.shape[1:])
            require(self.patch <= most, "patch", f"from 1 to {most} pixels", self.patch)
        else:
            fits = self.bits == "pooled" or (self.kind == "rows" and self.steps > 0)
            require(fits, "bits", "pooled for networks, and for rows in bits", self.bits)
            require(not self.epsilon, "data", "images where counts have noise", data.name)
        require(pictures or not self.mirror, "mirror", "false unless data are images", data.name)
        return {}

    @property
    def kind(self) -> str:
        """The encoder in use: "patches", "rows" or "network"."""
        rows = self.loaded.split.dataset.shape[1:] == (1, 1)
        return self.encoder if self.encoder != "auto" else "rows" if rows else "patches"

    @property
    def coding(self) -> str:
        """The code in use, one of `CODES`."""
        if self.components:
            return "coarse"
        return self.code if self.code != "auto" else "bytes" if self.kind == "rows" else "bits"

    @property
    def steps(self) -> int:
        """Steps of the code per spread of the features; 0 for bits."""
        return codes.CODES[self.coding]

    @property
    def n_features(self) -> int:
        """Number of features of an input."""
        return self.components or self.random or self._first

    @property
    def _first(self) -> int:
        """Number of features in the first sums."""
        if self.columns or self.kind == "patches":
            return self.columns or 2 * self.filters * self.fields**2
        data = self.loaded.tensors
        some, _ = data.batch(data.rows(np.arange(1)))
        key = "length", self.task, self.encoder
        return int(_MADE.get(key, lambda: self._encoder({})(some).shape[1]))

    @property
    def n_bits(self) -> int:
        """D: a bit for each feature, or each set of features in a group, and a constant."""
        return self.n_features * (1 << self.group >> 1) + 1

    def _features(self, down: Message, first: bool = False) -> codes.Features:
        """Return the function to features before thresholds, or to features of the `first` sums."""
        seed, steps = self.task.seed, [self._encoder(down)]
        if self.coding in codes.ROOTED:
            steps.append(lambda x: x.sign() * x.abs().sqrt())
        if self.columns:
            steps.append(partial(codes.project_randomly, number=self.columns, seed=seed))
        if self.components and not first:
            sums, how = part_of(down, FIRST), (codes.CODES["coarse"], self.components, seed)
            key = digest(sums), *how
            steps.append(_MADE.get(key, lambda: codes.Components.of(unpack_sums(sums), *how)))
        if self.random:
            drawn = partial(codes.project_randomly, number=self.random, seed=seed)
            steps.append(lambda x: drawn(x).clamp_(min=0))
        return lambda x: reduce(lambda found, step: step(found), steps, x)

    def _encoder(self, down: Message) -> codes.Features:
        """Return the function from inputs (B, ...) to features (B, d)."""
        if self.kind == "patches":
            kernel, mean = np.asarray(down["kernel"]), np.asarray(down["mean"])
            return lambda x: codes.filter_responses(x, kernel, mean, self.patch, self.fields)
        if self.kind == "rows":
            return lambda x: x.float().flatten(1)
        if self.kind != "network":
            return self._foreign[0]
        task, key = self.loaded, ("network", self.task)
        net: Network = _MADE.get(key, lambda: Network(task.model(0), task.initial(0)))
        return lambda x: net.outputs(x)[0].flatten(1)

    @property
    def _foreign(self) -> tuple[codes.Features, np.ndarray]:
        """Encoder of the user, and its digest."""
        return _MADE.get(("encoder", self.encoder), lambda: encoder_of(self.encoder, RULE))

    def bits_of(self, down: Message, client: int, part: str) -> codes.Examples:
        """Return bits (n, D) float32 and labels (n,) of a part of the client's examples."""
        agreed = digest({name: down[name] for name in AGREED if name in down})
        key = self.task, *(getattr(self, name) for name in BITS), agreed, client, part
        rows, learn = getattr(self.loaded.split, part)[client], part == "train"
        return _BITS.get(key, lambda: self._bits(down).of(self.loaded.tensors, rows, learn=learn))

    def _bits(self, down: Message) -> codes.Bits:
        found, limits = self._features(down), np.asarray(down["thresholds"])
        spread = float(down.get("spread", 1.0))
        return codes.Bits(found, limits, self.mirror, self.coding, spread, self.group)

    def public(self) -> State:
        """Return filters and thresholds that depend only on the seed."""
        zeros = {"thresholds": np.zeros(self.n_features, np.float32)}
        if self.kind == "rows":
            return zeros
        images = codes.draw_waves(self.loaded.split.dataset.shape, codes.IMAGES, self.task.seed)
        moments = codes.patch_moments([images], self.patch)
        made = codes.draw_filters(moments, self.filters, self.task.seed)
        means = {"thresholds": self._encoder(made)(images).mean(dim=0).numpy()}
        return made | (zeros if self.steps else means)

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        yield from ()
        if not self._asked(question, down, client.number):
            return {}
        if "encoder" in down:
            same = np.array_equal(down["encoder"], self._foreign[1])
            require(same, "encoder", "the encoder of the server (digests differ)", self.encoder)
        client.flops += self._flops_of(question, client.number)
        if question == "sums":
            bits, labels = self.bits_of(down, client.number, "train")
            client.state = pack_sums(linear.Sums.of(bits, labels, self.loaded.classes), len(labels))
            if self.choose == "own":
                client.flops += self._flops_of("likelihoods", client.number)
            rng = client.context.rng("noise")
            return self.released(bits, labels, rng) if self.epsilon else dict(client.state)
        if question == "likelihoods":
            held = np.asarray(len(self.loaded.split.validation[client.number]))
            found = self._likelihoods(client.state, down, client.number)
            return {"likelihoods": found, "examples": held}
        if question == "features" and self.components:
            coded = codes.Bits(self._features(down, first=True), np.zeros(1), code="coarse")
            bits, labels = coded.of(self.loaded.tensors, client.rows)
            return pack_sums(linear.Sums.of(bits, labels, self.loaded.classes), len(labels))
        batches = (x for x, _ in self.loaded.tensors.batches(client.rows))
        if question == "patches":
            total, squares, number = codes.patch_moments(batches, self.patch)
            low = squares[np.tril_indices(len(squares))]
            return {"total": total, "squares": low, "patches": np.asarray(number)}
        features = self._features(down)
        sums, power = np.zeros(self.n_features), 0.0
        for x in batches:
            found = features(x).double()
            sums += found.sum(dim=0).cpu().numpy()
            power += float((found**2).sum())
        more = {"squares": np.asarray(power)} if self.steps else {}
        return {"sums": sums, **client.size, **more}

    def released(self, bits: np.ndarray, labels: np.ndarray, rng: Any) -> Message:
        """Return sums of bits and labels with noise from `rng`, without class counts."""
        sums = pack_sums(self.private.release(bits, labels, rng), len(labels))
        return {name: array for name, array in sums.items() if name != "classes"}

    def _asked(self, question: str, down: Message, client: int) -> bool:
        """Whether the client must answer; clients that are already in the sums need not."""
        pooled = self.bits == "pooled"
        return {
            "patches": pooled and self.kind == "patches" and "kernel" not in down,
            "features": pooled and "thresholds" not in down,
            "sums": "thresholds" in down and client not in np.asarray(down.get("members", ())),
            "likelihoods": self.choose == "all" and "by_class" in down and "choice" not in down,
        }[question]

    def expects(self, down: Message, context: Context) -> Spec:
        """Return the form of sums of patches, features or bits, or of likelihoods of settings."""
        question, number = self.questions[context.exchange], Field((), "iu", least=0)
        if not self._asked(question, down, context.client or 0):
            return {}
        if question == "patches":
            d = self.loaded.split.dataset.shape[0] * self.patch**2
            squares = Field((d * (d + 1) // 2,), "f")
            return {"total": Field((d,), "f"), "squares": squares, "patches": number}
        if question == "likelihoods":
            return {"likelihoods": Field((len(self.choices()),), "f", most=0), "examples": number}
        if question == "features" and self.components:
            return self._sums_spec(self._first + 1, codes.largest_integer("coarse"))
        if question == "features":
            least = 0 if self.kind == "patches" and not self.columns else None
            spec = {"sums": Field((self.n_features,), "f", least=least), "examples": number}
            return spec | ({"squares": Field((), "f", least=0)} if self.steps else {})
        if not self.epsilon:
            return self._sums_spec(self.n_bits, codes.largest_integer(self.coding))
        # Bounds that an honest release exceeds once in 10^9 releases.
        numbers = self.n_bits * (self.n_bits + 2 * self.loaded.classes)
        reach = self.private.scale * sqrt(2 * log(numbers / CHANCE)) + 1
        return self._sums_spec(self.n_bits, self.private.weight, reach)

    def _sums_spec(self, D: int, most: int, reach: float = 0.0) -> Spec:
        """Return the form of sums of codes up to `most`, with noise up to `reach`."""
        C, square = self.loaded.classes, 1.0 if self.epsilon else float(most) ** 2
        entries = D * (D + (1 if self.steps else -1)) // 2
        spec = {
            "counts": Field((entries,), "i", within="examples", times=square, beyond=reach),
            "by_class": Field((D, C), "i", within="examples", times=float(most), beyond=reach),
            "examples": Field((), "iu", least=1, most=MOST),
        }
        classes = {"classes": Field((C,), "i", least=0, within="examples")}
        return spec if self.epsilon else spec | classes

    def _likelihoods(self, state: State, down: Message, client: int) -> np.ndarray:
        """Return the log-likelihood of the client's validation examples under each choice."""
        bits, labels = self.bits_of(down, client, "validation")
        weights, shift = self._weights(state, down, client)
        at, choices = np.arange(len(labels)), self.choices()
        scores = {key: bits @ weights(*key) for key in {(c.own, c.ridge) for c in choices}}
        logs = [linear.log_probabilities(scores[c.own, c.ridge], c, shift) for c in choices]
        return np.array([each[at, labels].sum() for each in logs])

    def play(self, state: State, session: Session) -> Played:
        """Ask for sums of patches, then features, then bits; then for likelihoods."""
        down: Down | None = None
        for question in self.questions:
            heard = {c: m for c, m in session.ask(down).items() if m}
            state, down = self.added(state, heard, question)
        return state, down or {}, {}

    def added(self, state: State, said: Mapping[int, Message], question: str) -> tuple[State, Down]:
        """Return state and messages down after the answers `said` to a `question`."""
        if self.bits == "public" and "thresholds" not in state:
            state = self.public()
        elif not said:
            return state, {}
        elif question == "sums":
            state = add_client_sums(state, said, keep=self.keep or self.pooling != "equal")
        elif question == "features" and self.components:
            first = add_client_sums({}, said).items()
            state = dict(state) | {f"{FIRST}/{n}": a for n, a in first if n in COUNTED}
            state["thresholds"] = np.zeros(self.n_features, np.float32)
        else:
            state = dict(state) | self._settled(question, list(said.values()))
        if self.kind not in WORDS:
            state = dict(state) | {"encoder": self._foreign[1]}
        down = state_for_clients(state)
        if self.pooling == "equal" or "members" not in state:
            return state, {EVERYONE: down}
        members = [int(c) for c in state["members"]]
        every = [unpack_sums(part_of(state, f"{SENT}{c}")) for c in members]
        own = {}
        for c, weights in zip(members, linear.weigh_other_clients(every), strict=True):
            sums = reduce(add, (s * w for s, w in zip(every, weights, strict=True)))
            own[c] = down | pack_sums(sums, sums.examples)
        return state, {EVERYONE: down} | own

    def _settled(self, question: str, heard: list[Message]) -> State:
        """Results of the sums of all: filters, thresholds, or the best setting."""
        total = {n: np.sum([m[n] for m in heard], axis=0) for n in heard[0]}
        if question == "likelihoods":
            return {"choice": np.asarray(total["likelihoods"].argmax())}
        if question == "patches":
            products = _symmetric(total["squares"], len(total["total"]), float)
            seen = total["total"], products, float(max(total["patches"], 1))
            return codes.draw_filters(seen, self.filters, self.task.seed)
        examples = max(int(total["examples"]), 1)
        means = total["sums"] / examples
        found = {"thresholds": means.astype(np.float32)}
        if self.steps:
            squares = float(total["squares"]) / examples - float(means @ means)
            spread = sqrt(squares / len(means)) if squares > 0 else 1.0
            found["spread"] = np.asarray(spread, np.float32)  # equal in any order of sums
        return found

    def choices(self) -> list[linear.ReadoutChoice]:
        """Return the candidate settings for validation."""
        personal = (-1.0, *OWN) if self.choose == "own" else OWN
        own = {"personal": personal, "global": (0.0,), "alone": (-1.0,)}[self.reading]
        priors = PRIORS if self.reading == "personal" else (0.0,)
        return [linear.ReadoutChoice(*row) for row in product(self._ridges, own, SCALES, priors)]

    def decide(self, client: Client, down: Message) -> Classifier:
        """Return the client's read-out; before the end of the first round, all scores are zero."""
        if "by_class" not in down or (self.choose == "all" and "choice" not in down):
            return lambda x: x.new_zeros((len(x), self.loaded.classes))
        c, choices = client.number, self.choices()
        if self.choose == "all":
            likely, shares = np.array([int(down["choice"])]), np.ones(1)
        else:
            key = self, "likelihoods", _digest_sums(down), c
            found = _MADE.get(key, lambda: self._likelihoods(client.state, down, c))
            shares = softmax(found)
            likely = np.flatnonzero(shares >= LIKELY * shares.max())
            shares = shares[likely] / shares[likely].sum()
        chosen = [choices[k] for k in likely]
        weights, shift = self._weights(client.state, down, c)
        every = np.array([weights(choice.own, choice.ridge) for choice in chosen])
        bits = self._bits(down)

        def classify(x: Tensor) -> Tensor:
            z = bits(x).cpu().numpy().astype(np.float64)
            made = zip(every, chosen, strict=True)
            logs = [linear.log_probabilities(z @ W, choice, shift) for W, choice in made]
            return torch.as_tensor(linear.mix_readouts(np.array(logs), shares), device=x.device)

        return classify

    def _weights(self, state: State, down: Message, client: int) -> tuple[Readouts, np.ndarray]:
        """Return (D, C) read-outs by weight of own examples and ridge, and log prior ratios."""
        own, pooled, said = (
            self.own_sums(state, down, client),
            unpack_sums(down),
            _digest_sums(down),
        )
        pooled = self.private.read(pooled, int(down["examples"])) if self.epsilon else pooled

        def made(weight: float) -> np.ndarray:
            sums = own if weight < 0 else pooled + own * weight if weight else pooled
            if self.ridge == "grid":
                spectrum, floor = linear.Spectrum.of(sums), 1.0
                if self.epsilon and weight >= 0:
                    # With 1 plus the radius of the noise's spectrum per example, the read-out
                    # changes little, and `PrivateSums.predicted_accuracy` is near its maximum.
                    floor += self.private.radius(len(down["members"])) / max(spectrum.examples, 1.0)
                return spectrum.readouts([rho * (floor * spectrum.size) for rho in self._ridges])
            # A client's examples may have weights here; the ridge comes from unweighted sums.
            of, whose = (own, client) if weight < 0 else (pooled, None)
            key = self, "ridge", said, whose
            ridge = _MADE.get(key, lambda: linear.best_ridge(linear.Spectrum.of(of)))
            return linear.solve_readout(sums, ridge, self.discriminant)[None]

        def weights(weight: float, ridge: float) -> np.ndarray:
            key = self, said, weight, client if weight else None  # weight 0: shared by all clients
            return np.asarray(_MADE.get(key, lambda: made(weight))[self._ridges.index(ridge)])

        return weights, own.log_prior() - pooled.log_prior()

    @property
    def _ridges(self) -> tuple[float, ...]:
        """Ridges of the choices, 0 for the ridge by generalised cross-validation."""
        grid = (1.0,) if self.epsilon else RIDGES  # times a floor that depends on the noise
        return grid if self.ridge == "grid" else (0.0,)

    @property
    def private(self) -> linear.PrivateSums:
        """Mechanism of the noise on the sums, if epsilon is above 0."""
        return linear.PrivateSums(self.n_bits, self.loaded.classes, self.epsilon, self.delta)

    def own_sums(self, state: State, down: Message, client: int) -> linear.Sums:
        """Return the sums of the client's own examples, even if it never took part."""
        if "examples" in state:
            return unpack_sums(state)
        return linear.Sums.of(*self.bits_of(down, client, "train"), self.loaded.classes)

    def _flops_of(self, question: str, client: int) -> float:
        """Return the FLOPs of a step; only matrix products are counted."""
        images, D, C = len(self.loaded.split.train[client]), self.n_bits, self.loaded.classes
        n, each, moments = images * (1 + self.mirror), 0.0, 0.0
        if self.kind == "patches":
            channels, height, width = self.loaded.split.dataset.shape
            places = (height - self.patch + 1) * (width - self.patch + 1)
            length = channels * self.patch**2
            moments = 2.0 * images * places / codes.STEP**2 * length**2
            each = 2.0 * places * length * self.filters
        elif self.kind == "network":
            each = forward_flops(self.task, self.task.models[0])
        choosing = len({choice.own for choice in self.choices()}) * 10.0 * D**3
        spent = moments, images * each, n * (each + D * (D + 2.0 * C)), choosing
        return dict(zip(self.questions, spent, strict=True))[question]


@dataclass(frozen=True)
class AFL(Hebbian, name="afl", source="He et al., CVPR 2025"):
    """Analytic federated learning: ridge regression on features, with one message per client.

    Sums are integers, equal to the bit for any division among clients; the ridge follows from
    them by generalised cross-validation.

    Attributes
    ----------
    bits, code, reading, ridge, choose : see `Hebbian`; with these defaults it is AFL.
    """

    bits: str = "public"
    code: str = "floats"
    reading: str = "global"
    ridge: str = "gcv"
    choose: str = "own"


@dataclass(frozen=True)
class RanPAC(AFL, name="ranpac", source="McDonnell et al., NeurIPS 2023"):
    """AFL on random rectified projections of the features; the paper takes 10,000.

    Attributes
    ----------
    random : number of random features.
    """

    random: int = 1000


@dataclass(frozen=True)
class SAFLe(AFL, name="safle", source="after SAFLe, CVPR 2026"):
    """AFL on embeddings of grouped features, each in one of two buckets, below or above its mean.

    Decided here: a group of neighbours begins at each feature, and has an embedding for each joint
    value of its bits, in the basis of products of bits.

    Attributes
    ----------
    bits, code : see `Hebbian`; with these defaults and a group it is this method.
    group : number of features in a group.
    """

    bits: str = "pooled"
    code: str = "bits"
    group: int = 2


def pack_sums(sums: linear.Sums, examples: float) -> Message:
    """Return Hebbian sums as a message: the operator's lower triangle; for bits, no diagonal."""
    bits = np.allclose(np.diag(sums.operator), examples, rtol=1e-9)
    counts = sums.operator[np.tri(len(sums.operator), k=-bits, dtype=bool)]
    whole = counts.dtype.kind == "i"
    return {
        "counts": _narrow_integers(counts, examples) if whole else counts.astype(np.float32),
        "by_class": _narrow_integers(sums.by_class) if whole else sums.by_class,
        "classes": sums.counts,
        "examples": np.asarray(examples),
    }


def unpack_sums(message: Message) -> linear.Sums:
    """Undo `pack_sums` of Hebbian sums; class counts are zeros if the message has none."""
    by_class, counts = np.asarray(message["by_class"]), np.asarray(message["counts"])
    D, C = by_class.shape
    kind = np.int64 if counts.dtype.kind == "i" else np.float64
    bits = counts.size < D * (D + 1) // 2
    operator = _symmetric(counts, D, kind, bits)
    if bits:
        np.fill_diagonal(operator, message["examples"])
    classes = np.asarray(message.get("classes", np.zeros(C)))
    return linear.Sums(operator, by_class.astype(kind), classes)


def _symmetric(low: np.ndarray, D: int, kind: Any, strict: bool = False) -> np.ndarray:
    """Return a symmetric matrix (D, D) from its lower triangle, `strict` without diagonal."""
    whole = np.zeros((D, D), kind)
    whole[np.tri(D, k=-strict, dtype=bool)] = low
    diagonal = whole.diagonal().copy()
    whole += whole.T
    np.fill_diagonal(whole, diagonal)
    return whole


def add_client_sums(state: State, messages: Mapping[int, Message], *, keep: bool = False) -> State:
    """Return the Hebbian server's `state` plus further clients' sums, without a chosen setting."""
    members = set(np.asarray(state.get("members", ())).tolist())
    twice = sorted(members & messages.keys())
    require(not twice, "client", "absent from the sums", twice)
    parts = [*([state] if members else []), *(messages[c] for c in sorted(messages))]
    names = [n for n in COUNTED if all(n in part for part in parts)]
    sums: State = {n: np.sum([p[n] for p in parts], axis=0, dtype=np.int64) for n in names}
    sums |= {n: _narrow_integers(np.asarray(a)) for n, a in sums.items() if n == "counts"}
    sent = {f"{SENT}{c}/{n}": a for c, m in messages.items() for n, a in m.items() if keep}
    rest = {name: array for name, array in state.items() if name != "choice"}
    everyone = np.array(sorted(members | messages.keys()), dtype=np.int64)
    return rest | sent | sums | {"members": everyone}


def state_for_clients(state: State) -> Message:
    """Part of the Hebbian server's state that clients may see: no sums of single clients."""
    return {name: array for name, array in state.items() if not name.startswith(SENT)}


def _narrow_integers(array: np.ndarray, least: float = 0) -> np.ndarray:
    """Return integers in the smallest of two, four or eight bytes that hold them and `least`."""
    most = max(least, int(np.abs(array).max(initial=0)))
    fits = (kind for kind in (np.int16, np.int32) if most <= np.iinfo(kind).max)
    return array.astype(next(fits, np.int64))


def _digest_sums(down: Message) -> bytes:
    """Return the digest of a message down without the chosen setting."""
    return digest({name: array for name, array in down.items() if name != "choice"})
