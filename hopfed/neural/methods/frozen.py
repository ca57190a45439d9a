"""Other personal classifiers on the bits of the Hebbian read-out, which are fixed features.

They separate what the features contribute to the accuracy from what the read-out contributes. The
methods below were published with networks that are trained over rounds. Here they use the bits,
sums and exchanges of `hopfed.neural.methods.hebbian`, and nothing is trained:

- "prototypes": the nearest of the class means over all clients, as FedProto classifies (Tan et al.,
  AAAI 2022);
- "neighbours": the read-out of all, with the ridge of generalised cross-validation, mixed with the
  nearest of the client's own examples, as in kNN-Per (arXiv:2111.09360, eq. (7));
- "process": a Gaussian process of the client's own examples, whose kernel all share, as in pFedGP
  (Achituve et al., NeurIPS 2021; `hopfed.neural.methods.pfedgp` has what is simpler here).

Their few settings are chosen like those of the read-out: one for all, by the likelihood of all
validation examples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.special import log_softmax
from torch import Tensor

from hopfed._lib.settings import require
from hopfed.federation.contract import State
from hopfed.federation.messages import Message
from hopfed.neural.memory.gaussian import process
from hopfed.neural.memory.neighbours import Index, Neighbours, mix
from hopfed.neural.methods.hebbian import SCALES, Hebbian
from hopfed.neural.readouts.bits import Bits
from hopfed.neural.readouts.evidence import best_ridge
from hopfed.neural.readouts.ridge import Readout, Spectrum
from hopfed.neural.training.evaluation import Classifier

__all__ = ["Frozen"]

SIGMA = 0.2  # of the kernel of neighbours, at distances from 0 to 2
FLOOR = 1e-4  # probability of a class that no neighbour has
GRIDS: dict[str, list[tuple[float, ...]]] = {
    "prototypes": [(scale,) for scale in SCALES],
    "neighbours": list(product((0.0, 0.25, 0.5, 0.75, 1.0), SCALES[1:4])),
    "process": list(product((-1.0, -0.5, 0.0), (0.0, 1.5, 3.0))),
}

Scores = Callable[[np.ndarray], np.ndarray]  # bits (Q, D) -> log-probabilities (Q, C)


@dataclass(frozen=True, eq=False)
class Reader:
    """A classifier of images by their bits."""

    bits: Bits
    scores: Scores = field(repr=False)

    def __call__(self, x: Tensor) -> Tensor:
        """Return log-probabilities (B, classes), float64."""
        return torch.as_tensor(self.scores(self.bits(x).cpu().numpy()), device=x.device)


@dataclass(frozen=True)
class Frozen(Hebbian):
    """Nearest prototypes, nearest neighbours or Gaussian processes on fixed bits.

    Attributes
    ----------
    reader : "prototypes", "neighbours" or "process".
    k : neighbours.
    most : most examples of a process, which is cubic in their number; the first ones.
    filters, patch, fields, bits : see `hopfed.neural.methods.hebbian.Hebbian`; its other settings
        have no effect.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> method = Frozen(TaskSpec(models=("mlp",), clients=2, examples=200), filters=8)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [7936, 7936]
    """

    reader: str = "neighbours"
    k: int = 10
    most: int = 500

    name: ClassVar[str] = "frozen"
    source: ClassVar[str] = "kNN-Per, pFedGP and FedProto on fixed bits"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.reader in GRIDS, "reader", f"one of {', '.join(GRIDS)}", repr(self.reader))
        for name in ("k", "most"):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))

    def choices(self) -> list[Any]:
        """Settings that validation chooses from: tuples of numbers, by the reader."""
        return list(GRIDS[self.reader])

    def classifier(self, state: State, down: Message, client: int) -> Classifier:
        """The client's reader; before a round is over all classes are equal to it."""
        if not self._known(down):
            return Readout.none(self.loaded.classes)
        own = self.choose == "own"
        best = self._kept_likelihoods(state, down, client).argmax() if own else down["choice"]
        setting = self.choices()[int(best)]
        return Reader(self._bits(down), self._reader(down, client)(setting))

    def _likelihoods(self, state: State, down: Message, client: int) -> np.ndarray:  # noqa: ARG002
        bits, labels = self.bits_of(down, client, "validation")
        if not len(labels):
            return np.zeros(len(self.choices()))
        reader, at = self._reader(down, client), np.arange(len(labels))
        return np.array([reader(c)(bits)[at, labels].sum() for c in self.choices()])

    def _reader(self, down: Message, client: int) -> Callable[[tuple[float, ...]], Scores]:
        """From a setting to the scores of bits."""
        if self.reader == "prototypes":
            return self._prototypes(down)
        bits, labels = self.bits_of(down, client, "train")
        return (
            self._neighbours(down, bits, labels)
            if self.reader == "neighbours"
            else self._process(bits[: self.most], labels[: self.most])
        )

    def _prototypes(self, down: Message) -> Callable[[tuple[float, ...]], Scores]:
        sums = self.pooled_sums(down)
        means = sums.by_class / np.maximum(sums.counts, 1)
        unknown = np.where(sums.counts > 0, 0.0, -np.inf)
        offset = (means**2).sum(axis=0) / 2

        def scores(setting: tuple[float, ...]) -> Scores:
            scale = setting[0] * 10 / len(means)
            return lambda z: _logs(scale * (z @ means - offset) + unknown)

        return scores

    def _neighbours(
        self, down: Message, bits: np.ndarray, labels: np.ndarray
    ) -> Callable[[tuple[float, ...]], Scores]:
        spectrum = Spectrum.of(self.pooled_sums(down))
        W = spectrum.readouts((best_ridge(spectrum, "gcv"),))[0]
        root, classes = np.float32(np.sqrt(self.n_bits)), self.loaded.classes
        index = Index(bits / root) if len(labels) else None
        k = min(self.k, len(labels))

        def scores(setting: tuple[float, ...]) -> Scores:
            weight, scale = setting
            if index is None or weight == 0:
                return lambda z: _logs(scale * (z @ W))
            near = Neighbours(index, labels, classes, k, "paper", SIGMA)

            def mixed(z: np.ndarray) -> np.ndarray:
                votes = near(z / root) * (1 - classes * FLOOR) + FLOOR
                return mix(scale * (z @ W), votes, weight, "probabilities")

            return mixed

        return scores

    def _process(
        self, bits: np.ndarray, labels: np.ndarray
    ) -> Callable[[tuple[float, ...]], Scores]:
        classes = self.loaded.classes
        seen, told = torch.as_tensor(bits), torch.as_tensor(labels)

        def scores(setting: tuple[float, ...]) -> Scores:
            if not len(labels):
                return lambda z: _logs(np.zeros((len(z), classes)))
            kernel = (torch.tensor([number]) for number in setting)
            posterior = process(seen, told, classes, *kernel)
            return lambda z: posterior(torch.as_tensor(z)).numpy()

        return scores

    def _choosing_flops(self, client: int) -> float:
        n, settings = len(self.loaded.split.train[client]), len(self.choices())
        held, D = len(self.loaded.split.validation[client]), float(self.n_bits)
        if self.reader == "process":
            m = float(min(n, self.most))
            return settings * (m**3 / 3 + (m + held) * m * 2 * D)
        kept = n if self.reader == "neighbours" else self.loaded.classes
        spectrum = 10 * D**3 if self.reader == "neighbours" else 0.0
        return spectrum + settings * held * 2 * D * (kept + self.loaded.classes)


def _logs(scores: np.ndarray) -> np.ndarray:
    return np.asarray(log_softmax(scores, axis=1))
