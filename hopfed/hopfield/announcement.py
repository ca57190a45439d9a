"""Announcement: the archetypes that a server sends to all clients, and the order of columns.

A server that knows the names of columns sends them with every question, shorter names first; if
it knows only their number, columns are matched by place. An owner sends its names to nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hopfed.archetypes.archetypes import Archetypes
from hopfed.errors import DataError, OtherColumnsError, safe_line
from hopfed.federation.messages import MALFORMED, Field, Message, require_form
from hopfed.hopfield.operator_messages import MOST_PATTERNS, pack_patterns, unpack_patterns
from hopfed.tables.coding import Coding
from hopfed.tables.table import LONGEST, list_names

STATUS = "not judged"  # status without a test, or without enough knowledge
GOOD = ("ok", "one class")  # statuses of rows that fit their classes
ADVICE = "A federation gives archetypes, and no verdict about them."
STATUSES = (
    *("", "ok", "one class", "detected, not resolved", "incomplete", "structure, but not classes"),
    *("copies", "too little data", "poor fit", "no signal", "not converged", STATUS),
)
VERDICT = ("status", "advice")
WORDS = 2_000  # largest size in bytes of a sentence from a server
LARGEST = 64_000_000  # most entries of all archetypes: half a gigabyte as means in a run file
CLASSES, OWN = "Each client says how these fit its own rows.", "On the rows of this owner: "
ALONE = "Columns are independent, as within one class."
FEWER = "Or the federation found fewer classes than there are."
SLACK = 1e-3  # by which a sum of shares may exceed one
MOST_COLUMNS = 2**24  # most columns that a server may name


@dataclass(frozen=True, eq=False)
class Announcement:
    """Archetypes with shares and a verdict, as a server announces them to all clients."""

    patterns: np.ndarray  # int8 (K, N) of +-1
    means: np.ndarray | None = None  # (K, N) in [-1, 1] of classes; None for patterns
    shares: np.ndarray | None = None  # (K,) of the rows in each class; None if unknown
    quality: float = np.nan  # r of the channel, in (0, 1]; NaN for classes, or if unknown
    judgement: tuple[str, str] | tuple[()] = ()  # status and sentence, from all clients' answers
    own: tuple[str, str] | None = None  # the same from an owner's own rows; never sent

    @classmethod
    def of_classes(cls, means: np.ndarray, shares: np.ndarray) -> Announcement:
        """Return the announcement of classes with these means (K, N) and shares (K,)."""
        means = np.asarray(means, np.float64)
        return cls(np.where(means < 0, -1, 1).astype(np.int8), means, shares)

    @property
    def verdict(self) -> tuple[str, str]:
        """Status and its sentence; one owner's rows never give "ok", which needs all rows."""
        if self.own is not None:
            status, advice = self.own
            if status == STATUS:  # the rows were too many for a test
                return STATUS, f"{ADVICE} {advice}"
            if status in GOOD:
                return STATUS, f"{ADVICE} {OWN}{ALONE if status == 'one class' else advice}"
            return status, f"{OWN}{advice} {FEWER}"
        status, advice = self.judgement or (STATUS, ADVICE)
        return status, advice + f" {CLASSES}" * (status == STATUS and self.means is not None)

    def message(self) -> Message:
        """Return the announcement as a message."""
        sent: Message = {"patterns": pack_patterns(self.patterns)}
        if self.means is not None:
            sent["means"] = self.means
        if self.shares is not None:
            sent["shares"] = self.shares.astype(np.float32)
        if 0 < self.quality <= 1:
            sent["quality"] = np.asarray(self.quality, np.float32)
        for name, words in zip(VERDICT, self.judgement, strict=False):
            sent[name] = np.frombuffer(words.encode()[:WORDS], np.uint8)
        return sent

    def archetypes(
        self,
        order: np.ndarray | slice = slice(None),
        columns: Sequence[str] | None = None,
        coding: Coding | None = None,
    ) -> Archetypes:
        """Return the announced archetypes, columns in this `order`; unknown numbers are NaN."""
        K, (status, advice) = len(self.patterns), self.verdict
        unknown, means, quality = np.full(K, np.nan), None, self.quality
        if self.means is not None:
            means = np.asarray(self.means, np.float64)[:, order]
            quality = float(np.sqrt((means**2).mean())) if means.size else np.nan
        return Archetypes(
            patterns=self.patterns[:, order].astype(np.int8),
            scores=unknown,
            predicted_scores=unknown,
            exposures=unknown if self.shares is None else np.asarray(self.shares, np.float64),
            quality=quality,
            n_detected=K,
            explained=np.nan,
            status=status,
            advice=advice,
            matches=np.zeros(0, np.int64),
            channel="symmetric" if means is None else "graded",
            graded_means=means,
            columns=None if columns is None else tuple(columns),
            coding=coding,
        )


