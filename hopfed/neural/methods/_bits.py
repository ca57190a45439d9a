"""Base of the methods on bits: clients agree on filters and thresholds, from which bits follow.

This takes two exchanges: moments of patches, from which the server draws filters, and sums of
features, whose means are the thresholds. With `candidates` there are two more: the operator and
class sums of the first few filters, from which the server makes a read-out, and the sums of all
candidates' bits times its residuals, by which the server chooses filters
(`hopfed.neural.readouts.selection`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hopfed._lib.cache import Recent
from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.federation.contract import State
from hopfed.federation.messages import Field, Message, Spec, digest, nbytes
from hopfed.hopfield.encoding import Encoding
from hopfed.kernels import pack
from hopfed.neural.methods._closed_form import ClosedForm
from hopfed.neural.readouts.bits import Bits, Filters, Patches
from hopfed.neural.readouts.encoder import Encoder
from hopfed.neural.readouts.public_bits import public_bits
from hopfed.neural.readouts.ridge import Sums, readouts
from hopfed.neural.readouts.selection import RIDGE, STEPS, Selection
from hopfed.neural.training.cost import forward_flops

BITS = ("pooled", "public")
ENCODERS = ("patches", "network")
AGREED = ("kernel", "mean", "thresholds")  # what bits follow from; a network has no kernel

# (task, settings, filters and thresholds, client, part) -> bits and labels
_BITS = Recent(1 << 27, lambda found: sum(array.nbytes for array in found))
_SUMS = Recent(1 << 24, nbytes)  # the same, without thresholds and part -> sums of features


@dataclass(frozen=True)
class OnBits(ClosedForm):
    """Base of methods on bits of fixed features; settings of training have no effect on them.

    Attributes
    ----------
    encoder : "patches", random filters of image patches; "network", the first of `models`, with
        its initial weights or those that the task names, one bit for each of its features.
    filters : random filters of patches; each gives two features for each field.
    patch : side of a patch, in pixels.
    fields : number of fields in each direction over which responses are averaged.
    bits : "pooled", filters and thresholds follow from sums over the clients' images, in two
        exchanges; "public", from the seed alone.
    mirror : whether an image and its mirror image, left for right, are two examples to learn from,
        and the mean of their bits is read. For photographs; not for digits or letters.
    candidates : if above 0, this many filters are drawn, and `filters` of them are chosen by the
        residuals of a first read-out, in two further exchanges.
    """

    filters: int = 64
    patch: int = 3
    fields: int = 2
    encoder: str = "patches"
    bits: str = "pooled"
    mirror: bool = False
    candidates: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("filters", "patch", "fields"):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        require(self.bits in BITS, "bits", f"one of {', '.join(BITS)}", repr(self.bits))
        rule = f"one of {', '.join(ENCODERS)}"
        require(self.encoder in ENCODERS, "encoder", rule, repr(self.encoder))
        if self.encoder == "network":
            require(self.bits == "pooled", "bits", "pooled where a network encodes", self.bits)
            require(len(self.task.models) == 1, "models", "one, which encodes", self.task.models)
            require(not self.candidates, "candidates", "0 where a network encodes", self.candidates)
        if self.candidates:
            self.selection  # noqa: B018  (checks the numbers)
            require(self.bits == "pooled", "bits", "pooled where candidates are chosen", self.bits)

    @property
    def agreeing(self) -> int:
        """Exchanges in which clients agree on bits."""
        return 4 if self.candidates else 2

    @property
    def selection(self) -> Selection:
        """How filters are chosen from candidates."""
        return Selection(self.candidates, self.filters, self.fields**2)

    @property
    def patches(self) -> Patches:
        """Patches of the images."""
        data = self.loaded.split.dataset
        require(data.is_images, "data", "images", data.name)
        channels, height, width = data.shape
        rule = "images, not features (these take encoder=network)"
        require(height * width > 1, "data", rule, data.name)
        return Patches(channels, height, width, self.patch)

    @property
    def n_bits(self) -> int:
        """D: two bits for each filter and field, or one for each feature, and a constant."""
        if self.encoder == "network":
            return Encoder.of(self.task).length + 1
        return 2 * self.filters * self.fields**2 + 1

    def server_start(self, seed: int) -> State:
        """Nothing; but data of another kind, and patches too large for them, are refused here."""
        del seed
        if self.encoder == "patches":
            require(self.patches.length > 0, "patch", "at least one number", self.patch)
        data = self.loaded.split.dataset
        require(data.is_images or not self.mirror, "mirror", "false but for images", data.name)
        return {}

    # Agreeing on bits: when clients are asked, what they send, and what the server computes.

    def _agrees(self, down: Message, exchange: int) -> bool:
        """Whether clients are asked in an exchange, to agree on bits."""
        if self.bits == "public" or (self.encoder == "network" and exchange == 0):
            return False
        if exchange < 2:
            return ("kernel", "thresholds")[exchange] not in down
        ready = "thresholds" in down and not self._agreed(down)
        return ready and ("first" in down) == (exchange == 3)

    def _agreed(self, down: Message) -> bool:
        """Whether filters are chosen, if they are to be chosen from candidates."""
        if not self.candidates:
            return True
        return "kernel" in down and np.asarray(down["kernel"]).shape[1] == self.filters

    def _agreeing(self, exchange: int) -> Spec:
        """Form of their answers."""
        number = Field((), "iu", least=0)
        if exchange == 0:
            d = self.patches.length
            squares = Field((d * (d + 1) // 2,), "f")
            return {"total": Field((d,), "f"), "squares": squares, "patches": number}
        length = self.selection.length if self.candidates else self.n_bits - 1
        if exchange == 1:
            least = 0 if self.encoder == "patches" else None
            return {"sums": Field((length,), "f", least=least), "examples": number}
        if exchange == 2:
            return self._sums_spec(self._first_encoding)
        shape = length, self.loaded.classes
        sums = Field(shape, "i", within="examples", times=float(STEPS))
        return {"residuals": sums, "examples": number}

    def _agreeing_sums(self, exchange: int, down: Message, client: int) -> Message:
        """What a client answers."""
        if exchange == 0:
            return self._patch_sums(client)
        if exchange == 1:
            return self._feature_sums(down, client)
        if exchange == 2:
            first = self._only(down, np.arange(self.selection.first))
            return self._bit_sums(*self.bits_of(first, client, "train"), self._first_encoding)
        key = *self._features_key(down, (*AGREED, "first")), self.mirror, self.filters, client
        return dict(_SUMS.get(key, lambda: self._residual_sums(down, client)))

    def _agree(self, state: State, heard: Sequence[Message], exchange: int) -> State:
        """The state of the server with what follows from the answers."""
        if exchange < 2:
            return dict(state) | (self._drawn, self._thresholds)[exchange](heard)
        if exchange == 2:
            sums = [self._read_sums(message, self._first_encoding) for message in heard]
            W = readouts(sum(sums[1:], sums[0]), (RIDGE,))[0]
            return dict(state) | {"first": W.astype(np.float32)}
        total = np.asarray(np.sum([m["residuals"] for m in heard], axis=0, dtype=np.int64))
        rest = {name: array for name, array in state.items() if name != "first"}
        return rest | self._only(state, self.selection.chosen(total))

    @property
    def _first_encoding(self) -> Encoding:
        return Encoding(2 * self.selection.first * self.fields**2 + 1)

    def _only(self, down: Message, filters: np.ndarray) -> Message:
        """What bits of some of the candidates follow from."""
        kernel, thresholds = np.asarray(down["kernel"]), np.asarray(down["thresholds"])
        kept = thresholds[self.selection.columns(filters)]
        return {"kernel": kernel[:, filters], "mean": down["mean"], "thresholds": kept}

    def _bit_sums(self, bits: np.ndarray, labels: np.ndarray, encoding: Encoding) -> Message:
        """Operator and class sums of examples."""
        rows = pack(bits.astype(np.int8))
        sums = Sums.of(rows, labels, self.loaded.classes)
        by_class = {"by_class": sums.by_class.astype(np.int32), "classes": sums.counts}
        return encoding.encode(rows) | by_class

    def _sums_spec(self, encoding: Encoding) -> Spec:
        D, C = encoding.n_sites, self.loaded.classes
        return {
            **encoding.spec,
            "by_class": Field((D, C), "i", within="examples"),
            "classes": Field((C,), "i", least=0, within="examples"),
        }

    def _read_sums(self, message: Message, encoding: Encoding) -> Sums:
        operator = encoding.decode(message)
        return Sums(operator, np.asarray(message["by_class"]), np.asarray(message["classes"]))

    def _patch_sums(self, client: int) -> Message:
        data = self.loaded.tensors
        batches = (x for x, _ in data.batches(self.loaded.split.train[client]))
        total, squares, number = self.patches.moments(batches)
        low = squares[np.tril_indices(len(squares))]
        return {"total": total, "squares": low, "patches": np.asarray(number)}

    def _feature_sums(self, down: Message, client: int) -> Message:
        """Sums of features; methods that are compared on the same bits have them once."""
        key = *self._features_key(down, AGREED[:2]), client
        return dict(_SUMS.get(key, lambda: self._summed(self._features(down), client)))

    def _summed(self, features: Filters | Encoder, client: int) -> Message:
        total, rows = np.zeros(features.length), self.loaded.split.train[client]
        for x, _ in self.loaded.tensors.batches(rows):
            total += features(x).double().sum(dim=0).cpu().numpy()
        total.flags.writeable = False
        return {"sums": total, "examples": np.asarray(len(rows))}

    def _residual_sums(self, down: Message, client: int) -> Message:
        # The bits of all candidates are many, and nobody asks for them again.
        rows, W = self.loaded.split.train[client], np.asarray(down["first"], np.float64)
        bits, labels = self._bits(down).of(self.loaded.tensors, rows, learn=True)
        sums = self.selection.residual_sums(bits, labels, W)
        sums.flags.writeable = False
        return {"residuals": sums, "examples": np.asarray(len(labels))}

    def _drawn(self, heard: Sequence[Message]) -> State:
        d = self.patches.length
        low = np.sum([m["squares"] for m in heard], axis=0)
        squares = np.zeros((d, d))
        squares[np.tril_indices(d)] = low
        squares = squares + np.tril(squares, -1).T
        number = max(sum(int(m["patches"]) for m in heard), 1)
        total = np.sum([m["total"] for m in heard], axis=0)
        rng = stream(self.task.seed, "filters")
        moments, drawn = (total, squares, float(number)), self.candidates or self.filters
        made = Filters.drawn(self.patches, moments, drawn, self.fields, rng)
        return {"kernel": made.kernel, "mean": made.mean}

    def _thresholds(self, heard: Sequence[Message]) -> State:
        examples = sum(int(m["examples"]) for m in heard)
        total = np.sum([m["sums"] for m in heard], axis=0)
        return {"thresholds": (total / max(examples, 1)).astype(np.float32)}

    def public(self) -> State:
        """Filters and thresholds that the seed alone decides."""
        task = self.task
        made, thresholds = public_bits(self.patches, self.filters, self.fields, task.seed)
        return {"kernel": made.kernel, "mean": made.mean, "thresholds": thresholds}

    def _features(self, down: Message) -> Filters | Encoder:
        if self.encoder == "network":
            return Encoder.of(self.task)
        return Filters(self.patches, down["kernel"], down["mean"], self.fields)

    def _features_key(self, down: Message, names: Sequence[str]) -> tuple[object, ...]:
        """What tells features, or bits, from those of other settings."""
        agreed = digest({name: down[name] for name in names if name in down})
        return self.task, self.encoder, self.patch, self.fields, agreed

    def _bits(self, down: Message) -> Bits:
        return Bits(self._features(down), np.asarray(down["thresholds"]), self.mirror)

    def bits_of(self, down: Message, client: int, part: str) -> tuple[np.ndarray, np.ndarray]:
        """Bits (n, D) float32 and labels (n,) of a part of the client's examples.

        With `mirror`, those of training are of each image and of each mirror image.
        """
        rows = getattr(self.loaded.split, part)[client]
        bits, labels = _BITS.get(
            (*self._features_key(down, AGREED), self.mirror, client, part),
            lambda: self._bits(down).of(self.loaded.tensors, rows, learn=part == "train"),
        )
        return bits, labels

    def _features_flops(self, n: int, filters: int) -> float:
        """Multiplications and additions of the features of n examples."""
        if self.encoder == "network":
            return float(n * forward_flops(self.task, self.task.models[0]))
        p = self.patches
        return 2.0 * n * _positions(p) * p.length * filters

    def _agreeing_flops(self, images: int) -> tuple[float, ...]:
        """Of the exchanges in which clients agree; mirror images count from the third on."""
        moments = 0.0
        if self.encoder == "patches":
            p = self.patches
            moments = 2.0 * images * _positions(p) / 9 * p.length**2
        if not self.candidates:
            return moments, self._features_flops(images, self.filters)
        n, C = images * (1 + self.mirror), self.loaded.classes
        D, length = self._first_encoding.n_sites, self.selection.length
        first = self._features_flops(n, self.selection.first) + n * D * (D + 2.0 * C)
        residuals = self._features_flops(n, self.candidates) + 2.0 * n * C * (D + length)
        return moments, self._features_flops(images, self.candidates), first, residuals


def _positions(patches: Patches) -> int:
    """Patches of an image."""
    return (patches.height - patches.size + 1) * (patches.width - patches.size + 1)
