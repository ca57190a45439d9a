"""Show archetypes in words and as pictures; text from foreign files is made harmless."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hopfed.archetypes.assignment import asked
from hopfed.archetypes.run_file import as_run, names_of
from hopfed.errors import safe_line
from hopfed.tables import writers

if TYPE_CHECKING:
    from hopfed.archetypes.archetypes import Archetypes

APART = 0.2  # difference that a column's mean must have from that of the other rows
CERTAIN = 1.96  # standard errors to each side of an interval that holds the truth in 95% of cases
SURE = 3.0  # standard errors that this difference must have
MOST = 5  # columns named for an archetype, on each side
LISTED = 60  # archetypes that are listed
LONGEST = 40  # characters of a name
VERDICT = 2_000  # characters of a verdict
ALIKE = {"symmetric": "columns", "by column": "archetypes"}  # channel -> what shares a rate in it


class Telling(NamedTuple):
    """A column that tells an archetype from the rest, and its rates of +1 in both."""

    column: int  # its number, from 0
    name: str  # its name, made harmless
    rate: float  # share of +1 among the rows of the archetype
    other: float | None  # the same of all other rows; None where there are none


def tell_apart(found: Archetypes, k: int, most: int = MOST) -> tuple[list[Telling], list[Telling]]:
    """Columns to display in which archetype k differs most from other rows: more often +1, less."""
    shares = np.maximum(np.nan_to_num(found.shares), 0.0)
    others = np.delete(np.arange(len(found)), k)
    weights = shares[others, None] * asked(found)[others]
    weights /= np.maximum(weights.sum(axis=0), 1e-300)
    rest = (weights * found.means[others]).sum(axis=0)
    apart = found.means[k] - rest
    clear = np.abs(apart) > APART
    if found.errors is not None:
        squares = np.nan_to_num(found.errors) ** 2
        errors = np.sqrt(squares[k] + (weights**2 * squares[others]).sum(axis=0))
        clear &= np.abs(apart) > SURE * errors
    names = names_of(found)
    order = np.argsort(-np.abs(apart), kind="stable")

    def side(sign: int) -> list[Telling]:
        named = order[clear[order] & (sign * apart[order] > 0)].tolist()[:most]
        rates = [float((1 + found.means[k, j]) / 2) for j in named]
        other = [float((1 + rest[j]) / 2) if len(others) else None for j in named]
        called = [safe_line(names[j], LONGEST) for j in named]
        return [Telling(*each) for each in zip(named, called, rates, other, strict=True)]

    return side(1), side(-1)


def summary(found: Archetypes) -> str:
    """Display archetypes in words: number, verdict, and columns that tell each from the rest."""
    number = "1 archetype" if len(found) == 1 else f"{len(found)} archetypes"
    lines = [f"{number}; {verdict(found)}"]
    for k in range(min(len(found), LISTED)):
        lines += described(found, k)
    if len(found) > LISTED:
        lines.append(f"... and {len(found) - LISTED} more")
    return "\n".join(lines)


def verdict(found: Archetypes) -> str:
    """Display status and advice of archetypes in one harmless line: their file may be foreign."""
    return safe_line(f"{found.status}: {found.advice}", VERDICT)


def described(found: Archetypes, k: int) -> list[str]:
    """Display archetype k in lines: its share of the rows, and the columns that tell it apart."""
    sides, error = tell_apart(found, k), 0.0
    columns = [t.column for side in sides for t in side]
    if found.errors is not None and columns:  # half the widest interval of a rate, not of a mean
        error = CERTAIN * float(found.errors[k, columns].max()) / 2
    spread = f", each rate known within {100 * error:.1f} points (95% interval)"
    if found.channel in ALIKE:
        spread = f", rates on average over {ALIKE[found.channel]}: single ones were not fitted"
    spread = spread if error >= 0.0005 else ""
    part = "<1%" if 0 < found.shares[k] < 0.005 else f"{found.shares[k]:.0%}"
    share = f", {part} of the rows" if np.isfinite(found.shares[k]) else ""
    lines, plus = [f"archetype {k + 1}{share}{spread}:"], []
    for code in [] if found.coding is None else found.coding.codes:  # what +1 means in a column
        plain = f"= {safe_line(code.said(1), LONGEST)}" if code.kind == "words" else code.said(1)
        plus += [f" {plain}" if plain else ""] * code.width
    sign = " +1" if found.coding is None else ""
    for word, side in zip(sides_of(found), sides, strict=True):
        named = []
        for t in side:
            other = "" if t.other is None else f" against {t.other:.0%}"
            rate = "" if found.signs_only else f" ({t.rate:.0%}{other})"
            named.append(f"{t.name}{plus[t.column] if plus else ''}{rate}")
        if named:
            lines.append(f"    {word}{sign}: {', '.join(named)}")
    if len(lines) == 1:
        lines[0] += f" {no_columns(found)}"
    return lines


def sides_of(found: Archetypes) -> tuple[str, str]:
    """Words to display for columns that are +1 more often in an archetype, or less often."""
    return ("more often", "less often") if len(found) > 1 else ("mostly", "seldom")


def no_columns(found: Archetypes) -> str:
    """Words to display for an archetype that no column tells from the rest."""
    rest = "the rest by itself" if len(found) > 1 else "a coin"
    return f"no column tells it from {rest}"


def plot(
    found: Archetypes,
    shape: tuple[int, int] | None = None,
    path: str | Path | None = None,
    kind: str = "means",
) -> Any:
    """Display archetypes in a picture: means, by column name or as images; or scores or shares.

    Parameters
    ----------
    shape : height and width of a picture; a heat map with a line for each column when None.
    path : .png, .pdf or .svg file to write as well.
    kind : "means"; "scores", of patterns beside those that theory predicts; or "shares".

    Returns a `matplotlib.figure.Figure`. Raises an `ArgumentError` without archetypes, or where
    `shape` does not fit the columns.
    """
    from hopfed.figures import recovery, save

    figure = recovery.draw_detail(as_run(found), kind, shape)
    if path is not None:
        save(figure, path)
    return figure


class Tabular:
    """Base of results that are tables: they become frames, files and pictures."""

    picture: str  # the function of `hopfed.figures.recovery` that draws it

    def __str__(self: Any) -> str:
        rows = zip(*(x for _, x in self.columns), strict=True)
        lines = [", ".join(f"{c:.6g}" if isinstance(c, float) else str(c) for c in r) for r in rows]
        return "\n".join([", ".join(name for name, _ in self.columns), *lines, *self.sentences()])

    def to_frame(self: Any) -> Any:
        """The table as a pandas frame; it needs pandas."""
        import pandas

        return pandas.DataFrame(dict(self.columns))

    def to_csv(self: Any, path: str | Path) -> None:
        """Write the table to a .csv or .tsv file at `path`, which replaces one of that name."""
        writers.write(path, self.columns, endings=writers.TABLES[:2])

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the table; write the picture to `path` where given."""
        from hopfed.figures import recovery, save

        figure = getattr(recovery, self.picture)(self)
        if path is not None:
            save(figure, path)
        return figure