def read(down: Message, N: int) -> Announcement:
    """Read the announcement in a server's last message; DataError if it is malformed."""
    wide, words = -(-N // 8), Field((None,), "u", most=255)
    down = {"patterns": np.zeros((0, wide), np.uint8)} | down
    form = {
        "patterns": Field(("archetypes", wide), "u", most=255),
        **dict.fromkeys(VERDICT, words),
        "means": Field(("archetypes", N), "f", least=-1.0, most=1.0),
        "shares": Field(("archetypes",), "f", least=0.0, most=1.0),
        "quality": Field((), "f", least=0.0, most=1.0),
    }
    held = {name: np.asarray(down[name]) for name in form if name in down}
    require_form(held, {name: form[name] for name in held})
    K, shares = len(held["patterns"]), held.get("shares")
    if min(MOST_PATTERNS * N, max(MOST_PATTERNS, LARGEST // N)) < K:
        raise DataError(f"{K:,} archetypes of {N:,} columns, which are too many")
    texts = (held.get(name, np.zeros(0)).astype(np.uint8).tobytes() for name in VERDICT)
    status, advice = (safe_line(text.decode("utf-8", "replace"), WORDS) for text in texts)
    if shares is not None and shares.sum() > 1 + SLACK:
        raise DataError(f"{MALFORMED}: shares add up to more than one")
    if status not in STATUSES:
        raise DataError(f"{MALFORMED}: an unknown status")
    known = float(held.get("quality", 0.0)) or np.nan
    judgement = (status, advice) if status else ()
    patterns = unpack_patterns(held["patterns"], N)
    return Announcement(patterns, held.get("means"), shares, known, judgement)


def read_names(given: Sequence[object], most: int = MOST_COLUMNS) -> tuple[str, ...]:
    """Read names of columns or words that a server announces; DataError if malformed."""
    names = tuple(n for n in given if isinstance(n, str) and 0 < len(n) <= LONGEST)
    whole = not any("\0" in name for name in names)  # run files cut names there
    if not len(set(names)) == len(given) <= most or not whole:
        raise DataError(f"{MALFORMED}: names that are too many, repeated, or not such text")
    return names


def column_order(names: Sequence[str]) -> list[int]:
    """Return the announced order of columns: their places in `names`, by length, then alphabet."""
    return sorted(range(len(names)), key=lambda j: (len(names[j]), names[j]))


def check_columns(own: Sequence[str], width: int, given: Sequence[object]) -> None:
    """Fail unless an owner's columns (`own` names, or a `width`) are those announced, `given`."""
    if bool(given) != bool(own):
        unknown = "my columns have names, and the server knows only a number: serve --columns FILE"
        unnamed = f"the federation names its columns, and my {width:,} have no names"
        raise OtherColumnsError(unknown if own else unnamed)
    names = read_names(given, 2 * width)
    lacks, more = ([n for n in a if n not in set(b)] for a, b in ((names, own), (own, names)))
    if lacks or more:
        parts = [f"lacks {list_names(lacks)} of the federation"] if lacks else []
        beside = "beside" if lacks else "beside those of the federation"
        parts += [f"has {list_names(more)} {beside}"] if more else []
        raise OtherColumnsError(f"my table {', and '.join(parts)}")
    if tuple(names) != tuple(own):
        raise DataError(f"{MALFORMED}: columns not in the order of names")
