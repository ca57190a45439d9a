"""SoHip, its baselines and a control: does a shared memory help?

In a test the paper's memory is an offset of the logits; `standalone-bias` learns one directly. See
theory/NOTES.md, "SoHip memory". Sections: `methods`; `ablation` (A no importance gate, B no
consolidation, C no collective memory, D no memory); `mlp head`, for which the memory is no offset;
and sweeps of the rows `swept`: `m`, `classes`, `dirichlet`, `participation`, `learning rate`,
`initialisation`, `augmentation`.
"""

from __future__ import annotations

from typing import Annotated

from hopfed.experiments.machinery.settings import Words
from hopfed.experiments.shared.cells import CellSettings, measure_round, panels, summarise, tables

__all__ = ["Config", "measure_round", "panels", "summarise", "tables"]


class Config(CellSettings):
    """Settings."""

    m: Annotated[int, "numbers in a memory"]
    swept: Annotated[Words, "rows of the sweeps other than that of m"]
