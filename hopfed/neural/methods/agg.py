"""AGG: every client trains on its own examples and on the public ones of all, without exchange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hopfed._lib.settings import require
from hopfed.federation.engines import Call
from hopfed.neural.method import client_of
from hopfed.neural.methods._stepwise import Stepwise
from hopfed.neural.training.training import Plan


@dataclass(frozen=True)
class AGG(Stepwise):
    """Aggregation, a baseline of FedH2L (arXiv:2101.11296); with `public` 0 it is its baseline IND.

    Source: theory/NOTES.md, "Baselines".

    A round of FedH2L learns from ``(E + N - 1) B`` images for E local steps, N nodes and
    minibatches of B; one step of AGG learns from B images. Set `images` to compare the two at equal
    numbers of images (theory/NOTES.md, "Domains and public data").

    Attributes
    ----------
    images : images per round, in minibatches of `training.batch`; 0 means one minibatch.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = AGG(task, Training(way="sequential"), images=64)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [0, 0]
    """

    images: int = 0

    name: ClassVar[str] = "agg"
    source: ClassVar[str] = "Li et al., 2021 (FedH2L), baseline AGG"

    def __post_init__(self) -> None:
        super().__post_init__()
        known = self.labelled or not self.public
        require(known, "labelled", "true for agg, which trains on public labels", self.labelled)
        require(self.images >= 0, "images", "at least 0", self.images)

    def plans(self, call: Call) -> dict[int, Plan]:
        """Return minibatches from the client's own examples and all public ones."""
        rows = self.rows(client_of(call.context), "all")
        images = self.images or self.training.batch
        return {0: self.minibatches(rows, call.context.rng("minibatches"), images)}
