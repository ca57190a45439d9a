"""HTML page about run files: one self-contained file that needs no network.

Figures are vector graphics, which a click enlarges. The page contains each run's arrays and summary
as downloads. It follows the reader's light or dark scheme, and can be printed.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files

import numpy as np

from hopfed._lib.settings import describe
from hopfed.archetypes.storage import KIND, has_archetypes
from hopfed.experiments import CLAIMS
from hopfed.figures import drawer
from hopfed.report import recovery
from hopfed.report.markup import folded, grid, text
from hopfed.report.rows import Answers
from hopfed.report.tables import side_by_side, tables_of
from hopfed.runs import Run, blaming

MOST = 16 << 20  # largest number of bytes of compressed arrays in a page


def page(runs: Mapping[str, Run], answers: Answers | None = None) -> str:
    """Return the page about `runs`, a mapping from file name to complete run.

    Nothing in the page may load anything, nor may a script run but its own: its policy says so to
    the browser.

    Parameters
    ----------
    runs : by the names of their files.
    answers : of rows, where there is one run, and it has archetypes.

    Raises
    ------
    RunFileError : a run lacks data that runs of its kind must have.

    Examples
    --------
    >>> text = page({"a.h5": Run("mine", {"seed": 0}, {"x": np.ones(3)}, {"n_detected": 2})})
    >>> "<title>hopfed: mine</title>" in text, "://" in text
    (True, False)
    """
    kinds = list(dict.fromkeys(run.kind for run in runs.values()))
    body = []
    if len(runs) > 1 and len(kinds) == 1:
        with blaming(", ".join(runs), kinds[0]):
            body.append(_comparison(runs))
    for i, (name, run) in enumerate(runs.items()):
        with blaming(name, run.kind):
            body.append(_section(name, run, i, answers))
    template = files("hopfed.report").joinpath("page.html").read_text(encoding="utf-8")
    parts = {
        "title": text(f"hopfed: {', '.join(kinds)}"),
        "body": "\n".join(body),
        "style": _fingerprint(template, "style"),
        "script": _fingerprint(template, "script"),
    }
    return re.sub(r"\$(title|body|style|script)\b", lambda found: parts[found[1]], template)


def _fingerprint(template: str, tag: str) -> str:
    """Hash of the content of a tag, by which the policy of the page allows it."""
    inner = template.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
    return f"'sha256-{base64.b64encode(sha256(inner.encode()).digest()).decode()}'"


def _comparison(runs: Mapping[str, Run]) -> str:
    """Compare runs of one kind: differing settings, summaries, and a common figure if any."""
    parts = ["<section><h2>Comparison</h2>"]
    keys = list(dict.fromkeys(k for run in runs.values() for k in run.config))
    differ = [k for k in keys if len({describe(r.config.get(k)) for r in runs.values()}) > 1]
    if differ:
        rows = [(k, *(describe(r.config.get(k)) for r in runs.values())) for k in differ]
        parts.append(grid("settings that differ", list(runs), rows))
    parts.append(grid("summary", list(runs), side_by_side(list(runs.values()))))
    parts.append(_figure(list(runs.values()), "all runs"))
    return "\n".join(parts) + "</section>"


def _section(name: str, run: Run, order: int, answers: Answers | None) -> str:
    """Section of one run: its claim, results, figure, settings, versions and data."""
    parts = [f'<section id="run-{order}"><h2>{text(run.kind)} <small>{text(name)}</small></h2>']
    if run.kind in CLAIMS:
        claim, source = map(escape, CLAIMS[run.kind])
        parts.append(f"<p>{claim}. <small>{source}</small></p>")
    tables = [grid(t.title, t.columns, t.rows) for t in tables_of(run)]
    if run.kind == KIND:
        parts += recovery.sections(name, run, answers)
        tables = [folded("All numbers", "".join(tables))]
    elif has_archetypes(run):
        parts += recovery.sections(name, run, answers)
    parts += tables
    if run.kind != KIND or recovery.has_picture(run):
        parts.append(_figure([run], run.kind))
    settings = [(k, describe(v)) for k, v in run.config.items()]
    parts.append(folded("Settings", grid("setting", ("value",), settings)))
    versions = list(run.provenance.items())
    parts.append(folded("Made with", grid("what", ("version",), versions)))
    shapes = [(n, f"{a.dtype} {list(a.shape)}") for n, a in sorted(run.arrays.items())]
    parts.append(folded("Data", _downloads(name, run) + grid("array", ("what",), shapes)))
    return "\n".join(parts) + "</section>"


def _figure(runs: Sequence[Run], label: str) -> str:
    """Figure of one run, or of several together, which a click enlarges."""
    draw = drawer(runs[0].kind, several=len(runs) > 1, whole=True)
    if draw is None:
        return ""
    buffer = io.BytesIO()
    drawn = draw(list(runs)) if len(runs) > 1 else draw(runs[0])
    # The figure holds no date, so that the same run always gives the same page.
    drawn.savefig(buffer, format="svg", metadata={"Date": None})
    data = _data_url("image/svg+xml", buffer.getvalue())
    download = f'<a download="{escape(label)}.svg" href="{data}">figure (.svg)</a>'
    return (
        f'<figure><button class="zoom" title="enlarge"><img alt="figure of {escape(label)}" '
        f'src="{data}"></button><figcaption>{download}</figcaption></figure>'
    )


def _downloads(name: str, run: Run) -> str:
    """Links to the summary and the arrays, which the page contains."""
    held = {"kind": run.kind, "config": run.config, "summary": run.summary}
    text = json.dumps(held | {"provenance": run.provenance}, indent=1).encode()
    stem = escape(name.rpartition(".")[0] or name)
    links = [_link(f"{stem}.json", "application/json", text, "settings and summary (.json)")]
    buffer = io.BytesIO()
    # HDF5 marks strings by metadata of the dtype, which .npz cannot store.
    plain = {n.replace("/", "."): a.astype(a.dtype.str) for n, a in run.arrays.items()}
    np.savez_compressed(buffer, **plain)  # type: ignore[arg-type]
    if buffer.tell() <= MOST:
        what = "all arrays, including those of the figure (.npz)"
        links.append(_link(f"{stem}.npz", "application/octet-stream", buffer.getvalue(), what))
    else:
        links.append(f"the arrays are too large for a page: read them from {escape(name)}")
    return f"<p>{' · '.join(links)}</p>"


def _link(name: str, kind: str, data: bytes, text: str) -> str:
    return f'<a download="{name}" href="{_data_url(kind, data)}">{escape(text)}</a>'


def _data_url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
