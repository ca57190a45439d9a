"""Hebbian read-out: bits of images, one operator of a client, and a read-out in closed form.

Source: proposed here; theory/NOTES.md, "One-shot Hebbian read-out". It is known that ridge
regression over clients needs only sums (Fed3R, Fani et al., ICML 2024; AFL, He et al., CVPR 2025).
New here are one bit for each feature, filters and thresholds that are computed from sums too, and
the mixture with the client's own sums.

No gradient is computed, and one round is enough. It has four exchanges:

1. sums and sums of products of image patches up; the server whitens them and draws filters;
2. sums of the filters' responses up; their means are the thresholds of the bits;
   (with ``candidates`` two more, in which filters are chosen from many, see
   `hopfed.neural.methods._bits`);
3. the operator ``A = Z^T Z`` of a client's bits and the class sums ``B = Z^T Y`` up, as integers;
4. the likelihood of the client's validation examples, for every setting of a small grid, up; the
   setting with the highest sum comes down. Likelihoods are summed over examples, because in a mean
   over clients one with three examples would count as much as one with a thousand.

A client classifies with ``(A + w A_c + rho n)^-1 (B + w B_c)`` and adds the logarithm of its own
class shares over those of all, to a power. rho, w, the power and the scale of the scores are the
settings of the grid; rho may come from the spectrum instead (`hopfed.neural.readouts.evidence`).
With ``pooling=resembling`` the server gives each client sums of its own, in which others count as
much as their class means resemble the client's (`hopfed.neural.readouts.resemblance`).

With ``bits=public`` filters and thresholds follow from the seed, and with ``choose=own`` every
client chooses its settings alone, so a client sends only the message of the third exchange. Then a
client that leaves can be forgotten to the bit (`hopfed.neural.readouts.contributions`), and noise
on this one message makes the method private (`hopfed.neural.readouts.private_sums`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
from scipy.special import softmax

from hopfed._lib.cache import Recent
from hopfed._lib.random import derive
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.federation.contract import EVERYONE, Context, Metrics, State
from hopfed.federation.messages import Field, Message, Spec, digest
from hopfed.hopfield.encoding import Encoding, leading_factors
from hopfed.neural.methods._bits import OnBits
from hopfed.neural.readouts.contributions import added, broadcast, gave
from hopfed.neural.readouts.evidence import RANKS, RULES, best_ridge, count
from hopfed.neural.readouts.private_sums import PrivateSums
from hopfed.neural.readouts.resemblance import personal
from hopfed.neural.readouts.ridge import Choice, Mixture, Readout, Spectrum, Sums, log_probabilities
from hopfed.neural.training.evaluation import Classifier
from hopfed.spectral.operators import FactorOperator

__all__ = ["Hebbian"]

RIDGES = (0.1, 0.3, 1.0, 3.0)
OWN = (0.0, 3.0, 30.0)  # weights of a client's own examples
SCALES = (2.0, 4.0, 8.0, 16.0, 32.0)
PRIORS = (0.0, 0.5, 1.0)
ALLOWED = {
    "reading": ("personal", "global", "alone"),
    "ridge": ("grid", *RULES),
    "rank": ("all", *RANKS),
    "choose": ("all", "own"),
    "form": ("counts", "factors", "sketch"),
    "pooling": ("equal", "resembling"),
}
UNEQUAL = {"form": "counts", "reading": "personal"}
LIKELY = 1e-2  # relative likelihood from which a setting is in a client's mixture
PRIVATE: dict[str, object] = {"bits": "public", "choose": "own", "form": "counts", "ridge": "grid"}
PRIVATE |= {"pooling": "equal", "mirror": False}

_READOUTS = Recent(1 << 28)  # (method, sums down, weight, ridges, client) -> (R, D, C)
# (method, what, sums down, ...) -> likelihoods of a client, the ridge of all
_FOUND = Recent(1 << 10, lambda _: 1)


@dataclass(frozen=True)
class Hebbian(OnBits):
    """The Hebbian read-out; settings of training have no effect.

    Attributes
    ----------
    encoder, filters, patch, fields, bits, mirror, candidates : see
        `hopfed.neural.methods._bits.OnBits`.
    reading : "personal", a mixture with the client's own examples and class shares; "global", the
        same read-out for all; "alone", of the client's own examples only, with bits that all agreed
        on.
    ridge : "grid", by validation; "evidence" or "gcv", from the spectrum of the pooled operator.
    rank : "all" directions of the operator, or those that "marchenko-pastur" or "tracy-widom"
        distinguishes from noise.
    choose : "all", one setting for the federation; "own", each client mixes the settings that are
        likely on its own validation examples, and sends nothing about them.
    form : how an operator travels, see `hopfed.hopfield.encoding`: exact "counts", the `width`
        leading "factors", or a "sketch" of `width` columns.
    keep : whether the server keeps what each client gave, so that one can be forgotten.
    pooling : "equal", all examples count alike; "resembling", those of clients with other class
        means count less. For this the server must see the sums of each client.
    epsilon, delta : with epsilon above 0 counts get noise that makes them (epsilon, delta)-private
        for each example. A round draws it from the seed of the run, with which it comes off again:
        a simulation. What `Collected` keeps has noise from a secret.

    Raises
    ------
    ArgumentError : the data are not images, a patch is larger than they are, a setting is out of
        its range, or two settings exclude each other.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> method = Hebbian(TaskSpec(models=("mlp",), clients=2, examples=200), filters=8)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [9256, 9256]
    """

    reading: str = "personal"
    ridge: str = "grid"
    rank: str = "all"
    choose: str = "all"
    form: str = "counts"
    width: int = 64
    keep: bool = False
    pooling: str = "equal"
    epsilon: float = 0.0
    delta: float = 1e-5

    name: ClassVar[str] = "hebbian"
    source: ClassVar[str] = "proposed here"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, known in ALLOWED.items():
            got = getattr(self, name)
            require(got in known, name, f"one of {', '.join(known)}", repr(got))
        if self.encoder == "patches":  # a network is not made to be asked
            Encoding(self.n_bits, self.form, self.width)  # checks the width
        require(self.form == "counts" or not self.keep, "keep", "False but for counts", self.keep)
        if self.pooling != "equal":
            self._goes_with(UNEQUAL, f"where pooling is {self.pooling}")
        if self.candidates:
            self._goes_with({"form": "counts"}, "where candidates are chosen")
        require(self.epsilon >= 0, "epsilon", "at least 0", self.epsilon)
        if self.epsilon:
            self.private  # noqa: B018  (checks the budget)
            self._goes_with(PRIVATE, "where counts have noise")

    @property
    def exchanges(self) -> int:  # type: ignore[override]
        """Number of exchanges: those that agree on bits, one of sums, one of likelihoods."""
        return self.agreeing + 2

    def _goes_with(self, wanted: Mapping[str, object], where: str) -> None:
        """Refuse other values of settings, all in one line, so that one correction is enough."""
        wrong = [name for name, one in wanted.items() if getattr(self, name) != one]
        if wrong:
            first, *others = (f"{name} {wanted[name]}" for name in wrong)
            rule = " and ".join([first.partition(" ")[2], *others])
            got = ", ".join(str(getattr(self, name)) for name in wrong)
            raise ArgumentError(wrong[0], f"{rule} {where}", got)

    def choices(self) -> list[Choice]:
        """Settings that validation chooses from."""
        own = {"personal": OWN, "global": (0.0,), "alone": (-1.0,)}[self.reading]
        if self.choose == "own" and self.reading == "personal":
            own = (-1.0, *own)
        priors = PRIORS if self.reading == "personal" else (0.0,)
        return [Choice(*row) for row in product(self._ridges, own, SCALES, priors)]

    # What a client sends, exchange by exchange.

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer an exchange from the client's own examples."""
        client = context.client
        if client is None:
            raise ArgumentError("context", "that of a client", "none")
        spent = float(state.get("flops", 0.0)) if context.exchange else 0.0  # in this round
        if not self._asked(down, context):
            return state | {"flops": spent}, {}, {"flops": spent, "loss": float("nan")}
        if context.exchange < self.agreeing:
            message = self._agreeing_sums(context.exchange, down, client)
        elif context.exchange == self.agreeing:
            message = self._operator(down, client)
            state = dict(message)
            if self.epsilon:
                examples = self.bits_of(down, client, "train")
                message = self.private.release(*examples, context.rng("noise"))
        else:
            bits, _ = self.bits_of(down, client, "validation")
            found = self._likelihoods(state, down, client)
            message = {"likelihoods": found, "examples": np.asarray(len(bits))}
        spent += self._flops_of(context.exchange, client)
        if context.exchange == self.agreeing and self.choose == "own":
            spent += self._flops_of(context.exchange + 1, client)
        return state | {"flops": spent}, message, {"flops": spent, "loss": float("nan")}

    def _asked(self, down: Message, context: Context) -> bool:
        """Whether the client must answer; one that is in the sums already need not."""
        if context.exchange == self.agreeing:
            inside = context.client in np.asarray(down.get("members", ()))
            return self._agreed(down) and not inside
        if context.exchange > self.agreeing:
            known = "by_class" in down and "choice" not in down
            return self.choose == "all" and known
        return self._agrees(down, context.exchange)

    def _operator(self, down: Message, client: int) -> Message:
        return self._bit_sums(*self.bits_of(down, client, "train"), self._encoding)

    def _likelihoods(self, state: State, down: Message, client: int) -> np.ndarray:
        """Log-likelihood of the validation examples under each choice."""
        bits, labels = self.bits_of(down, client, "validation")
        if not len(labels):
            return np.zeros(len(self.choices()))
        own, pooled = self.own_sums(state, down, client), self.pooled_sums(down)
        shift = own.log_prior() - pooled.log_prior()
        scores = {
            weight: bits @ self._readouts(down, pooled, own, weight, self._ridges, client)
            for weight in {choice.own for choice in self.choices()}
        }
        found = []
        for choice in self.choices():
            at = self._ridges.index(choice.ridge)
            logs = log_probabilities(scores[choice.own][at], choice, shift)
            found.append(logs[np.arange(len(labels)), labels].sum())
        return np.array(found)

    def expects(self, down: Message, context: Context) -> Spec:
        """Sums of patches, of features, of bits; likelihoods of the settings; each only once."""
        if not self._asked(down, context):
            return {}
        if context.exchange < self.agreeing:
            return self._agreeing(context.exchange)
        if context.exchange > self.agreeing:
            likelihoods = Field((len(self.choices()),), "f", most=0)
            return {"likelihoods": likelihoods, "examples": Field((), "iu", least=0)}
        if self.epsilon:
            return self.private.spec
        return self._sums_spec(self._encoding)

    # What the server computes.

    def server_step(
        self, state: State, messages: Mapping[int, Message], context: Context
    ) -> tuple[State, Mapping[int, Message], Metrics]:
        """Draw filters, set thresholds, add operators, choose a setting."""
        said = {c: messages[c] for c in sorted(messages) if messages[c]}
        heard = list(said.values())
        if self.bits == "public" and "kernel" not in state:
            state = self.public()
        elif not heard:
            return state, {}, {}
        elif context.exchange < self.agreeing:
            state = self._agree(state, heard, context.exchange)
        elif context.exchange == self.agreeing:
            if self.form == "factors":  # their weights, so that they are those of a sum
                said = {c: m | {"values": m["values"] * m["examples"]} for c, m in said.items()}
            state = added(state, said, keep=self.keep or self.pooling != "equal")
        else:
            best = np.sum([m["likelihoods"] for m in heard], axis=0).argmax()
            state = dict(state) | {"choice": np.asarray(best)}
        down = self._down(state)
        if self.pooling == "equal" or "members" not in state:
            return state, {EVERYONE: down}, {}
        own = personal({int(c): gave(state, int(c)) for c in state["members"]})
        return state, {EVERYONE: down} | {c: down | sums for c, sums in own.items()}, {}

    def _down(self, state: State) -> Message:
        """What clients see of the server's state; pooled factors are cut to `width` again."""
        down = broadcast(state)
        if "vectors" in down:
            n, vectors = float(down["examples"]), down["vectors"]
            pooled = FactorOperator(self.n_bits, n, n, vectors, down["values"])
            down["values"], down["vectors"] = leading_factors(pooled, self.width)
        return down

    # What a client computes from the server's answer.

    def classifier(self, state: State, down: Message, client: int) -> Classifier:
        """The client's read-out; before a round is over all classes are equal to it.

        Where clients choose for themselves, it is a mixture of the settings that are likely.
        """
        if not self._known(down):
            return Readout.none(self.loaded.classes)
        own, pooled = self.own_sums(state, down, client), self.pooled_sums(down)
        shift, bits = own.log_prior() - pooled.log_prior(), self._bits(down)

        def made(k: int) -> Readout:
            choice = self.choices()[k]
            every = self._readouts(down, pooled, own, choice.own, self._ridges, client)
            return Readout(bits, every[self._ridges.index(choice.ridge)], choice, shift)

        if self.choose == "all":
            return made(int(down["choice"]))
        shares = softmax(self._kept_likelihoods(state, down, client))
        likely = np.flatnonzero(shares >= LIKELY * shares.max())
        return Mixture(tuple(made(int(k)) for k in likely), shares[likely] / shares[likely].sum())

    def _known(self, down: Message) -> bool:
        """Whether a client has all that it classifies with."""
        return "by_class" in down and (self.choose == "own" or "choice" in down)

    def _kept_likelihoods(self, state: State, down: Message, client: int) -> np.ndarray:
        """As `_likelihoods`, computed once for each message down."""
        key = self, "likelihoods", _of_sums(down), client
        found: np.ndarray = _FOUND.get(key, lambda: self._likelihoods(state, down, client))
        return found

    def _readouts(
        self,
        down: Message,
        pooled: Sums,
        own: Sums,
        weight: float,
        ridges: tuple[float, ...],
        client: int,
    ) -> np.ndarray:
        """Read-outs (R, D, C); those without the client's own examples are made once for all."""

        def made() -> np.ndarray:
            spectrum = Spectrum.of(pooled.beside(own, weight))
            if self.rank != "all":
                spectrum = spectrum.leading(count(spectrum, self.rank))
            if self.ridge == "grid":
                floor = self._floor(down, spectrum.examples) if weight >= 0 else 1.0
                return spectrum.readouts(tuple(rho * floor for rho in ridges))
            if weight <= 0:
                return spectrum.readouts((best_ridge(spectrum, self.ridge),))
            # The client's examples count several times here, so that the ridge is that of all.
            key = self, "ridge", _of_sums(down)
            of_all = _FOUND.get(key, lambda: best_ridge(Spectrum.of(pooled), self.ridge))
            return spectrum.readouts((of_all,))

        key = self, _of_sums(down), weight, ridges, client if weight else None
        found: np.ndarray = _READOUTS.get(key, made)
        return found

    def _floor(self, down: Message, examples: float) -> float:
        """Factor on ridges, so that noise on the operator changes a read-out little.

        It is 1 plus the radius of the noise's spectrum, per example, where
        `PrivateSums.predicted_accuracy` is near its maximum.
        """
        if not self.epsilon:
            return 1.0
        return 1.0 + self.private.radius(len(down["members"])) / max(examples, 1.0)

    @property
    def _ridges(self) -> tuple[float, ...]:
        if self.epsilon:
            return (1.0,)  # times `_floor`, which follows from the noise
        return RIDGES if self.ridge == "grid" else (0.0,)

    @property
    def _encoding(self) -> Encoding:
        seed = derive(self.task.seed, "sketch") % 2**31
        return Encoding(self.n_bits, self.form, self.width, seed)

    @property
    def private(self) -> PrivateSums:
        """The noise of the sums, where epsilon is above 0."""
        return PrivateSums(self.n_bits, self.loaded.classes, self.epsilon, self.delta)

    def pooled_sums(self, down: Message) -> Sums:
        """Sums of all members, as the server sends them."""
        if self.epsilon:
            return self.private.read(down)
        return self._read_sums(down, self._encoding)

    def own_sums(self, state: State, down: Message, client: int) -> Sums:
        """Sums of the client's own examples, also if it never took part."""
        message = state if "examples" in state else self._operator(down, client)
        return self._read_sums(message, self._encoding)

    def _flops_of(self, exchange: int, client: int) -> float:
        """Multiplications and additions of a step; only products of matrices are counted."""
        images = len(self.loaded.split.train[client])
        n = images * (1 + self.mirror)
        D, C = self.n_bits, self.loaded.classes
        sums = self._features_flops(n, self.filters) + n * D * (D + 2.0 * C)
        return (*self._agreeing_flops(images), sums, self._choosing_flops(client))[exchange]

    def _choosing_flops(self, client: int) -> float:  # noqa: ARG002
        return len({choice.own for choice in self.choices()}) * 10.0 * self.n_bits**3


def _of_sums(down: Message) -> bytes:
    """Digest of a message down without the setting that it names."""
    return digest({name: array for name, array in down.items() if name != "choice"})
