"""FedSSA and its baselines: does averaging head rows by class help?

See theory/NOTES.md, "FedSSA head aggregation". Sections: `methods`; `M1`, without averaging by
class (A is LG-FedAvg, B with blending); `M2`, without blending (A uses the whole global head, B its
rows of seen classes); `stabilised for`, rounds with blending, literal (the printed sum) and
normalised; `classes`, `dirichlet`, `participation`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from hopfed.experiments import Table, published
from hopfed.experiments.shared import cells as _cells
from hopfed.experiments.shared.cells import Bench, measure_round, panels, summarise

__all__ = ["Config", "measure_round", "panels", "summarise", "tables"]

METHODS = (
    "standalone", "fd", "fedproto", "fml", "fedkd", "lg-fedavg", "fedclassavg", "fedssa",
)  # fmt: skip

# Rows of the paper's tables 1 (one architecture) and 2.
_ROWS = ("standalone", "fml", "fedkd", "lg-fedavg", "fedclassavg", "fd", "fedproto", "fedssa")
CLASSES = {"cifar10": "classes:2", "cifar100": "classes:10"}
RATES = {10: 1.0, 50: 0.2, 100: 0.1}


class Config(Bench):
    """Settings."""

    swept: ClassVar[tuple[str, ...]] = ("standalone", "fedproto", "lg-fedavg", "fedssa")

    @property
    def homogeneous(self) -> bool:
        """Whether all clients have one architecture."""
        return len(set(self.models)) == 1

    @property
    def every_row(self) -> tuple[str, ...]:
        """Rows of the table of methods."""
        return (*METHODS, *["fedavg"] * self.homogeneous)


def tables(config: Config, summary: dict[str, Any]) -> list[Table]:
    """The table of methods, with the paper's numbers if the setting is the paper's; the sweeps."""
    words = config.data.split("/")[-1].split("_")[0].split(".")
    kind = "homogeneous" if config.homogeneous else "heterogeneous"
    at = [d for d, part in CLASSES.items() if d in words and config.partition == part]
    theirs = at if config.rate == RATES.get(config.clients) else []
    held = "".join(published("fedssa").get(f"{kind} {d} {config.clients}", "") for d in theirs)
    return _cells.tables(config, summary, dict(zip(_ROWS, held.split(), strict=False)))
