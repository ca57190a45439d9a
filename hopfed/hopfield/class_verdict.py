"""The verdict on classes of a federation: that of `hopfed.recover` on the rows of all clients.

The tests of `hopfed.archetypes`, and `relate`, ask owners, which are clients here. Answers are
added up unchecked: the lies of a client are part of the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hopfed.archetypes.channel_and_replicas import choose_channel, inflation, nearness
from hopfed.archetypes.class_sums import Mixture, Prior, e_step, improve
from hopfed.archetypes.class_tests import differ, measure_classes, trait_gain
from hopfed.archetypes.classes import draw_part, without_absent
from hopfed.archetypes.relate import Asked, Column, FirstStep, Member, Relation, of_outcome
from hopfed.archetypes.session import Owners, Session, means_inside, total
from hopfed.archetypes.verdict import judge_classes
from hopfed.errors import DataError, HopfedError, safe_line
from hopfed.federation.messages import Message
from hopfed.hopfield.announcement import STATUS, Announcement
from hopfed.hopfield.class_questions import LEARNT, QUESTIONS, asks, count_rows
from hopfed.kernels import Rows

FITTING = "These archetypes explain what columns have in common, as far as sums with noise show."
UNFIT = (
    "The rows of most clients are not noisy copies of these archetypes: columns have rates of "
    "their own, or exclude each other. serve --graded asks for classes instead."
)
HIDING = (
    "Noise of epsilon {:g} on rounds of {:,.0f} rows may hide classes: more rows in a round, or "
    "a larger epsilon, can show more."
)
UNSHOWN = "poor fit"  # status of classes that the rows of all clients do not bear out
PART = "{} of the {} archetypes are here. "
FALSE = "All rows show {} of these {} archetypes: others are false, or of clients that are gone."
LYING = (
    "The sums of all clients contradict these archetypes, made without the largest and smallest: "
    "clients differ or lie. Look at serve --byzantine 0, which takes all sums."
)
STEPS = 60  # most steps of the first fit to the rows
# Most classes, and entries times classes, for a verdict: they take this machine 15 to 65 s.
MOST, MOST_WORK = 100, 150_000_000


def class_verdict(
    owners: Session,
    means: np.ndarray,
    shares: np.ndarray,
    groups: Sequence[Sequence[int]] = (),
    names: Sequence[str] | None = None,
    kept: float | None = None,  # for all clients: rows behind sums without extremes, or 0
) -> tuple[str, str]:
    """Return the verdict on classes (K, N), shares (L, K), by owners' rows: status, sentence."""
    K, N = np.shape(means)
    try:
        if K > MOST or K * owners.n_rows * N > MOST_WORK:
            size = f"{K} classes and {owners.n_rows:,.0f} rows of {N:,} columns"
            words = f"Whether the rows lie in them is not known: {size} are too much to look at"
            return STATUS, f"{words} here. `hopfed recover` judges an owner's rows by themselves."
        classes = Mixture(np.clip(np.asarray(means, np.float64), -1 + 1e-6, 1 - 1e-6), shares)
        told = e_step(owners, classes, Prior.of(owners))
        fit = without_absent(owners, improve(owners, told, STEPS))
        fewer = FALSE.format(fit.size, K) if fit.size < K and kept is not None else ""
        if fewer or (kept and differ(owners, told, fit, kept)):
            return UNSHOWN, f"{fewer} {LYING if kept else ''}".strip()
        tests = measure_classes(owners, fit, names=names)
        channel = choose_channel(fit, inflation(fit, owners.seed))
        common = owners.sizes @ fit.classes.shares / owners.n_rows
        near = nearness(channel, common, owners.n_rows, fit.prior.observed)
        # Levels of a variable depend on each other in either model.
        trait = None if groups else trait_gain(owners, channel, common, fit.prior)
    except SilentClientsError as error:
        return STATUS, str(error)
    verdict = judge_classes(replace(tests, near=near, trait=trait))
    return verdict.status, PART.format(fit.size, K) * (fit.size < K) + verdict.advice


def own_verdict(
    rows: Rows,
    means: np.ndarray,
    groups: Sequence[Sequence[int]] = (),
    names: Sequence[str] | None = None,
    shares: np.ndarray | None = None,
    kept: float | None = None,
) -> tuple[str, str] | None:
    """Return the verdict on classes by an owner's rows: status, sentence; None without classes."""
    K = len(means)
    if K == 0:
        return None
    part = draw_part(Owners.of([rows], 0, groups), K, groups)[0]
    there = slice(None) if part.columns is None else part.columns
    each = np.full((1, K), 1 / K) if shares is None else shares[None]
    return class_verdict(part, means[:, there], each, groups, names, kept)


