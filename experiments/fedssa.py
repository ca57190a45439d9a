"""FedSSA and its baselines: does averaging head rows by class help?

See theory/NOTES.md, "FedSSA head aggregation". Sections: `methods`; `M1`, without averaging by
class (A is LG-FedAvg, B with blending); `M2`, without blending (A uses the whole global head, B its
rows of seen classes); `stabilised for`, rounds with blending, literal (the printed sum) and
normalised; `classes`, `dirichlet`, `participation`.
"""

from __future__ import annotations

from typing import ClassVar

from hopfed.experiments.shared.cells import CellSettings, measure_round, panels, summarise, tables

__all__ = ["Config", "measure_round", "panels", "summarise", "tables"]


class Config(CellSettings):
    """Settings."""

    swept: ClassVar[tuple[str, ...]] = ("standalone", "fedproto", "lg-fedavg", "fedssa")

    @property
    def homogeneous(self) -> bool:
        """Whether all clients have one architecture."""
        return len(set(self.models)) == 1
