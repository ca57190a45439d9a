"""FedSSA and its baselines: does averaging head rows by class help?

See theory/NOTES.md, "FedSSA head aggregation". Sections: `methods`; `M1`, without averaging by
class (A is LG-FedAvg, B with blending); `M2`, without blending (A uses the whole global head, B its
rows of seen classes); `stabilised for`, rounds with blending, literal (the printed sum) and
normalised; `classes`, `dirichlet`, `participation`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, ClassVar

from hopfed.experiments import Table, published
from hopfed.experiments.shared import cells as _cells
from hopfed.experiments.shared.cells import TABLE, Bench, measure_round, panels, summarise
from hopfed.experiments.sohip import SWEEPS as _ALL

__all__ = ["Config", "measure_round", "panels", "summarise", "tables"]

SWEEPS = {name: _ALL[name] for name in ("classes", "dirichlet", "participation")}
STABLE = "stabilised for"
STABILISED = [*product(("literal",), (1, 2)), *product(("normalised",), (2, 10, 20))]
SECTIONS = (TABLE, "M1", "M2", STABLE, *SWEEPS)
METHODS = {
    "standalone": "", "fd": "", "fedproto": "", "fml": "", "fedkd": "rounds={rounds}",
    "lg-fedavg": "", "fedclassavg": "", "fedssa": "",
}  # fmt: skip
SWEPT = ("standalone", "fedproto", "lg-fedavg", "fedssa")

# Rows of the paper's tables 1 (one architecture) and 2.
_ROWS = ("standalone", "fml", "fedkd", "lg-fedavg", "fedclassavg", "fd", "fedproto", "fedssa")
CLASSES = {"cifar10": "classes:2", "cifar100": "classes:10"}
RATES = {10: 1.0, 50: 0.2, 100: 0.1}


class Config(Bench):
    """Settings."""

    SECTIONS: ClassVar[tuple[str, ...]] = SECTIONS
    ALONE: ClassVar[tuple[str, ...]] = tuple(SWEEPS)

    @property
    def homogeneous(self) -> bool:
        """Whether all clients have one architecture."""
        return len(set(self.models)) == 1

    def planned(self) -> Iterator[Any]:
        """The table and its ablations, and the sweeps that are asked for in their order."""
        for row in (*METHODS, *["fedavg"] * self.homogeneous):
            yield TABLE, row, "", {"options": METHODS.get(row, "")}
        for family, row in product((s for s in self.sections if s in ("M1", "M2")), "AB"):
            own = f"ablation={family.lower()}-{row.lower()}"
            yield family, row, "", {"method": "fedssa", "options": own}
        for fusion, T in STABILISED:
            yield STABLE, fusion, T, {"method": "fedssa", "options": f"fusion={fusion},stable={T}"}
        for section in (s for s in self.sections if s in SWEEPS):
            name, values = SWEEPS[section]
            for row, value in product(SWEPT, values):
                changes = {"options": METHODS.get(row, ""), name: value}
                yield section, row, str(value).rpartition(":")[2], changes


def tables(config: Config, summary: dict[str, Any]) -> list[Table]:
    """The table of methods, with the paper's numbers if the setting is the paper's; the sweeps."""
    words = config.data.split("/")[-1].split("_")[0].split(".")
    kind = "homogeneous" if config.homogeneous else "heterogeneous"
    at = [d for d, part in CLASSES.items() if d in words and config.partition == part]
    theirs = at if config.rate == RATES.get(config.clients) else []
    held = "".join(published("fedssa").get(f"{kind} {d} {config.clients}", "") for d in theirs)
    return _cells.tables(config, summary, dict(zip(_ROWS, held.split(), strict=False)))
