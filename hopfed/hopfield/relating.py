"""`relate` over a federation: what its classes have to do with an outcome that clients hold.

The sums are those of `hopfed.archetypes.relate`, of exact sums only, and added up as they are: what
a client that lies says of its outcome is part of the answer. The server names the outcome, and the
words whose rates it wants, so that no word of a client leaves. A client without that column says
so by having no row that is used: the classes come from its rows as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.relate import (
    Asked,
    Column,
    FirstStep,
    Member,
    Relation,
    first_sums,
    lost_information,
    of_outcome,
    outcome_meat,
    outcome_slopes,
    outcome_sums,
    rated_words,
)
from hopfed.errors import DataError, HopfedError, shown
from hopfed.federation.messages import Field, Message, Spec, digest, malformed, not_finite
from hopfed.hopfield.announcement import Announcement
from hopfed.hopfield.class_questions import MOST as MOST_CLASSES
from hopfed.hopfield.class_questions import OWNERS, digest_of
from hopfed.hopfield.class_questions import QUESTIONS as OTHERS
from hopfed.hopfield.columns import read_names
from hopfed.kernels import Rows

QUESTIONS = (first_sums, outcome_sums, outcome_slopes, lost_information, outcome_meat)
MOST = 2**24  # numbers in a question
RELATED = len(OTHERS)  # number of a question about an outcome among those about classes
ABOUT = ("means", "shares", "outcome")  # what all of them have
NEEDED: tuple[tuple[str, ...], ...] = (
    (), (), ("outcome_means",), ("along",), ("outcome_means", "solved", "survey"),
)  # fmt: skip


def outcome_of(text: str) -> tuple[str, ...]:
    """Name of an outcome, and words whose rates are wanted: NAME, or NAME=WORD,WORD."""
    name, _, words = text.partition("=")
    return (name.strip(), *dict.fromkeys(filter(None, map(str.strip, words.split(",")))))


def is_about(down: Message) -> bool:
    """Whether a message from the server asks about an outcome."""
    return np.ndim(down.get("question", ())) == 0 and int(down["question"]) == RELATED


def spec_of(down: Message, n_sites: int) -> Spec:
    """Form of an answer."""
    K, N, C = len(down["means"]), n_sites, len(rated_words(_names(down)[1:]))
    forms: tuple[dict[str, tuple[int, ...]], ...] = (
        {"seen": (K, N), "rows": (4,)},
        {"products": (K, K), "sums": (K, C), "spread": (2, C), "other": ()},
        {"wanted": (K * C, K, N + 1)},
        {"product": np.shape(down.get("along", ()))},
        {"meat": (K * C, K * C)},
    )
    return {name: Field(shape, "f") for name, shape in forms[int(down["part"])].items()}


def _names(down: Message) -> tuple[str, ...]:
    """Name of an outcome, and words whose rates are wanted, as a message has them."""
    K, N = np.shape(down.get("means", np.zeros((1, 1))))
    try:
        words = down["outcome"].astype(np.uint8).tobytes().decode().split("\0")
    except (KeyError, UnicodeDecodeError):
        raise DataError("a malformed message from the server: an outcome without a name") from None
    return read_names(words, 1 + MOST // max(K * N, 1))


def check(down: Message, n_sites: int) -> None:
    """Fail unless a message from the server asks about an outcome."""
    part = int(down["part"]) if np.ndim(down.get("part", ())) == 0 else -1
    good = 0 <= part < len(QUESTIONS) and np.ndim(down.get("means", ())) == 2
    good = good and 1 <= len(down["means"]) <= MOST_CLASSES
    wrong: str | None = None if good else "no such question"
    if good:
        K, N, C = len(down["means"]), n_sites, len(rated_words(_names(down)[1:]))
        spec = {name: Field((), "iu") for name in ("question", "part")}
        spec |= {"outcome": Field((None,), "u")}
        spec |= {"means": Field((K, N), "f", least=-1.0, most=1.0)}
        spec |= {"shares": Field((K,), "f", least=0.0, most=1.0 + 1e-6)}
        own = {"outcome_means": Field((K, C), "f"), "survey": Field((), "f")}
        own |= {"along": Field((None, K, N + 1), "f"), "solved": Field((K * C, K, N + 1), "f")}
        spec |= {name: own[name] for name in NEEDED[part]}
        wrong = malformed(down, spec) or not_finite(down)
        if not wrong and (K * C + len(down.get("along", ()))) * K * (N + 1) > MOST:
            wrong = "more numbers than a question has"
    if wrong:
        raise DataError(f"a malformed message from the server: {wrong}")


def member_of(down: Message, rows: Rows, outcome: Column | None) -> Member:
    """Rows of a client with their classes, and its outcome as the server wants to know it."""
    name, *words = _names(down)
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
    """What a client answers, of exact sums."""
    beside = None
    if outcome is not None:
        beside = outcome.name, outcome.words, digest({"outcome": outcome.values})
    about = client, digest_of(rows), beside, digest({name: down[name] for name in ABOUT})
    member = OWNERS.get(about, lambda: member_of(down, rows, outcome))
    return {n: np.asarray(a) for n, a in QUESTIONS[int(down["part"])](member, down).items()}


@dataclass(frozen=True)
class _Clients(FirstStep):
    """Asks clients of a round in place of members that are here."""

    session: Any = None
    clients: Sequence[int] = ()
    names: Sequence[str] = ()

    def ask(self, question: Callable[[Member, Asked], Asked], **asked: np.ndarray) -> Asked:
        """Sums over clients of their answers to a question."""
        words = np.frombuffer("\0".join(self.names).encode(), np.uint8)
        down = {"means": self.found.means, "shares": self.found.shares, "outcome": words}
        down |= {"question": np.array(RELATED), "part": np.array(QUESTIONS.index(question))}
        said = self.session.ask({c: {**down, **asked} for c in self.clients})
        if lost := [c for c in self.clients if c not in said]:
            raise DataError(f"client {lost[0]} did not answer what relates classes to its outcome")
        return {
            name: np.sum([said[c][name] for c in self.clients], axis=0)
            for name in said[self.clients[0]]
        }


def related(text: str, found: Archetypes, session: Any, clients: Sequence[int]) -> Relation | str:
    """Relate classes to the outcome of clients; or why that cannot be done."""
    names = outcome_of(text)
    step = _Clients(found, (), session, clients, names)
    try:
        if len(found) < 2:
            raise DataError("at least two archetypes are needed to tell them apart")
        return of_outcome(step, Column(names[0], np.zeros((0, 1)), names[1:]))
    except HopfedError as error:
        return shown(error)
