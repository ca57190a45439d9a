"""HTML page about run files: one self-contained file that needs no network.

Figures are vector graphics, which a click enlarges. The page contains each run's arrays and summary
as downloads. It follows the reader's light or dark scheme, and can be printed. Every text of a run
is escaped, and shown as one harmless line. For archetypes the answer comes first, then the rows,
then the evidence.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from hopfed._lib.arrays import to_host
from hopfed._lib.settings import describe
from hopfed.archetypes import display, run_file
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.assignment import ALPHA, table_of
from hopfed.errors import safe_line
from hopfed.experiments import CLAIMS
from hopfed.report.tables import compare_summaries, differing_rows, tables_of
from hopfed.runs import Run, blame_file
from hopfed.spectral.rows import seen_times

MOST = 16 << 20  # largest number of bytes of compressed arrays in a page
NAME = 200  # characters of the name of a row
NONE = "none of these"
TEXT = 10_000  # characters of any text


def _harmless(value: Any) -> Any:
    """A value without characters that steer a terminal; markup stays as it is."""
    return value if isinstance(value, Markup) else safe_line(value, TEXT)


def _pluses(found: Archetypes) -> list[str]:
    """Meaning of +1 in each column, where the coding of a table says it."""
    codes = () if found.coding is None else found.coding.codes
    return [code.said(1) or "as named" for code in codes for _ in range(code.width)]


def _clients(run: Run, sizes: Sequence[int]) -> list[str]:
    """File names of clients, if each client has one and all differ."""
    files = [Path(str(path)).name for path in run.config.get("files") or []]
    return files if len(set(files)) == len(files) == len(sizes) else []


PARTS = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_harmless,
)
PARTS.globals |= {
    "ALIKE": display.ALIKE,
    "CERTAIN": display.CERTAIN,
    "NONE": NONE,
    "brief": partial(safe_line, most=display.LONGEST),
    "isfinite": np.isfinite,
    "median": np.median,
    "names_of": run_file.names_of,
    "names_of_clients": _clients,
    "no_columns": display.no_columns,
    "pluses_of": _pluses,
    "sides_of": display.sides_of,
    "telling": display.tell_apart,
}


def render_macro(part: str, *values: Any) -> Markup:
    """Return a part of the HTML page, a macro of parts.html, as markup."""
    made: Markup = getattr(PARTS.get_template("parts.html").module, part)(*values)
    return made


@dataclass(frozen=True)
class Answers:
    """Assignment of the M rows of some tables to archetypes, one table after the other.

    By row: its name or number, its nearest archetype (-1 for none of these), the probability of
    that one, and the number of missing entries (gaps) of those `asked`; `sizes` of each table.
    """

    files: tuple[str, ...]
    names: list[Any]
    archetype: np.ndarray
    probability: np.ndarray
    gaps: np.ndarray
    asked: int
    sizes: tuple[int, ...]
    found: Archetypes = field(repr=False)

    def counts(self) -> np.ndarray:
        """Return numbers of rows of each table (L, K + 1): of none, and of each of K archetypes."""
        parts = np.split(self.archetype + 1, np.cumsum(self.sizes)[:-1])
        return np.array([np.bincount(part, minlength=len(self.found) + 1) for part in parts])

    def lines(self, files: Sequence[str]) -> list[tuple[Any, ...]]:
        """Rows (file, name, archetype from 1 on or 0 for none, probability, gaps)."""
        names = [safe_line(name, NAME) for name in self.names]
        each = (files[i] for i in np.repeat(np.arange(len(files)), self.sizes).tolist())
        numbers = (self.archetype + 1).tolist(), self.probability.tolist(), self.gaps.tolist()
        return list(zip(each, names, *numbers, strict=True))


def assign_rows(found: Archetypes, files: Sequence[str | Path], alpha: float = ALPHA) -> Answers:
    """For the page about runs: assign rows of tables, read as that of the archetypes."""
    names: list[Any] = []
    assigned, gaps, sizes = [], [], []
    for path in files:
        table = table_of(found, path)
        assigned.append(found.assign(table, alpha=alpha))
        names += range(1, len(table) + 1) if table.ids is None else table.ids.tolist()
        asked = np.ones(table.shape[1])
        asked[table.coding.later] = 0.0
        seen = to_host(seen_times(table.held, asked))
        gaps.append(np.rint(asked.sum() - seen).astype(np.int64).ravel())
        sizes.append(len(table))
    archetype = np.concatenate([each.archetype for each in assigned])
    probability = np.concatenate([each.probability for each in assigned])
    held = tuple(map(str, files)), names, archetype, probability
    return Answers(*held, np.concatenate(gaps), int(asked.sum()), tuple(sizes), found)


def report_page(runs: Mapping[str, Run], answers: Answers | None = None) -> str:
    """Return the HTML page about `runs`, a mapping from file name to complete run.

    By its policy a browser loads nothing for the page, and runs no script other than the page's
    own.
    """
    held, body = list(runs.values()), []
    kinds = list(dict.fromkeys(run.kind for run in held))
    if len(runs) > 1 and len(kinds) == 1:
        with blame_file(", ".join(runs), kinds[0]):
            differ = differing_rows([run.config for run in held])
            several = list(runs), differ, compare_summaries(held), _figure(held)
            body.append(render_macro("comparison", *several))
    for order, (name, run) in enumerate(runs.items()):
        with blame_file(name, run.kind):
            body.append(_section(name, run, order, answers))
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    prints = {tag: _fingerprint(template, tag) for tag in ("style", "script")}
    title = f"hopfed: {', '.join(kinds)}"
    return PARTS.from_string(template).render(title=title, body=body, prints=prints)


def _fingerprint(template: str, tag: str) -> Markup:
    """Hash of the content of a tag, by which the policy of the page allows it."""
    inner = template.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
    return Markup(f"'sha256-{base64.b64encode(sha256(inner.encode()).digest()).decode()}'")


def _section(name: str, run: Run, order: int, answers: Answers | None) -> Markup:
    """Section of one run: its claim, results, figure, settings, versions and data."""
    own = run.kind == run_file.KIND
    # The figure of a recovery shows its patterns, or the spectrum without any.
    drawn = (
        not own or len(run.arrays["archetypes/patterns"]) or "spectrum/eigenvalues" in run.arrays
    )
    told: Any = ""
    if own or run_file.has_archetypes(run):
        found = run_file.read_run(run, name) if answers is None else answers.found
        files = [] if answers is None else [safe_line(Path(p).name, NAME) for p in answers.files]
        told = render_macro("recovered", found, run, answers, files, own)
    results = told, tables_of(run), own, _figure([run]) if drawn else ""
    settings = [(key, describe(value)) for key, value in run.config.items()]
    shapes = [(n, f"{a.dtype} {list(a.shape)}") for n, a in sorted(run.arrays.items())]
    about = order, name, run, CLAIMS.get(run.kind)
    return render_macro("section", *about, *results, settings, shapes, _downloads(name, run))


def _figure(runs: Sequence[Run]) -> str:
    """Address of the figure of one run, or of several together; empty where there is none."""
    from hopfed.experiments.machinery.pictures import draw_runs

    figure = draw_runs(runs, whole=True)
    if figure is None:
        return ""
    buffer = io.BytesIO()
    # The figure holds no date, so that the same run always gives the same page.
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return _address("image/svg+xml", buffer.getvalue())


def _downloads(name: str, run: Run) -> list[tuple[str, str, Markup]]:
    """Downloads of a run: words, a name, and an address; no arrays too large for a page."""
    held = {"kind": run.kind, "config": run.config, "summary": run.summary}
    text = json.dumps(held | {"provenance": run.provenance}, indent=1).encode()
    buffer, stem = io.BytesIO(), name.rpartition(".")[0] or name
    # HDF5 marks strings by metadata of the dtype, which .npz cannot store.
    plain = {n.replace("/", "."): a.astype(a.dtype.str) for n, a in run.arrays.items()}
    np.savez_compressed(buffer, **plain)  # type: ignore[arg-type]
    summary = _address("application/json", text)
    links = [("settings and summary (.json)", f"{stem}.json", summary)]
    if buffer.tell() <= MOST:
        arrays = _address("application/octet-stream", buffer.getvalue())
        links.append(("all arrays, including those of the figure (.npz)", f"{stem}.npz", arrays))
    return links


def _address(kind: str, data: bytes) -> Markup:
    return Markup(f"data:{kind};base64,{base64.b64encode(data).decode()}")
