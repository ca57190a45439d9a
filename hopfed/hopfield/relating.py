"""`relate` over a federation: what its classes have to do with an outcome that clients hold.

The sums are those of `hopfed.archetypes.relate`, of exact sums only, and added up as they are: what
a client that lies says of its outcome is part of the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.relate import Asked, Column, FirstStep, Member, Relation, of_outcome
from hopfed.archetypes.session import total
from hopfed.errors import DataError, HopfedError, shown
from hopfed.federation.messages import Message, digest
from hopfed.hopfield.announcement import Announcement
from hopfed.hopfield.class_questions import OWNERS, QUESTIONS, asked, digest_of, outcome_names
from hopfed.kernels import Rows


def outcome_of(text: str) -> tuple[str, ...]:
    """Name of an outcome, and words whose rates are wanted: NAME, or NAME=WORD,WORD."""
    name, _, words = text.partition("=")
    return (name.strip(), *dict.fromkeys(filter(None, map(str.strip, words.split(",")))))


def member_of(down: Message, rows: Rows, outcome: Column | None) -> Member:
    """Rows of a client with their classes, and its outcome as the server wants to know it."""
    name, *words = outcome_names(down)
    if outcome is not None and outcome.name != name:
        wants, has = shown(name, 40), shown(outcome.name, 40)
        raise DataError(f"the server asks for the outcome {wants!r}: this is join --outcome {has}")
    values = np.full((len(rows), len(words) or 1), np.nan)
    if outcome is not None and bool(words) != bool(outcome.words):
        held = "words" if outcome.words else "numbers"
        rule = f"serve --relate {shown(name, 40)}=WORD,WORD,..." if outcome.words else "no words"
        raise DataError(f"the outcome holds {held} here, and the server asks for others: {rule}")
    if outcome is not None and not set(outcome.words) <= set(words):
        raise DataError("the outcome holds words that the server does not name (serve --relate)")
    if outcome is not None:
        there = np.isfinite(outcome.values[:, 0])
        values[there] = 0.0
        values[:, [words.index(w) for w in outcome.words] or [0]] = outcome.values
        values[~there] = np.nan
    means = down["means"].astype(np.float64)
    signs = np.where(means < 0, -1, 1).astype(np.int8)
    found = Announcement(signs, means, down["shares"].astype(np.float64)).archetypes()
    return Member.of(found, rows, rows.weights, [Column(name, values, tuple(words))])


def answer(rows: Rows, down: Message, client: int, outcome: Column | None) -> Message:
    """What a client answers, of exact sums over its rows and the `outcome` beside them."""
    beside = outcome and (outcome.name, outcome.words, digest({"": outcome.values}))
    about = digest({name: down[name] for name in ("means", "shares", "outcome")})
    held = client, digest_of(rows), beside, about
    member = OWNERS.get(held, lambda: member_of(down, rows, outcome))
    return {n: np.asarray(a) for n, a in QUESTIONS[asked(down)](member, down).items()}


@dataclass(frozen=True)
class _Rows(FirstStep):
    """All rows of the clients of a round in place of members that are here."""

    tables: Any = None  # a `verdict.Tables`

    def ask(self, question: Callable[[Member, Asked], Asked], **shared: np.ndarray) -> Asked:
        """Sums over clients of their answers to a question."""
        answers = self.tables.ask(question, shared)
        return {name: total(answers, name) for name in answers[0]}


def related(text: str, found: Archetypes, tables: Any) -> Relation | str:
    """Relate classes to the outcome of the clients of `tables`; or why that cannot be done."""
    names = outcome_of(text)
    about = {"means": found.means, "shares": found.shares}
    tables.how = about | {"outcome": np.frombuffer("\0".join(names).encode(), np.uint8)}
    try:
        if len(found) < 2:
            raise DataError("at least two archetypes are needed to tell them apart")
        return of_outcome(_Rows(found, (), tables), Column(names[0], np.zeros((0, 1)), names[1:]))
    except HopfedError as error:
        return shown(error)
