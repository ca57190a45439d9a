"""HTML page about run files: one self-contained file that needs no network.

Figures are vector graphics, which a click enlarges. The page contains each run's arrays and summary
as downloads. It follows the reader's light or dark scheme, and can be printed.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
from markupsafe import Markup

from hopfed._lib.settings import describe
from hopfed.archetypes.storage import KIND, has_archetypes
from hopfed.experiments import CLAIMS
from hopfed.experiments.pictures import drawer
from hopfed.report.sections import PARTS, Answers, rendered, sections
from hopfed.report.tables import differences, side_by_side, tables_of
from hopfed.runs import Run, blaming

MOST = 16 << 20  # largest number of bytes of compressed arrays in a page


def page(runs: Mapping[str, Run], answers: Answers | None = None) -> str:
    """Return the page about `runs`, a mapping from file name to complete run.

    Nothing in the page may load anything, nor may a script run but its own: its policy says so to
    the browser.
    """
    held, body = list(runs.values()), []
    kinds = list(dict.fromkeys(run.kind for run in held))
    if len(runs) > 1 and len(kinds) == 1:
        with blaming(", ".join(runs), kinds[0]):
            differ = differences([run.config for run in held])
            several = list(runs), differ, side_by_side(held), _figure(held)
            body.append(rendered("comparison", *several))
    for order, (name, run) in enumerate(runs.items()):
        with blaming(name, run.kind):
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
    own = run.kind == KIND
    # Of a recovery patterns are drawn, or why there are none.
    drawn = (
        not own or len(run.arrays["archetypes/patterns"]) or "spectrum/eigenvalues" in run.arrays
    )
    found = sections(name, run, answers) if own or has_archetypes(run) else ""
    results = found, tables_of(run), own, _figure([run]) if drawn else ""
    settings = [(key, describe(value)) for key, value in run.config.items()]
    shapes = [(n, f"{a.dtype} {list(a.shape)}") for n, a in sorted(run.arrays.items())]
    about = order, name, run, CLAIMS.get(run.kind)
    return rendered("section", *about, *results, settings, shapes, _downloads(name, run))


def _figure(runs: Sequence[Run]) -> str:
    """Address of the figure of one run, or of several together; empty where there is none."""
    draw = drawer(runs[0].kind, several=len(runs) > 1, whole=True)
    if draw is None:
        return ""
    buffer = io.BytesIO()
    drawn = draw(list(runs)) if len(runs) > 1 else draw(runs[0])
    # The figure holds no date, so that the same run always gives the same page.
    drawn.savefig(buffer, format="svg", metadata={"Date": None})
    return _address("image/svg+xml", buffer.getvalue())


def _downloads(name: str, run: Run) -> list[tuple[str, str, Markup]]:
    """What can be had of a run: words, a name, and an address; no arrays too large for a page."""
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
