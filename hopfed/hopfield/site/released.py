"""What left a site about which examples: a record that lasts, one file for each data set.

Two answers about the same examples tell more than either: sums over two ways to deal them out
differ by single examples. The record holds how a data set was dealt out, what was answered about
each of its batches, and how many numbers that was, whatever federation asked.

A data set is known by a digest of its rows as they lie in the file. One with a row more, a row
less, or the same rows in another order is another data set, with a record of its own: whoever
sends both tells their difference.

With which noise rows left stands in the ledger (`hopfed.hopfield.site.budget`), and here a second
time: under an older ledger, or under none, they would get fresh noise.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.home_folder import parse_record, require_no_lost_link
from hopfed._lib.other_accounts import locked
from hopfed._lib.outputs import replacing
from hopfed.errors import DataError, LocalError
from hopfed.federation.messages import digest
from hopfed.kernels import MaskedBits, PackedBits

RECORDED = "see the folder `released` in HOPFED_HOME"


@dataclass(frozen=True)
class Question:
    """What a server asks of a batch.

    Attributes
    ----------
    rounds : batches that the examples are dealt out to.
    batch : which of them.
    step : exchange that asks, such as "votes".
    name : digest of all that the answer depends on, beside the examples.
    numbers : numbers in the answer, at most.
    """

    rounds: int
    batch: int
    step: str
    name: str
    numbers: int


@dataclass(frozen=True)
class Allowance:
    """What may be answered about a batch, over all federations.

    Attributes
    ----------
    numbers : numbers in all.
    questions : different questions of each step, by its name; any number where there is none.
    """

    numbers: int
    questions: dict[str, int] = field(default_factory=dict)


@dataclass
class Released:
    """The record of a data set.

    Attributes
    ----------
    path : its file; None keeps it in memory.

    Examples
    --------
    >>> record, allowance = Released(), Allowance(10, {"votes": 1})
    >>> record.add(Question(2, 0, "votes", "a", 4), allowance, "the answer")
    >>> record.add(Question(2, 0, "votes", "a", 4), allowance, "the answer")  # nothing new
    >>> record.check(Question(2, 0, "operators", "b", 7), allowance)
    Traceback (most recent call last):
        ...
    hopfed.errors.DataError: of 7 numbers more, some are above the 10 that may leave about a row; \
4 have left: see the folder `released` in HOPFED_HOME
    """

    path: Path | None = None
    _held: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, rows: PackedBits | MaskedBits, look: bool = False) -> Released:
        """Return the record of these rows among those in `folder`; only a copy, to `look` at."""
        require_no_lost_link(folder)
        held = {"rows": rows.words} if isinstance(rows, PackedBits) else _planes(rows)
        name = digest({**held, "columns": np.array(rows.n)}).hex()
        found = cls(folder / f"{name}.json")
        if look:
            return cls(None, found._read())
        with found._locked():  # what is wrong with the folder is said before anybody is asked
            return found

    @property
    def rounds(self) -> int | None:
        """Batches that the rows are dealt out to; None before anybody asked."""
        found = self._read().get("rounds")
        return None if found is None else int(found)

    @property
    def sent(self) -> dict[int, tuple[int, dict[str, int]]]:
        """Batch -> how many numbers left of it, and the number of answers of each kind."""
        return {
            int(t): (int(batch["numbers"]), dict(Counter(each[0] for each in batch["answers"])))
            for t, batch in sorted(self._read().get("batches", {}).items())
        }

    @property
    def terms(self) -> str | None:
        """Terms of the noise with which the rows left, in words; None where they never did."""
        noise = self._read().get("noise")
        return None if noise is None else str(noise[0])

    @property
    def exact(self) -> bool:
        """Whether answers without noise left, before any with noise or instead of them."""
        held = self._read()
        return bool(held.get("exact", held.get("batches") and "noise" not in held))

    def require_noise(self, terms: str, mark: str | None = None) -> None:
        """Fail where the rows left with other noise.

        Parameters
        ----------
        terms : of the noise, in words.
        mark : tells this noise from any other on the same terms; None looks at the terms alone.

        Raises
        ------
        DataError : as said; in words for a server, too.
        """
        _require_noise(self._read(), terms, mark)

    def promise(self, terms: str, mark: str, rounds: int, first: bool = True) -> None:
        """Record with which noise the rows leave, before any do.

        Parameters
        ----------
        terms, mark : as for `require_noise`.
        rounds : of the terms, over which the rows are dealt out where they were not before.
        first : whether no noise was charged before, so that what left until now had none.

        Raises
        ------
        DataError : they left with other noise.
        """
        with self._locked():
            held = self._read()
            _require_noise(held, terms, mark)
            if "noise" not in held:
                known = {"noise": [terms, mark], "exact": first and bool(held.get("batches"))}
                self._write({"rounds": rounds, "batches": {}, **held, **known})

    def deal(self, rounds: int, own: bool = False) -> None:
        """Fix how the rows are dealt out, before it is looked whether they may be answered about.

        Otherwise a server could ask for one dealing after the other until none of its batches is
        refused, and learn from the refusals where in the file the rows are that it may not see.

        Parameters
        ----------
        own : whether the owner chose the number of rounds, which may change it while nothing left.

        Raises
        ------
        DataError : the rows are dealt out otherwise.
        """
        with self._locked():
            held = self._read()
            if own and not held.get("batches"):
                held = {name: held[name] for name in ("noise",) if name in held}
            _require_dealing(held, rounds)
            if "rounds" not in held:
                self._write({**held, "rounds": rounds, "batches": {}})

    def check(self, question: Question, allowance: Allowance) -> None:
        """Fail unless the question may be answered.

        Raises
        ------
        DataError : one line: the examples are dealt out otherwise, too many questions of this kind
            were answered, or too many numbers sent. One that was answered before is free.
        """
        with self._locked():
            held = self._read()
            answers = _batch(held, question)["answers"]
            known = any(each[:2] == [question.step, question.name] for each in answers)
            _require(held, question, allowance, known)

    def add(self, question: Question, allowance: Allowance, answer: str) -> None:
        """Record an answer, before it is sent; the same answer to the same question is no new one.

        Parameters
        ----------
        answer : digest of the answer.
        question, allowance : as for `check`.

        Raises
        ------
        DataError : as `check`; nothing is recorded, and nothing may be sent.
        """
        entry = [question.step, question.name, answer]
        with self._locked():
            held = self._read()
            batch = _batch(held, question)
            known = entry in batch["answers"]
            _require(held, question, allowance, known)
            if known:
                return
            changed = {
                "numbers": batch["numbers"] + question.numbers,
                "answers": [*batch["answers"], entry],
            }
            batches = {**held.get("batches", {}), str(question.batch): changed}
            self._write({**held, "rounds": question.rounds, "batches": batches})

    def _read(self) -> dict[str, Any]:
        if self.path is None or not self.path.is_file():
            return self._held
        try:
            held = parse_record(self.path.read_text())
            sound = (
                type(held["rounds"]) is int
                and held["rounds"] > 0
                and all(map(_is_batch, held["batches"].items()))
                and _is_noise(held.get("noise", ["", ""]))
                and type(held.get("exact", False)) is bool
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError):
            sound = False
        if not sound:  # for the owner alone: by its name a guess of the rows could be confirmed
            raise LocalError(
                f"{self.path}: damaged, so nobody knows what left about these rows: put back the "
                "copy that was made after the last release; an older one forgets what left since, "
                "and who removes it releases these rows anew"
            )
        return dict(held)

    def _write(self, held: dict[str, Any]) -> None:
        self._held = held
        if self.path is None:
            return
        with replacing(self.path, private=True, durable=True) as temporary:
            temporary.write_text(json.dumps(held))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes of this user out, which may share the data under another key."""
        with nullcontext() if self.path is None else locked(self.path.with_suffix(".lock")):
            yield


