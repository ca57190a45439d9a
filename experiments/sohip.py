"""SoHip, its baselines and a control: does a shared memory help?

In a test the paper's memory is an offset of the logits; `standalone-bias` learns one directly. See
theory/NOTES.md, "SoHip memory" and "SoHip with a linear head". Sections: `methods`; `ablation` (A
no importance gate, B no consolidation, C no collective memory, D no memory); `mlp head`, for which
the memory is no offset; and sweeps of the rows `swept`: `m`, `classes`, `dirichlet`,
`participation`, `learning rate`, `initialisation`, `augmentation`.
"""

from __future__ import annotations

from typing import Annotated, Any

from hopfed.experiments import Table, published
from hopfed.experiments.settings import Words
from hopfed.experiments.shared import cells as _cells
from hopfed.experiments.shared.cells import Bench, measure_round, panels, summarise, table_rows

__all__ = ["Config", "measure_round", "panels", "summarise", "tables"]

_ROWS = ("standalone", "fedproto", "fedssa", "fedral", "fedkd", "fedmrl", "pfedes", "sohip")


class Config(Bench):
    """Settings."""

    m: Annotated[int, "numbers in a memory"] = 64
    swept: Annotated[Words, table_rows, "rows of the sweeps, but that of m"] = (
        "standalone", "fedmrl", "sohip",
    )  # fmt: skip


def tables(config: Config, summary: dict[str, Any]) -> list[Table]:
    """The table of methods, with the paper's numbers if the setting is the paper's; the sweeps."""
    theirs = "cifar100" in config.data and config.partition == "classes:10" and config.rate == 0.1
    held = published("sohip").get(str(config.clients), "") if theirs else ""
    return _cells.tables(config, summary, dict(zip(_ROWS, held.split("|"), strict=False)))
