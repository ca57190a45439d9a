"""SoHip, its baselines and a control: does a shared memory help?

In a test the paper's memory is an offset of the logits; `standalone-bias` learns one directly. See
theory/NOTES.md, "SoHip memory" and "SoHip with a linear head". Sections: `methods`; `ablation` (A
no importance gate, B no consolidation, C no collective memory, D no memory); `mlp head`, for which
the memory is no offset; and sweeps of the rows `swept`: `m`, `classes`, `dirichlet`,
`participation`, `learning rate`, `initialisation`, `augmentation`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Annotated, Any, ClassVar

from hopfed.experiments import Table, published
from hopfed.experiments.settings import Words, among
from hopfed.experiments.shared import cells as _cells
from hopfed.experiments.shared.cells import TABLE, Bench, measure_round, panels, summarise

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
    "pfedes",
)  # fmt: skip
METHODS = {  # row -> method and its options; {rounds} is the number of rounds
    **{name: (name, "rounds={rounds}" * (name == "fedkd")) for name in _PLAIN},
    "sohip": ("sohip", "m={m}"),
    "sohip not collective": ("sohip", "ablation=c,m={m}"),
    "proposed: by sample": ("sohip", "memory=sample,m={m}"),
}
MLP = {
    "standalone": ("sohip", "ablation=d,head=mlp,m={m}"),
    "standalone-bias": ("standalone-bias", "head=mlp"),
    "sohip": ("sohip", "head=mlp,m={m}"),
}
ABLATIONS = {name: ("sohip", f"ablation={name.lower()},m={{m}}") for name in "ABCD"}

_ROWS = ("standalone", "fedproto", "fedssa", "fedral", "fedkd", "fedmrl", "pfedes", "sohip")


class Config(Bench):
    """Settings."""

    m: Annotated[int, "numbers in a memory"] = 64
    swept: Annotated[Words, among(METHODS), "rows of the sweeps, but that of m"] = (
        "standalone", "fedmrl", "sohip",
    )  # fmt: skip

    SECTIONS: ClassVar[tuple[str, ...]] = SECTIONS
    ALONE: ClassVar[tuple[str, ...]] = tuple(section for section in SWEEPS if section != "m")

    def planned(self) -> Iterator[Any]:
        """The tables, and the sweeps that are asked for in their order."""
        for section, rows in ((TABLE, METHODS), ("ablation", ABLATIONS), ("mlp head", MLP)):
            for row, (method, options) in rows.items():
                yield section, row, "", {"method": method, "options": options}
        for section in (s for s in self.sections if s in SWEEPS):
            name, values = SWEEPS[section]
            for row, value in product(("sohip",) if name == "m" else self.swept, values):
                at = WORDS.get((name, value)) or str(value).rpartition(":")[2]
                method, options = METHODS[row]
                options = options.replace("{m}", str(value)) if name == "m" else options
                changes = {} if name == "m" else {name: value}
                yield section, row, at, {"method": method, "options": options} | changes


def tables(config: Config, summary: dict[str, Any]) -> list[Table]:
    """The table of methods, with the paper's numbers if the setting is the paper's; the sweeps."""
    theirs = "cifar100" in config.data and config.partition == "classes:10" and config.rate == 0.1
    held = published("sohip").get(str(config.clients), "") if theirs else ""
    return _cells.tables(config, summary, dict(zip(_ROWS, held.split("|"), strict=False)))
