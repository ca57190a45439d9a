"""Sections of a page about a recovery: the answer first, then the evidence.

Names of columns, rows and files come from strangers; they reach the page through
`hopfed.report.markup` alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hopfed.archetypes import display, storage
from hopfed.archetypes.archetypes import Archetypes
from hopfed.errors import ArgumentError, DataError, RunFileError
from hopfed.report.markup import Markup, folded, grid, text
from hopfed.report.rows import Answers, rows_section
from hopfed.report.spectrum import spectrum_picture
from hopfed.runs import Run

LISTED = 60  # archetypes
TOLD = 8  # columns named for an archetype, on each side
CLIENTS = 200  # that are listed
NAMED = 60  # columns in a sentence
# Channel -> what its rates are, where archetypes have none of their own.
RATES = {
    "symmetric": "All columns are taken to agree with their archetype equally often, which "
    "explains the rows as well, so rates have no intervals of their own.",
    "by column": "Each column is taken to agree equally often with all archetypes, which "
    "explains the rows as well, so rates have no intervals of their own.",
}

DRAWN = "The dot is the rate of +1 in the archetype"
OTHERS = ", the stroke that of the other rows"
SIGNS = "Only signs are known: how often a column agrees with its archetype was not measured."

MEANINGS = {
    "ok": "All that these data show was found, and it can be used as it stands.",
    "detected, not resolved": "The rows are of several kinds, but too few rows say what the unsure "
    "ones are like: single columns of these may be wrong.",
    "incomplete": "The archetypes below are borne out by the data, but there are more than these.",
    "no signal": "This does not prove that there are no archetypes; this count shows none.",
    "too little data": "Nothing can be said either way.",
    "poor fit": "The data are not what the method assumes: take nothing below for established.",
    "not converged": "The computation did not come to its end: take nothing below for established.",
    "one class": "All rows are of one kind: nothing divides them.",
    "structure, but not classes": "The rows differ by more than their kinds and chance: take the "
    "kinds for a summary.",
    "copies": "Rows come back as copies of each other: what was found are these rows, not kinds.",
}


def archetypes_of(name: str, run: Run) -> Archetypes:
    """Return the archetypes that a run of a recovery holds.

    Parameters
    ----------
    name : of its file, for errors.
    run : of kind "recover", or another that has archetypes.

    Raises
    ------
    RunFileError : what it holds does not fit together.
    """
    try:
        return storage.of_run(run)
    except (ArgumentError, DataError) as error:
        message = f"{name}: not archetypes as hopfed writes them: {error}"
        raise RunFileError(message) from error


def sections(name: str, run: Run, answers: Answers | None = None) -> list[str]:
    """Return the parts of the page that say what was found, the most important first.

    Parameters
    ----------
    name : of the run file.
    run : of a recovery, of which older ones know less, or another that has archetypes.
    answers : of rows, where some were asked about.

    Raises
    ------
    RunFileError : the archetypes of the run do not fit together.

    Examples
    --------
    >>> from hopfed import recover
    >>> from hopfed.hopfield.channel import draw_examples, rademacher
    >>> rng = np.random.default_rng(1)
    >>> x = draw_examples(rademacher(3, 200, rng), 600, 0.8, rng)[0]
    >>> sections("run.h5", storage.as_run(recover(x, seed=1)))[0][:48]
    '<p class="answer">3 archetypes, in 200 columns.<'
    """
    asked = None if answers is None else answers.found
    found = archetypes_of(name, run) if asked is None else asked
    made = [_answer(found, run), _archetypes(found)]
    if run.kind == storage.KIND:
        made += [_spectrum(found, run), _columns(found, run), _clients(found, run)]
    if answers is not None:
        made.insert(2, rows_section(found, answers))
    return [part for part in made if part]


def has_picture(run: Run) -> bool:
    """Whether there is anything to draw: archetypes, or the spectrum that shows none.

    Parameters
    ----------
    run : of a recovery.

    Examples
    --------
    >>> has_picture(Run("recover", {}, {"archetypes/patterns": np.ones((0, 3))}, {}))
    False
    """
    return bool(len(run.arrays["archetypes/patterns"])) or "spectrum/eigenvalues" in run.arrays


def _answer(found: Archetypes, run: Run) -> str:
    """How many archetypes, what the verdict means, how sure it is."""
    K, N = found.patterns.shape
    rows = run.summary.get("n_examples") or []
    where = f"{N:,} columns"
    if rows:
        owners = f" of {len(rows):,} clients" if len(rows) > 1 else ""
        where = f"{sum(rows):,} rows{owners} with {where}"
    number = "1 archetype" if K == 1 else f"{K:,} archetypes" if K else "No archetypes"
    meaning = MEANINGS.get(found.status, "")
    words = "\n".join(str(text(line)) for line in found.summary().split("\n"))
    return (
        f'<p class="answer">{number}, in {where}.</p>'
        f"<p><strong>Verdict: {text(found.status)}.</strong> {text(found.advice)} {meaning}</p>"
        f"{_sureness(found)}{folded('The answer as plain text', f'<pre>{words}</pre>')}"
    )


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
    return f"<p>How sure: {' '.join(said)}</p>" if said else ""


def _archetypes(found: Archetypes) -> str:
    """Each archetype by the columns that tell it from the other rows."""
    if not len(found):
        return ""
    intervals = "The interval holds the true rate in 95 of 100 cases." * _has_intervals(found)
    sure = RATES.get(found.channel, intervals)
    sure = SIGNS if found.signs_only else f"{sure} {DRAWN}{OTHERS * (len(found) > 1)}."
    more, less = display.sides_of(found)
    by = "it differs most from the other rows" if len(found) > 1 else "its rates are far from half"
    parts = [
        f"<h3>Archetypes</h3><p>Each is shown by the columns in which {by}, at most {TOLD} that "
        f"are +1 {more} and {TOLD} {less}. {sure}</p>"
    ]
    meanings = _meanings(found)
    parts += [_archetype(found, k, meanings) for k in range(min(len(found), LISTED))]
    if len(found) > LISTED:
        parts.append(f"<p>... and {len(found) - LISTED:,} more, which the data below hold.</p>")
    return "\n".join(parts)


def _archetype(found: Archetypes, k: int, meanings: list[str] | None) -> str:
    """One archetype: its share and its telling columns."""
    share = found.shares[k]
    share = f" <small>{_percent(share)} of the rows</small>" if np.isfinite(share) else ""
    title = f"<h4>Archetype {k + 1}{share}</h4>"
    told = [t for side in display.telling(found, k, most=TOLD) for t in side]
    if not told:
        words = display.none_told(found)
        return f"{title}<p>{words[0].upper()}{words[1:]}.</p>"
    others = ["elsewhere"] if len(found) > 1 else []
    heads = ["+1 here", *others, "0 to 100%"]
    if _has_intervals(found):
        heads.insert(1, "95% interval")
    if meanings is not None:
        heads.append("+1 stands for")
    if found.signs_only:
        pairs = zip(display.telling(found, k, most=TOLD), display.sides_of(found), strict=True)
        lines = [(t.name, word) for side, word in pairs for t in side]
        return title + grid("column", ["+1 here"], lines)
    rows = []
    for t in told:
        low, high = _interval(found, k, t.column, t.rate)
        row: list[object] = [t.name, f"{t.rate:.1%}"]
        if _has_intervals(found):
            row.append(f"{low:.1%} to {high:.1%}")
        row += [] if t.other is None else [f"{t.other:.1%}"]
        row.append(_bar(t.rate, t.other, low, high))
        if meanings is not None:
            row.append(meanings[t.column])
        rows.append(row)
    return title + grid("column", heads, rows)


def _has_intervals(found: Archetypes) -> bool:
    """Whether rates have errors of their own: not where all columns are taken to have one."""
    return found.errors is not None and found.channel not in RATES


def _interval(found: Archetypes, k: int, column: int, rate: float) -> tuple[float, float]:
    """Ends of the interval of a rate; the rate itself where no error is known."""
    errors = found.errors if _has_intervals(found) else None
    error = 0.0 if errors is None else float(errors[k, column])
    margin = display.CERTAIN * error / 2  # a rate is (1 + mean) / 2
    return max(rate - margin, 0.0), min(rate + margin, 1.0)


def _bar(rate: float, other: float | None, low: float, high: float) -> Markup:
    """Small picture of a rate with its interval, and of the rate elsewhere."""
    at = {name: 4 + 92 * x for name, x in zip("rab", (rate, low, high), strict=True)}
    mark = ""
    if other is not None:
        x = f"{4 + 92 * other:.1f}"
        mark = f'<line class="other" x1="{x}" x2="{x}" y1="2" y2="12"/>'
    return Markup(
        '<svg class="bar" viewBox="0 0 100 14" aria-hidden="true">'
        '<line class="axis" x1="4" x2="96" y1="7" y2="7"/>'
        f'{mark}<line class="sure" x1="{at["a"]:.1f}" x2="{at["b"]:.1f}" y1="7" y2="7"/>'
        f'<circle cx="{at["r"]:.1f}" cy="7" r="3"/></svg>'
    )


def _meanings(found: Archetypes) -> list[str] | None:
    """What +1 stands for in each column, where the coding of a table says it."""
    if found.coding is None:
        return None
    return [
        each for code in found.coding.codes for each in [code.plus or "this level"] * code.width
    ]


def _spectrum(found: Archetypes, run: Run) -> str:
    """Eigenvalues and the threshold from which they count."""
    values = run.arrays.get("spectrum/eigenvalues")
    if values is None or not len(values):
        return ""
    threshold = run.summary.get("threshold")
    limit = np.nan if threshold is None else float(threshold)
    above = int((values > limit).sum())
    rule = run.summary.get("rule")
    by = f", by the rule {text(rule)}" if rule else ""
    words = (
        f"{above:,} of the {len(values):,} leading eigenvalues of the pooled operator are above "
        f"the threshold of {limit:.4g}{by}. Noise alone hardly ever passes it. "
        f"{found.n_detected:,} count as signal."
    )
    rows = [(str(i), f"{x:.6g}") for i, x in enumerate(values[:LISTED], start=1)]
    return (
        f"<h3>Spectrum</h3><p>{words}</p>{spectrum_picture(values, limit)}"
        f"{folded('The eigenvalues as numbers', grid('rank', ('eigenvalue',), rows))}"
    )


def _columns(found: Archetypes, run: Run) -> str:
    """Columns that the archetypes do not explain, and those that say nothing."""
    dependent = run.summary.get("dependent_columns") or []
    constant = run.summary.get("constant_columns") or []
    parts = []
    if found.errors is not None:
        parts.append(
            f"These columns stay dependent on each other within archetypes: "
            f"{_named(found, dependent)}."
            if dependent
            else "Within archetypes no column is seen to depend on another."
        )
    if constant:
        parts.append(
            f"These columns hold a single value, or none, and say nothing: "
            f"{_named(found, constant)}."
        )
    if not parts:
        return ""
    return f"<h3>Columns</h3>{''.join(f'<p>{part}</p>' for part in parts)}"


def _named(found: Archetypes, columns: list[Any]) -> str:
    """Columns, which older runs have by number, by name."""
    names = storage.names_of(found)
    made = [text(names[c] if isinstance(c, int) else c, display.LONGEST) for c in columns[:NAMED]]
    more = f" and {len(columns) - NAMED:,} more" if len(columns) > NAMED else ""
    return f"{', '.join(made)}{more}"


def _clients(found: Archetypes, run: Run) -> str:
    """What each client holds of each archetype, and what it sent."""
    rows, sent = run.summary.get("n_examples") or [], run.summary.get("bytes_sent") or []
    shares = found.client_shares
    if len(rows) < 2:  # of one owner the answer says it all
        return ""
    files = [Path(str(path)).name for path in run.config.get("files") or []]
    named = len(set(files)) == len(files) == len(rows)
    names = files if named else [f"client {i + 1}" for i in range(len(rows))]
    heads = ["rows"]
    heads += ["bytes sent"] if len(sent) == len(rows) else []
    known = shares is not None and len(shares) == len(rows)
    heads += [f"archetype {k + 1}" for k in range(min(len(found), LISTED))] if known else []
    lines: list[list[object]] = []
    for i in range(min(len(rows), CLIENTS)):
        line: list[object] = [text(names[i], display.LONGEST), f"{rows[i]:,}"]
        line += [f"{sent[i]:,}"] if len(sent) == len(rows) else []
        if shares is not None and known:
            line += [_percent(x) for x in shares[i, :LISTED]]
        lines.append(line)
    more = f"<p>... and {len(rows) - CLIENTS:,} more.</p>" if len(rows) > CLIENTS else ""
    none = "" if known else " The symmetric channel does not say how each client's rows divide."
    return f"<h3>Clients</h3><p>{_traffic(run)}{none}</p>{grid('client', heads, lines)}{more}"


def _traffic(run: Run) -> str:
    """Bytes that each client sent, compared with the whole operator."""
    sent, dense = run.summary.get("bytes_sent") or [], run.summary.get("bytes_dense")
    if not sent:
        return ""
    heard = run.summary.get("exchanges")
    said = f"Each client sent at most {max(sent):,} bytes"
    said += f" in {heard:,} exchanges" if heard else ""
    said += f"; the whole operator has {dense:,}" if dense else ""
    raw = run.summary.get("bytes_raw") or []
    said += f"; the rows of the largest, in bits, {max(raw):,}" if raw else ""
    return f"{said}."


def _percent(share: float) -> str:
    return f"{share:.1%}" if np.isfinite(share) else "-"
