"""`Archetypes`, the result of a recovery; functions of other modules are its methods."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

import numpy as np

import hopfed.archetypes.relate as relating
from hopfed.archetypes import assignment, display, run_file
from hopfed.archetypes.channel_and_replicas import expected_overlaps
from hopfed.errors import safe_line
from hopfed.tables.coding import Coding
from hopfed.theory.resolution import expected_overlap


@dataclass(frozen=True, eq=False)
class Archetypes:
    """Archetypes recovered from rows or their operator, heaviest first, with a status.

    Attributes
    ----------
    patterns : int8 (K, N) of +-1; each is known up to its sign unless it was oriented.
    scores : (K,) part of each pattern in the signal subspace (arXiv:2603.19902, eq. (18)).
    predicted_scores : (K,) what theory expects (theory/NOTES.md, "Score and acceptance").
    exposures : (K,) estimated fraction of the examples that came from each archetype.
    quality : r of the example channel; otherwise the root mean square of the means.
    exposure_errors : (K,) standard errors of the exposures; None where they are not known.
    quality_error : standard error of the quality; NaN where it is not known, 0 where it was given.
    spread : standard deviation of the true means about the quality, beyond chance.
    n_detected : number of archetypes that the spectrum shows.
    explained : part of the signal that the patterns explain; 1 is all of it.
    status : "ok", "detected, not resolved", "incomplete", "no signal", "too little data", "poor
        fit", "not converged", "one class", "structure, but not classes" or "copies"; "not judged"
        where a federation across machines sent them.
    advice : what the status means for these data, in words.
    channel : "symmetric", where every column of an example is flipped equally often; "by column",
        where columns differ in it; "graded", where each class has a mean of its own in each column.
    residual : largest eigenvalue of what the archetypes leave, over the edge of noise: up to about
        1 where they explain all.
    graded_means, own_errors : (K, N) means of the columns and their standard errors, where classes
        were fitted; `errors` adds the error of a quality that all columns share.
    client_shares : (L, K) shares of the classes at each client, where classes were fitted.
    matches : for each `known` pattern the row of its archetype; -1 where it is not shown.
    columns : N names, where the examples had names.
    coding : how the cells of a table became +-1 (`hopfed.tables.coding.Coding`).
    levels : (N,) number of the variable that has a column as a level, -1 for no variable; None
        where `coding` has the levels.
    leaders : (N,) number, from 1, of the column that each column copies, negative for an opposite:
        its own number for most, 0 for a column that says nothing. None where no column is a copy.

    >>> from hopfed import recover
    >>> from hopfed.hopfield.channel import small_sample
    >>> found = recover(small_sample()[1])
    >>> found.patterns.shape, found.scores.round(3), found.predicted_scores.round(3)
    ((3, 200), array([0.997, 0.997, 0.997], dtype=float32), array([0.997, 0.997, 0.997]))
    >>> found.exposures.round(2), round(found.quality, 2), found.status
    (array([0.34, 0.34, 0.32]), 0.8, 'ok')
    """

    patterns: np.ndarray = field(repr=False)
    scores: np.ndarray
    predicted_scores: np.ndarray
    exposures: np.ndarray
    quality: float
    n_detected: int
    explained: float
    status: str
    advice: str
    matches: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    channel: str = "symmetric"
    residual: float = np.nan
    graded_means: np.ndarray | None = field(default=None, repr=False)
    own_errors: np.ndarray | None = field(default=None, repr=False)
    exposure_errors: np.ndarray | None = field(default=None, repr=False)
    quality_error: float = np.nan
    spread: float = 0.0
    client_shares: np.ndarray | None = field(default=None, repr=False)
    columns: tuple[str, ...] | None = field(default=None, repr=False)
    coding: Coding | None = field(default=None, repr=False)
    levels: np.ndarray | None = field(default=None, repr=False)
    leaders: np.ndarray | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.patterns)

    def __repr__(self) -> str:
        shares = ", ".join(f"{share:.1%}" for share in self.shares[:8])
        more = ", ..." if len(self) > 8 else ""
        columns = f"{self.patterns.shape[1]:,} columns"
        number = "1 archetype" if len(self) == 1 else f"{len(self)} archetypes"
        found = f"<{number} of {columns}, {safe_line(self.status)}"
        known = bool(np.isfinite(self.shares).all())
        return f"{found}: {shares}{more} of the rows>" if shares and known else f"{found}>"

    @property
    def means(self) -> np.ndarray:
        """(K, N) mean of each column over the rows of each archetype, in [-1, 1]."""
        if self.graded_means is not None:
            return self.graded_means
        return self.quality * self.patterns

    @property
    def errors(self) -> np.ndarray | None:
        """(K, N) standard errors of the means; None where no classes were fitted.

        NaN where the error of a quality that columns share is not known, as in older files.
        """
        own = self.own_errors
        if own is None:
            return None
        if self.channel == "symmetric":
            return np.asarray(np.sqrt(own**2 + self.quality_error**2 + self.spread**2))
        if self.channel == "by column":
            return np.where(own > 0, np.sqrt(own**2 + self.spread**2), np.nan)
        return own

    @property
    def signs_only(self) -> bool:
        """Whether only signs are known: a federation sent patterns and asked no rows."""
        unscored = len(self) > 0 and bool(np.isnan(self.scores).all())
        return unscored and self.graded_means is None

    @property
    def shares(self) -> np.ndarray:
        """(K,) share of the rows that each archetype has: its exposure."""
        return self.exposures

    @property
    def expected_overlaps(self) -> np.ndarray:
        """(K,) expected overlap of each pattern, or class profile, with its true archetype.

        Source: theory/NOTES.md, "Score and acceptance", "Resolution".
        """
        if self.graded_means is not None and self.own_errors is not None:
            return expected_overlaps(self.graded_means, self.own_errors, self.shares, self.channel)
        return expected_overlap(self.predicted_scores)

    # Functions of other modules, as methods.
    assign = assignment.assign
    probabilities = assignment.probabilities
    score = assignment.score
    complete = assignment.complete
    denoise = assignment.denoise
    sample = assignment.sample
    to_frame = run_file.to_frame
    to_csv = run_file.to_csv
    save = run_file.save
    summary = display.summary
    plot = display.plot
    relate = relating.relate

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.summary())}</pre>"
