"""Sections of a page about archetypes: the answer first, then the rows, then the evidence.

Every text of a run is escaped, and shown as one harmless line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from hopfed._lib.arrays import to_host
from hopfed.archetypes import display, storage
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.assignment import ALPHA, table_of
from hopfed.errors import ArgumentError, DataError, RunFileError, shown
from hopfed.runs import Run
from hopfed.spectral.rows import seen_times

LISTED = 60  # archetypes
ALIKE = ("symmetric", "by column")  # channels in which rates have no errors of their own
TOLD = 8  # columns named for an archetype, on each side
CLIENTS = 200  # that are listed
NAMED = 60  # columns in a sentence
MOST = 5_000  # rows in a page
NAME = 200  # characters of the name of a row
NONE = "none of these"
TEXT = 10_000  # characters of any text


def _harmless(value: Any) -> Any:
    """A value as the page holds it: nothing in it steers a terminal; markup is left as it is."""
    return value if isinstance(value, Markup) else shown(value, TEXT)


PARTS = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_harmless,
)


def rendered(part: str, *values: Any) -> Markup:
    """Return a part of the page, a macro of parts.html, as markup."""
    made: Markup = getattr(PARTS.get_template("parts.html").module, part)(*values)
    return made


@dataclass(frozen=True)
class Answers:
    """What archetypes say of the M rows of some tables, one table after the other.

    Of each row its name or number, its nearest archetype (-1 for none of these), the probability of
    that, and how many of its N entries are missing; the rows of each table; and the archetypes.
    """

    files: tuple[str, ...]
    names: list[Any]
    archetype: np.ndarray
    probability: np.ndarray
    gaps: np.ndarray
    sizes: tuple[int, ...]
    found: Archetypes = field(repr=False)

    def counts(self) -> np.ndarray:
        """Return rows of each table (L, K + 1) that are of none, and of each of K archetypes."""
        parts = np.split(self.archetype + 1, np.cumsum(self.sizes)[:-1])
        return np.array([np.bincount(part, minlength=len(self.found) + 1) for part in parts])


def answers_of(found: Archetypes, files: Sequence[str | Path], alpha: float = ALPHA) -> Answers:
    """Ask archetypes about the rows of tables, read as the one that they come from."""
    names: list[Any] = []
    assigned, gaps, sizes = [], [], []
    for path in files:
        table = table_of(found, path)
        assigned.append(found.assign(table, alpha=alpha))
        names += range(1, len(table) + 1) if table.ids is None else table.ids.tolist()
        seen = to_host(seen_times(table.held, np.ones(table.shape[1])))
        gaps.append(table.shape[1] - np.rint(seen).astype(np.int64).ravel())
        sizes.append(len(table))
    archetype = np.concatenate([each.archetype for each in assigned])
    probability = np.concatenate([each.probability for each in assigned])
    held = tuple(map(str, files)), names, archetype, probability
    return Answers(*held, np.concatenate(gaps), tuple(sizes), found)


def rows_section(answers: Answers) -> Markup:
    """The section about rows: how many of each archetype, their gaps, and a table of them."""
    files = [shown(Path(path).name, NAME) for path in answers.files]
    several, K = len(files) > 1, len(answers.found)
    of_file = np.repeat(np.arange(len(files)), answers.sizes)
    lines = [
        {
            "names": [*([files[of_file[i]]] if several else []), shown(name, NAME)],
            "k": int(answers.archetype[i]) + 1,
            "probability": f"{answers.probability[i]:.6g}",
            "gaps": int(answers.gaps[i]),
        }
        for i, name in enumerate(answers.names[:MOST])
    ]
    heads = [*(["file"] if several else []), "id", "archetype", "probability", "gaps"]
    total, rows = len(answers.archetype), []
    # How many rows are of each archetype, table by table; rows of none come last.
    counted = np.roll(answers.counts(), -1, axis=1).T
    for label, held in zip([*map(str, range(1, K + 1)), NONE], counted, strict=True):
        each = [f"{n:,}" for n in held] if several else []
        rows.append([label, f"{held.sum():,}", f"{held.sum() / max(total, 1):.1%}", *each])
    counts = {"heads": ["rows", "share", *(files if several else [])], "rows": rows}
    missing, said = int(answers.gaps.sum()), "The rows have no gaps."
    if missing:
        entries = total * answers.found.patterns.shape[1]
        said = f"{missing:,} of {entries:,} entries are missing ({missing / entries:.1%})."
    return rendered("rows", counts, said, heads, lines, total, K, NONE)


def sections(name: str, run: Run, answers: Answers | None = None) -> list[Markup]:
    """Return the parts of the page that say what was found, the most important first.

    Of a run of a recovery, of which older ones know less, or another that has archetypes; and of
    rows, where some were asked about.
    """
    try:
        found = storage.of_run(run) if answers is None else answers.found
    except (ArgumentError, DataError) as error:
        message = f"{name}: not archetypes as hopfed writes them: {error}"
        raise RunFileError(message) from error
    K, N = found.patterns.shape
    rows, where = run.summary.get("n_examples") or [], f"{N:,} columns"
    if rows:
        owners = f" of {len(rows):,} clients" if len(rows) > 1 else ""
        where = f"{sum(rows):,} rows{owners} with {where}"
    number = "1 archetype" if K == 1 else f"{K:,} archetypes" if K else "No archetypes"
    answer = rendered("answer", f"{number}, in {where}.", found, _sureness(found))
    made: list[Markup | str] = [answer]
    if len(found):  # each archetype by the columns that tell it from the other rows
        listed = [_archetype(found, k) for k in range(min(len(found), LISTED))]
        shown_as = TOLD, display.sides_of(found), _has_intervals(found)
        made.append(rendered("archetypes", found, *shown_as, listed, len(found) - LISTED))
    if answers is not None:
        made.append(rows_section(answers))
    if run.kind == storage.KIND:
        made.append(_spectrum(found, run))
        # Columns that the archetypes do not explain, and those that say nothing.
        names = ("dependent_columns", "constant_columns")
        dependent, constant = (run.summary.get(name) or [] for name in names)
        known = found.errors is not None
        if known or constant:
            both = _named(found, dependent), _named(found, constant)
            made.append(rendered("columns", known, *both))
        made.append(_clients(found, run))
    return [part for part in made if isinstance(part, Markup)]


def _sureness(found: Archetypes) -> str:
    """How far the archetypes can be relied on, in numbers that the run knows."""
    if not len(found):
        return ""
    said = []
    overlaps = found.expected_overlaps
    if _has_intervals(found) and found.errors is not None:
        margin = display.CERTAIN * found.errors / 2
        said.append(
            f"Rates of columns are known to within {np.median(margin):.1%} (half of them) and "
            f"{margin.max():.1%} (all), at a confidence of 95%."
        )
    elif np.isfinite(overlaps).all():
        right = np.floor((1 + overlaps.min()) / 2 * 1000) / 1000  # not more than is expected
        said.append(
            f"Theory expects each pattern to be right in {right:.1%} of its columns or more. "
            f"A column of a row agrees with its archetype in {(1 + found.quality) / 2:.1%} of rows"
            f"{', on average over columns' if found.signs_only else ''}."
        )
    if np.isfinite(found.residual):
        said.append(
            f"Within archetypes the largest eigenvalue left is {found.residual:.2f} of the edge of "
            "noise; up to about 1 nothing is left to explain."
        )
    elif np.isfinite(found.explained):
        said.append(f"The archetypes explain {min(found.explained, 1.0):.1%} of the signal.")
    return " ".join(said)


def _archetype(found: Archetypes, k: int) -> dict[str, Any]:
    """One archetype: its share and its telling columns."""
    share = _percent(found.shares[k]) if np.isfinite(found.shares[k]) else ""
    none = display.none_told(found)
    made: dict[str, Any] = {"share": share, "untold": f"{none[0].upper()}{none[1:]}.", "rows": []}
    sides = display.telling(found, k, most=TOLD)
    if found.signs_only:
        pairs = zip(sides, display.sides_of(found), strict=True)
        return made | {"heads": ["+1 here"], "rows": [(t.name, w) for ts, w in pairs for t in ts]}
    coding = found.coding
    meanings = None  # what +1 stands for, where the coding of a table says it
    if coding is not None:
        meanings = [code.plus or "this level" for code in coding.codes for _ in range(code.width)]
    for t in (t for side in sides for t in side):
        margin = 0.0  # a rate is (1 + mean) / 2
        if found.errors is not None and _has_intervals(found):
            margin = display.CERTAIN * float(found.errors[k, t.column]) / 2
        low, high = max(t.rate - margin, 0.0), min(t.rate + margin, 1.0)
        cells: dict[str, Any] = {"column": t.name, "+1 here": f"{t.rate:.1%}"}
        if _has_intervals(found):
            cells["95% interval"] = f"{low:.1%} to {high:.1%}"
        if t.other is not None:
            cells["elsewhere"] = f"{t.other:.1%}"
        cells["0 to 100%"] = {"rate": t.rate, "other": t.other, "low": low, "high": high}
        if meanings is not None:
            cells["+1 stands for"] = meanings[t.column]
        made["heads"] = list(cells)[1:]
        made["rows"].append(list(cells.values()))
    return made


def _has_intervals(found: Archetypes) -> bool:
    """Whether rates have errors of their own: not where all columns are taken to have one."""
    return found.errors is not None and found.channel not in ALIKE


def _spectrum(found: Archetypes, run: Run) -> Markup | str:
    """Eigenvalues and the threshold from which they count."""
    values = run.arrays.get("spectrum/eigenvalues")
    if values is None or not len(values):
        return ""
    threshold, rule = run.summary.get("threshold"), run.summary.get("rule")
    limit = np.nan if threshold is None else float(threshold)
    words = (
        f"{int((values > limit).sum()):,} of the {len(values):,} leading eigenvalues of the pooled "
        f"operator are above the threshold of {limit:.4g}{f', by the rule {rule}' if rule else ''}."
        f" Noise alone hardly ever passes it. {found.n_detected:,} count as signal."
    )
    rows = [(str(i), f"{x:.6g}") for i, x in enumerate(values[:LISTED], start=1)]
    return rendered("spectrum", words, rows)


def _named(found: Archetypes, columns: list[Any]) -> str:
    """Columns, which older runs have by number, by name."""
    names = storage.names_of(found)
    held = (names[c] if isinstance(c, int) else c for c in columns[:NAMED])
    more = f" and {len(columns) - NAMED:,} more" if len(columns) > NAMED else ""
    return f"{', '.join(shown(name, display.LONGEST) for name in held)}{more}"


def _clients(found: Archetypes, run: Run) -> Markup | str:
    """What each client holds of each archetype, and what it sent."""
    rows, sent = run.summary.get("n_examples") or [], run.summary.get("bytes_sent") or []
    if len(rows) < 2:  # of one owner the answer says it all
        return ""
    files = [Path(str(path)).name for path in run.config.get("files") or []]
    named = len(set(files)) == len(files) == len(rows)
    names = files if named else [f"client {i + 1}" for i in range(len(rows))]
    columns = [[shown(name, display.LONGEST) for name in names], [f"{n:,}" for n in rows]]
    heads, shares = ["rows"], found.client_shares
    if len(sent) == len(rows):
        heads.append("bytes sent")
        columns.append([f"{n:,}" for n in sent])
    known = shares is not None and len(shares) == len(rows)
    if shares is not None and known:
        for k in range(min(len(found), LISTED)):
            heads.append(f"archetype {k + 1}")
            columns.append([_percent(share) for share in shares[:, k]])
    lines = list(zip(*columns, strict=True))[:CLIENTS]
    return rendered("clients", run.summary, known, heads, lines, len(rows) - CLIENTS)


def _percent(share: float) -> str:
    return f"{share:.1%}" if np.isfinite(share) else "-"
