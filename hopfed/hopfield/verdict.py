"""The verdict on classes of a federation: that of `hopfed.recover` on the rows of all clients.

The tests of `hopfed.archetypes` ask owners. Here these are clients: a question goes to each, about
its rows, about replicas that it draws of them, or about some of them; sums come back. Replicas are
asked about at once, so that a verdict takes as many exchanges as one of them.

Answers are added up as they are: what a client that lies says of its rows is part of the verdict.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import to_host
from hopfed.archetypes.channel import choose, lost, nearness
from hopfed.archetypes.class_questions import (
    class_sums,
    column_sums,
    mixture_sums,
    offered,
    repeated,
    residual_product,
    residual_squares,
    sums_and_pairs,
)
from hopfed.archetypes.classes import searched
from hopfed.archetypes.judging import measured, some_of, trait_gain
from hopfed.archetypes.mixture import Fit, Mixture, Prior, expect, improve
from hopfed.archetypes.replicas import redrawn
from hopfed.archetypes.session import Owner, Session
from hopfed.archetypes.status import judge_classes
from hopfed.errors import DataError
from hopfed.federation.messages import Field, Message, Spec, digest
from hopfed.kernels import Rows

STATUS = "not judged"
FITTING = (
    "These archetypes explain what the columns of most clients have in common, as far as the sums "
    "show, which are not exact."
)
UNFIT = (
    "The rows of most clients are not noisy copies of these archetypes: none of them is "
    "established. Columns have rates of their own, or exclude each other: serve --graded asks for "
    "classes instead."
)
STEPS, MORE = 60, 20  # of the fit to the rows, at most: the first, and of fewer classes
# A server that tells much shall not keep this machine busy: so many classes, and entries times
# classes. The latter take 15 to 65 s of one core: longest where classes are few and most entries
# are missing, or where many classes are left out one by one.
MOST, MOST_WORK = 100, 150_000_000


def judged(
    owners: Any,
    means: np.ndarray,
    shares: np.ndarray,
    groups: Sequence[Sequence[int]] = (),
    names: Sequence[str] | None = None,
) -> tuple[str, str]:
    """Status of classes (K, N) with shares (L, K) by the rows of all owners, and its sentence."""
    classes = Mixture(np.clip(np.asarray(means, np.float64), -1 + 1e-6, 1 - 1e-6), shares)
    prior = Prior.of(owners)
    fit = improve(owners, expect(owners, classes, prior), STEPS)
    fit = _without_absent(owners, fit)
    tests = measured(owners, fit, names=names)
    channel = choose(fit, lost(fit, owners.seed))
    common = owners.sizes @ fit.classes.shares / owners.n_rows
    near = nearness(channel, common, owners.n_rows, fit.prior.observed)
    # Levels of a variable depend on each other in either model.
    trait = None if groups else trait_gain(owners, channel, common, fit.prior)
    verdict = judge_classes(replace(tests, near=near, trait=trait))
    return verdict.status, verdict.advice


def own_verdict(
    rows: Rows,
    means: np.ndarray,
    groups: Sequence[Sequence[int]] = (),
    names: Sequence[str] | None = None,
    seed: int = 0,
) -> tuple[str, str] | None:
    """Status of classes by rows that are here, and its sentence; None where there are none."""
    K = len(means)
    if K == 0:
        return None
    if K > MOST:
        return STATUS, too_large(K, rows.shape)
    part = searched(Session.of([rows], seed, groups), K, groups)
    if K * int(part.owners.sizes.sum()) * part.owners.n_columns > MOST_WORK:
        return STATUS, too_large(K, rows.shape)
    there = slice(None) if part.columns is None else part.columns
    return judged(part.owners, means[:, there], np.full((1, K), 1 / K), groups, names)


def too_large(K: int, shape: tuple[int, ...]) -> str:
    """Say that nobody looked, and what may be done about it."""
    return (
        f"Whether the rows lie in them is not known: {K} classes and {shape[0]:,} rows of "
        f"{shape[1]:,} columns are too much to look at here, at most {MOST} classes, and "
        f"{MOST_WORK // 1_000_000} million entries times classes. `hopfed recover` judges the "
        "rows of an owner by themselves."
    )


def _without_absent(owners: Any, fit: Fit) -> Fit:
    """Leave out the class of the fewest rows as long as the evidence does not fall."""
    while fit.size > 1:
        kept = np.arange(fit.size) != fit.sums.counts.sum(axis=0).argmin()
        shares = fit.classes.shares[:, kept]
        left = Mixture(fit.classes.means[kept], shares / shares.sum(axis=1, keepdims=True))
        fewer = improve(owners, expect(owners, left, fit.prior), MORE)
        if fewer.evidence < fit.evidence:
            break
        fit = fewer
    return fit


def size_of(owner: Owner, _: Message) -> Message:
    """Rows of a table."""
    return {"rows": np.array(owner.size)}


TESTS: tuple[Callable[[Owner, Message], Message], ...] = (
    column_sums, sums_and_pairs, repeated, offered, mixture_sums, residual_squares,
    residual_product, class_sums, size_of,
)  # fmt: skip
SUMS, PAIRS, EQUAL, OFFERED, MIXED, SQUARES, PRODUCT, CLASSES, SIZE = range(len(TESTS))
OFFER = ("points", "more")  # what a question about rows beside the classes is about
LEARNT = (PAIRS, CLASSES)  # that tell the classes which the others are about
TABLES = 32  # that a server may ask about at once


def spec_of(down: Message, n_sites: int, most: int) -> Spec:
    """Form of an answer about several tables."""
    found: dict[str, Field] = {"examples": Field((), "iu", least=1, most=most)}
    for number, asked in tables_of(down).items():
        K, N, point = len(asked.get("means", ())), n_sites, f"points {number}"
        sums = {"counts": (K,), "signed": (K, N), "seen": (K, N), "log_likelihood": ()}
        mixed = {"value": (), "slopes": (point,), "bends": (point, point)}
        shapes: dict[int, dict[str, tuple[Any, ...]]] = {
            SUMS: {"sums": (N,), "seen": (N,)}, PAIRS: {**sums, "pairs": (K, K)},
            EQUAL: {"equal": (2,)}, OFFERED: mixed, MIXED: mixed, SQUARES: {"squares": (N,)},
            PRODUCT: {"product": (N,)}, CLASSES: sums, SIZE: {"rows": ()},
        }  # fmt: skip
        for name, shape in shapes[int(asked["question"])].items():
            bounded = "examples" if name in ("counts", "signed", "seen", "sums", "rows") else None
            found[f"{number}/{name}"] = Field(shape, "fiu", within=bounded)
    return found


def tables_of(message: Message) -> dict[str, Message]:
    """What a message says of each table, by their numbers."""
    found: dict[str, Message] = {}
    for name, array in message.items():
        number, stroke, rest = name.partition("/")
        if stroke:
            found.setdefault(number, {})[rest] = array
    return dict(sorted(found.items(), key=lambda each: int(each[0])))


def check(down: Message, n_sites: int, classes: int) -> None:
    """Fail unless a message from the server asks about tables of a client."""
    tables = tables_of(down)
    good = len(tables) <= TABLES
    for asked in tables.values():
        good = good and 0 <= int(asked.get("question", -1)) < len(TESTS)
        for name, dimensions in (("means", 2), ("of", 2), ("points", 3)):
            array = asked.get(name, np.zeros((1,) * (dimensions - 1) + (n_sites,)))
            good = good and array.ndim == dimensions and array.shape[-1] == n_sites
            good = good and array.shape[-2] <= classes and (dimensions < 3 or len(array) <= TABLES)
    if not good:
        raise DataError("a malformed message from the server: no question about tables")


def tested(owner: Owner, down: Message, made: Callable[[Message, Any], Owner]) -> Message:
    """Answers of an owner about several tables; `made` keeps what is made of its rows."""
    found: Message = {"examples": np.asarray(owner.size)}
    for number, asked in tables_of(down).items():
        how: Message = {
            name: asked[name]
            for name in ("of", "of_shares", "number", "seed", "step")
            if name in asked
        }
        table = made(how, partial(_table, owner, how)) if how else owner
        question = int(asked["question"])
        classes = digest({n: asked[n] for n in ("means", "shares") if n in asked})
        if question not in (*LEARNT, SUMS, SIZE, EQUAL) and getattr(table, "told", b"") != classes:
            table.learn(asked["means"], asked["shares"])
        if question == MIXED:
            offer: Message = {n: asked[n] for n in OFFER}
            if getattr(table, "offered", b"") != (name := classes + digest(offer)):
                offered(table, offer)
                table.offered = name  # type: ignore[attr-defined]
        answers = TESTS[question](table, asked)
        if question not in (SUMS, SIZE, EQUAL):
            table.told = classes  # type: ignore[attr-defined]
        found |= {f"{number}/{n}": np.asarray(to_host(a)) for n, a in answers.items()}
    return found


def _table(owner: Owner, how: Message) -> Owner:
    """What is made of the rows of an owner."""
    if "step" in how:
        return some_of(owner, max(int(how["step"]), 1))
    seed, number = int(how["seed"]), int(how["number"])
    return redrawn(owner, owner.index, how["of"], how["of_shares"], seed, number)


class LostError(Exception):
    """A client fell silent, so that nothing can be compared any more."""


@dataclass
class Exchange:
    """Puts what several scripts ask into one question to each client.

    Attributes
    ----------
    round_ : the session of a round, which asks the clients.
    clients : numbers of those.
    question : what says to clients that tables are asked about.
    """

    round_: Any
    clients: Sequence[int]
    question: int
    _asked: dict[int, tuple[Message, Message]] = field(default_factory=dict)
    _answers: dict[int, list[Message]] = field(default_factory=dict)
    _live: int = 0
    _failed: BaseException | None = None
    _turn: threading.Condition = field(default_factory=threading.Condition)

    def ask(self, number: int, shared: Message, own: Message) -> list[Message]:
        """Answers of all clients about a table; a script waits for the others."""
        if not self._live:
            return self._put({number: (shared, own)})[number]
        with self._turn:
            self._asked[number] = shared, own
            self._turn.notify_all()
            self._turn.wait_for(lambda: number in self._answers or self._failed is not None)
            if self._failed is not None:
                raise LostError
            return self._answers.pop(number)

    def each(self, task: Callable[[int], Any], numbers: Iterable[int]) -> Iterator[Any]:
        """What a task gives of each number, all of them asking at once."""
        numbers = list(numbers)
        self._live, self._failed = len(numbers), None

        def script(number: int) -> Any:
            try:
                return task(number)
            finally:
                with self._turn:
                    self._live -= 1
                    self._turn.notify_all()

        with ThreadPoolExecutor(len(numbers)) as pool:
            futures = [pool.submit(script, number) for number in numbers]
            try:
                self._serve()
            except BaseException as error:
                with self._turn:
                    self._failed = error
                    self._turn.notify_all()
                raise
        return iter([future.result() for future in futures])

    def _serve(self) -> None:
        """Ask the clients whenever every script that is left has asked."""
        while True:
            with self._turn:
                self._turn.wait_for(lambda: len(self._asked) == self._live)
                if not self._live:
                    return
                asked, self._asked = dict(sorted(self._asked.items())), {}
            answers = self._put(asked)
            with self._turn:
                self._answers |= answers
                self._turn.notify_all()

    def _put(self, asked: Mapping[int, tuple[Message, Message]]) -> dict[int, list[Message]]:
        down: dict[int, Message] = {}
        for i, c in enumerate(self.clients):
            down[c] = {"question": np.array(self.question, np.int32)}
            for number, (shared, own) in asked.items():
                whole = {**shared, **{name: array[i] for name, array in own.items()}}
                down[c] |= {f"{number}/{name}": np.asarray(a) for name, a in whole.items()}
        said = self.round_.ask(down)
        if any(c not in said for c in self.clients):
            raise LostError
        answers = [tables_of(said[c]) for c in self.clients]
        return {n: [each[str(n)] for each in answers] for n in asked}


@dataclass
class Tables:
    """The rows of clients, or tables made of them, as a session that tests can ask.

    Attributes
    ----------
    exchange : puts questions to the clients.
    n_columns : N.
    seed : of replicas.
    sizes : (L,) rows of each client.
    number, how : of this table; what it is made of, and of that what is each client's own.
    """

    exchange: Exchange
    n_columns: int
    seed: int
    sizes: np.ndarray
    number: int = 0
    how: Message = field(default_factory=dict)
    own: Message = field(default_factory=dict)
    exchanges: int = 0
    heard: Any = None
    columns: None = None
    variables: None = None
    members: tuple[Owner, ...] = ()
    traffic: None = None
    _classes: tuple[Message, Message] = ({}, {})
    _offer: Message = field(default_factory=dict)

    @property
    def n_rows(self) -> float:
        """M, over all clients."""
        return float(self.sizes.sum())

    @property
    def first(self) -> Owner:
        """Stands for an owner that knows the classes that were asked about last."""
        found = Owner(kernels.pack(np.ones((1, self.n_columns))))
        found.learn(self._classes[0]["means"], np.ones(len(self._classes[0]["means"])))
        return found

    def ask(self, question: Any, shared: Message, own: Message | None = None) -> list[Message]:
        """Put one question to every client: one exchange."""
        asked = TESTS.index(question)
        if asked in LEARNT:
            self._classes = shared, own or {}
        elif asked == OFFERED:
            self._offer = shared
        whole = {**self._classes[0], **self.how, **shared}
        whole |= self._offer if asked == MIXED else {}
        each = {**self._classes[1], **self.own, **(own or {})}
        whole |= {"question": np.array(asked, np.int32)}
        self.exchanges += 1
        return self.exchange.ask(self.number, whole, each)

    def made_of(self, _: Any, how: Message) -> Tables:
        """The session of tables that clients make of their rows."""
        own = {n: how[n] for n in ("of_shares",) if n in how}
        shared = {n: a for n, a in how.items() if n not in own} | {"seed": np.array(self.seed)}
        number = 1 + int(how["number"]) if "number" in how else TABLES
        made = Tables(self.exchange, self.n_columns, self.seed, self.sizes, number, shared, own)
        if "step" in how:
            made.sizes = np.array([float(a["rows"]) for a in made.ask(size_of, {})])
        return made

    def each(self, task: Callable[[int], Any], numbers: Iterable[int]) -> Iterator[Any]:
        """What a task gives of each number, all of them asking at once."""
        return self.exchange.each(task, numbers)
