"""SoHip, its baselines and a control: does a shared memory help?

In a test the paper's memory is an offset of the logits; `standalone-bias` learns one directly. See
theory/NOTES.md, "SoHip memory" and "SoHip with a linear head". Sections: `methods`; `ablation` (A
no importance gate, B no consolidation, C no collective memory, D no memory); `mlp head`, for which
the memory is no offset; and sweeps of the rows `swept`: `m`, `classes`, `dirichlet`,
`participation`, `learning rate`, `initialisation`, `augmentation`.
"""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any, ClassVar

from hopfed.experiments import Table, published
from hopfed.experiments.settings import Words, among
from hopfed.experiments.shared import cells as _cells
from hopfed.experiments.shared.cell_pictures import panels
from hopfed.experiments.shared.cells import TABLE, Bench, Cell, measure_round, summarise

__all__ = ["Config", "measure_round", "panels", "summarise", "tables"]

SWEEPS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "m": ("m", (8, 32, 128)),
    "classes": ("partition", ("classes:2", "classes:4", "classes:6", "classes:8")),
    "dirichlet": ("partition", ("dirichlet:0.1", "dirichlet:0.3", "dirichlet:0.5")),
    "participation": ("rate", (0.2, 0.5, 1.0)),
    "learning rate": ("lr", (0.003, 0.01, 0.03)),
    "initialisation": ("init", ("auto", "own")),
    "augmentation": ("augment", (False, True)),
}
SECTIONS = (TABLE, "ablation", "mlp head", *SWEEPS)
WORDS = {("augment", False): "no", ("augment", True): "yes", ("init", "auto"): "he"}
_PLAIN = (
    "standalone", "standalone-bias", "lg-fedavg", "fedproto", "fedssa", "fedral", "fedkd", "fedmrl",
    "pfedes", "sohip",
)  # fmt: skip
METHODS = {  # row -> method and its options; {rounds} is the number of rounds
    **{name: (name, "rounds={rounds}" * (name == "fedkd")) for name in _PLAIN},
    "sohip not collective": ("sohip", "ablation=c"),
    "proposed: by sample": ("sohip", "memory=sample"),
}
MLP = {
    "standalone": ("sohip", "ablation=d,head=mlp"),
    "standalone-bias": ("standalone-bias", "head=mlp"),
    "sohip": ("sohip", "head=mlp"),
}

_ROWS = ("standalone", "fedproto", "fedssa", "fedral", "fedkd", "fedmrl", "pfedes", "sohip")


class Config(Bench):
    """Settings."""

    m: Annotated[int, "numbers in a memory"] = 64
    swept: Annotated[Words, among(METHODS), "rows of the sweeps, but that of m"] = (
        "standalone", "fedmrl", "sohip",
    )  # fmt: skip

    SECTIONS: ClassVar[tuple[str, ...]] = SECTIONS
    ALONE: ClassVar[tuple[str, ...]] = tuple(section for section in SWEEPS if section != "m")

    def cells(self) -> tuple[Cell, ...]:
        """Cells of the requested sections, in their order."""
        ablations = {name: ("sohip", f"ablation={name.lower()}") for name in "ABCD"}
        made = [
            self._cell(section, row, *what)
            for section, rows in ((TABLE, METHODS), ("ablation", ablations), ("mlp head", MLP))
            if section in self.sections
            for row, what in rows.items()
        ]
        for section in (s for s in self.sections if s in SWEEPS):
            name, values = SWEEPS[section]
            for row, value in product(("sohip",) if name == "m" else self.swept, values):
                at = WORDS.get((name, value)) or str(value).rpartition(":")[2]
                made.append(self._cell(section, row, *METHODS[row], at=at, **{name: value}))
        return tuple(made)

    def _cell(
        self, section: str, row: str, method: str, options: str, at: str = "", **changes: Any
    ) -> Cell:
        m = changes.pop("m", self.m)
        own = f"m={m}" if method == "sohip" else ""
        own = ",".join(part for part in (options.format(rounds=self.rounds), own) if part)
        return self.cell(section, row, at, method=method, options=own, **changes)


def tables(config: Config, summary: dict[str, Any]) -> list[Table]:
    """The table of methods, with the paper's numbers if the setting is the paper's; the sweeps."""
    theirs = "cifar100" in config.data and config.partition == "classes:10" and config.rate == 0.1
    held = published("sohip").get(str(config.clients), "") if theirs else ""
    return _cells.tables(config, summary, dict(zip(_ROWS, held.split("|"), strict=False)))