def _is_batch(entry: tuple[str, Any]) -> bool:
    """Whether this is the number of a batch and what a record holds of it."""
    number, batch = entry
    answers = batch["answers"]
    triples = type(answers) is list and all(
        type(each) is list and len(each) == 3 and all(type(word) is str for word in each)
        for each in answers
    )
    return (
        number.isdecimal() and type(batch["numbers"]) is int and batch["numbers"] >= 0 and triples
    )


def _is_noise(noise: Any) -> bool:
    """Whether this is what a record holds of the noise of its rows."""
    return type(noise) is list and len(noise) == 2 and all(type(word) is str for word in noise)


def _planes(rows: MaskedBits) -> dict[str, np.ndarray]:
    return {"rows": rows.signs.words, "seen": rows.seen.words}


def _batch(held: dict[str, Any], question: Question) -> dict[str, Any]:
    """Return what the record holds of the batch of a question."""
    empty = {"numbers": 0, "answers": []}
    return dict(held.get("batches", {}).get(str(question.batch), empty))


def _require_noise(held: dict[str, Any], terms: str, mark: str | None) -> None:
    """Fail where the rows left with other noise."""
    before, known = held.get("noise", (terms, mark))
    if before != terms:
        raise DataError(
            f"these examples were released with {before}, and are not released on other terms: "
            f"{terms}"
        )
    if mark not in (None, known):
        raise DataError(
            "these examples were released with noise of another secret, and get no fresh noise"
        )


def _require_dealing(held: dict[str, Any], rounds: int) -> None:
    """Fail where the rows are dealt out otherwise."""
    before = held.get("rounds", rounds)
    if before != rounds:
        raise DataError(
            f"these rows are dealt over {before} round(s) (serve --rounds {before}), and the sums "
            f"of a second dealing could be subtracted; the federation asks for {rounds}: {RECORDED}"
        )


def _require(held: dict[str, Any], question: Question, allowance: Allowance, known: bool) -> None:
    """Fail unless a question may be answered; one that is `known` needs no further allowance."""
    _require_dealing(held, question.rounds)
    if known:
        return
    batch = _batch(held, question)
    given = sum(each[0] == question.step for each in batch["answers"])
    most = allowance.questions.get(question.step, given + 1)
    if given >= most:
        raise DataError(
            f"these rows answer {most} different question(s) by {question.step}, whose answers "
            f"could be subtracted, and have: {RECORDED}"
        )
    if batch["numbers"] + question.numbers > allowance.numbers:
        raise DataError(
            f"of {question.numbers:,} numbers more, some are above the {allowance.numbers:,} that "
            f"may leave about a row; {batch['numbers']:,} have left: {RECORDED}"
        )