class SilentClientsError(HopfedError):
    """Some clients fell silent while their rows were asked; the others are `left`."""

    left: Sequence[int] = ()


class RoundSession(Session):
    """Clients of a round as owners of rows: each question about classes is a message to each."""

    def __init__(self, session: Any, clients: Sequence[int], n_columns: int, seed: int):
        self.session, self.clients = session, list(clients)
        self.n_columns, self.seed = n_columns, seed
        # The classes of the last question, and the arrays that differ by client.
        self.learnt, self.own = Message(), Message()

    @property
    def means(self) -> np.ndarray:  # noqa: D102
        return means_inside(self.learnt["means"])

    def said(
        self, question: Any, shared: Message, own: Message, check: Any = None
    ) -> list[Message]:
        """Return the answer of each client to a question; FewerError if a client is silent."""
        shared = {**shared, "question": np.array(QUESTIONS.index(question), np.int32)}
        each = enumerate(self.clients)
        down = {c: shared | {name: array[i] for name, array in own.items()} for i, c in each}
        self.exchanges += 1
        answers = self.session.ask(down, check)
        if len(left := [c for c in self.clients if c in answers]) < len(self.clients):
            error = SilentClientsError("A client fell silent while the rows were asked.")
            error.left = left
            raise error
        return [answers[c] for c in self.clients]


class ClientTables(RoundSession):
    """All rows of clients, or tables made of these, for the tests of a verdict."""

    def __init__(self, *rounds: Any, how: Message | None = None):
        super().__init__(*rounds)
        self.how = how or {}  # arrays that say how to make the tables
        self.offer: Message = {}  # the points that were offered last

    @cached_property
    def sizes(self) -> np.ndarray:  # noqa: D102
        return np.array([float(m["rows"]) for m in self.once(count_rows)])

    def ask(self, question: Any, shared: Message, own: Message | None = None) -> list[Message]:  # noqa: D102
        if question in LEARNT:
            self.learnt, self.own = shared, own or {}
        elif question == asks.offer_points:
            self.offer = shared
        whole = {**self.learnt, **self.how, **shared, "every": np.array(1)}
        whole |= self.offer if question == asks.mixture_sums else {}
        each = {n: whole.pop(n) for n in ("of_shares",) if n in whole}
        return self.said(question, whole, {**self.own, **each, **(own or {})})

    def made_of(self, _: Any, how: Message) -> ClientTables:  # noqa: D102
        how = how | {"seed": np.array(self.seed)}
        made = ClientTables(self.session, self.clients, self.n_columns, self.seed, how=how)
        if "step" not in how:
            made.sizes = self.sizes
        return made


def parse_outcome(text: str) -> tuple[str, ...]:
    """Parse the outcome that classes are related to, NAME or NAME=WORD,WORD: name and words."""
    name, _, words = text.partition("=")
    return (name.strip(), *dict.fromkeys(filter(None, map(str.strip, words.split(",")))))


@dataclass(frozen=True)
class _Step(FirstStep):
    """First step of a relation over all rows of a round's clients, in place of members here."""

    tables: Any = None  # a `ClientTables`

    def ask(self, question: Callable[[Member, Asked], Asked], **shared: np.ndarray) -> Asked:
        """Sums over clients of their answers to a question."""
        answers = self.tables.ask(question, shared)
        return {name: total(answers, name) for name in answers[0]}


def relate_classes(text: str, memory: Any, tables: Any) -> Relation | str:
    """Relate the memory's classes to clients' outcome: the relation, or why there is none."""
    names = parse_outcome(text)
    found = Announcement.of_classes(memory.means, memory.shares).archetypes()
    words = np.frombuffer("\0".join(names).encode(), np.uint8)
    tables.how = {"means": found.means, "shares": found.shares, "outcome": words}
    try:
        if len(found) < 2:
            raise DataError("at least two archetypes are needed to tell them apart")
        return of_outcome(_Step(found, (), tables), Column(names[0], np.zeros((0, 1)), names[1:]))
    except HopfedError as error:
        return safe_line(error)
