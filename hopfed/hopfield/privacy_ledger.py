"""Ledger of the rows on this machine that were released with noise, and of their privacy budget.

A row is released once, on the terms of the first request for its data set; later requests get the
same bits. Other terms are refused, smaller ones too, as independent noise averages away; so is a
data set that shares a row with another. In the folder, mode 0600: `secret`, 256 bits from which
noise and marks are made; `ledger`, JSON with the terms of each data set and a keyed mark of 16
bytes for each row. The secret is enough to remove the noise; without the ledger rows would be
released anew.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.home_folder import lock_file, parse_record, require_no_lost_link
from hopfed._lib.outputs import replacing
from hopfed.errors import DataError, LocalError
from hopfed.kernels import Rows

__all__ = ["Ledger"]

MARK = 16  # bytes of a mark
DAMAGED = (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)


def keyed_digest(secret: bytes, data: bytes, size: int = MARK) -> bytes:
    """Return a digest of data that cannot be made without the ledger's secret."""
    return hashlib.blake2b(data, digest_size=size, key=secret).digest()


def marks_of(rows: Rows, secret: bytes) -> np.ndarray:
    """Return the ledger's marks (M,) of rows: equal for equal rows, with gaps or without."""
    front = f"row of {rows.shape[1]} ".encode()
    data = [front + row.tobytes() for row in rows.signs]
    if rows.gaps:
        whole = kernels.pack(np.ones((1, rows.shape[1]), np.int8)).signs[0]
        for m in np.flatnonzero((rows.seen != whole).any(axis=1)):
            data[m] = b"with gaps, " + data[m] + rows.seen[m].tobytes()
    return np.frombuffer(b"".join(keyed_digest(secret, each) for each in data), dtype=f"S{MARK}")


def random_order(marks: np.ndarray, secret: bytes) -> np.ndarray:
    """Return the ledger's secret random order (M,) of rows: replacing a row changes one batch."""
    copies: Counter[bytes] = Counter()
    dealt = []
    for mark in marks.tolist():
        dealt.append(keyed_digest(secret, b"dealt out " + mark + b" copy %d" % copies[mark]))
        copies[mark] += 1
    return np.argsort(np.array(dealt, dtype=f"S{MARK}"), kind="stable")


@dataclass(frozen=True)
class Terms:
    """Terms of a release in the ledger: the privacy parameters of a data set."""

    epsilon: float  # epsilon, delta: the budget of every row
    delta: float
    rounds: int = 1  # number of batches into which the rows are divided
    units: int = 0  # that questions about classes may spend; 0 spends all on one operator

    def __str__(self) -> str:
        classes = f", serve --graded (budget of {self.units} units)" if self.units else ""
        return f"epsilon {self.epsilon!r}, delta {self.delta!r}, {self.rounds} round(s){classes}"


@dataclass(frozen=True)
class Release:
    """Entry of the ledger: a released data set, its terms, and what it has spent."""

    terms: Terms  # of the release
    marks: np.ndarray = field(repr=False)  # (M,) of the rows, in the order of their dealing
    spent: dict[int, dict[str, int]] = field(default_factory=dict)  # units, by batch and question

    def plain(self) -> dict[str, Any]:
        """Return the entry as JSON values."""
        terms, rows = self.terms, base64.b64encode(self.marks.tobytes()).decode()
        budget = {"epsilon": float(terms.epsilon).hex(), "delta": float(terms.delta).hex()}
        classes = {"units": terms.units, "spent": self.spent} if terms.units else {}
        return {**budget, "rounds": terms.rounds, "rows": rows, **classes}

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Release:
        """Rebuild an entry from JSON values; raises one of DAMAGED if it is malformed."""
        marks = base64.b64decode(entry["rows"], validate=True)
        epsilon, delta = float.fromhex(entry["epsilon"]), float.fromhex(entry["delta"])
        terms = Terms(epsilon, delta, int(entry["rounds"]), int(entry.get("units", 0)))
        asked = entry["spent"] if terms.units else {}
        spent = {int(b): {str(n): int(cost) for n, cost in q.items()} for b, q in asked.items()}
        if any(cost < 1 for questions in spent.values() for cost in questions.values()):
            raise ValueError
        return cls(terms, np.frombuffer(marks, f"S{MARK}"), spent)


@dataclass(frozen=True)
class Ledger:
    """Ledger in a folder: checks and charges the privacy budget of rows before a release."""

    folder: Path  # of the ledger and its secret; made when something is charged
    look: bool = False  # only look: write nothing, and take no lock

    def terms(self, rows: Rows) -> Terms | None:
        """Terms on which these rows (M, N) were released as one data set; None if they were not."""
        if not self._ledger.exists():
            return None
        _, held, _, at = self._found(rows)
        return None if at is None else held[at].terms

    def check(self, rows: Rows) -> None:
        """Fail if these rows cannot be released; to be called before any message to a server."""
        with self._locked():  # makes the folder, or fails with the reason
            shared = self._released(rows, elsewhere=True)
        if shared.any():
            number, first = int(shared.sum()), int(np.argmax(shared)) + 1
            words = f"{number} of these {len(shared)} rows, row {first} first, equal rows that were"
            rest = "leave them out, or, if other people's, join with a HOPFED_HOME of their own"
            raise DataError(f"{words} released before, in another file: {rest}")

    def released(self, rows: Rows) -> int:
        """Return how many of these rows (M, N) were released with noise: none may leave without."""
        return int(self._released(rows, elsewhere=False).sum())

    def charge(self, rows: Rows, terms: Terms) -> tuple[Rows, int]:
        """Charge the budget of a data set, unless it was charged on the same terms before.

        Returns its rows in the order of their release, and the secret of their noise.
        """
        with self._locked():
            secret, held, marks, at = self._found(rows)
            if at is None:
                if _were_released(held, marks).any():  # without numbers: a server reads this
                    raise DataError("a part of these examples was released before, in another file")
                known = Release(terms, marks[random_order(marks, secret)])
                self._write(secret, [*held, known])
            else:
                known = held[at]
        if known.terms != terms:
            words = f"these examples were released with {known.terms}"
            raise DataError(f"{words}, and are not released on other terms: {terms}")
        order = np.empty(len(marks), dtype=np.intp)
        order[np.argsort(known.marks, kind="stable")] = np.argsort(marks, kind="stable")
        budget = float(terms.epsilon).hex(), float(terms.delta).hex()
        asked = f"noise of {budget[0]} {budget[1]} {terms.rounds} "
        asked += f"{terms.units} units " if terms.units else ""
        noise = keyed_digest(secret, asked.encode() + np.sort(marks).tobytes(), 32)
        return rows[order], 1 + int.from_bytes(noise, "big")

    def spend(self, rows: Rows, terms: Terms, batch: int, question: str, units: int) -> None:
        """Take the cost of a question about classes off the budget of a batch, once."""
        with self._locked():
            secret, held, _, at = self._found(rows)
            if at is None or held[at].terms != terms:
                raise DataError(f"these examples are not released with {terms}")
            spent = held[at].spent.get(batch, {})
            if question in spent:
                return
            left = terms.units - sum(spent.values())
            if units < 1 or units > left:
                words = f"a question costs {units} unit(s) of the privacy budget, and {left} of"
                raise DataError(f"{words} {terms.units} are left for this batch")
            held[at].spent[batch] = {**spent, question: units}
            self._write(secret, held)

    def _found(self, rows: Rows) -> tuple[bytes, list[Release], np.ndarray, int | None]:
        """Secret, data sets, marks of these rows, and the place of their data set, or None."""
        secret, held = self._read()
        marks = marks_of(rows, secret)
        ordered = np.sort(marks)
        same = (i for i, r in enumerate(held) if np.array_equal(np.sort(r.marks), ordered))
        return secret, held, marks, next(same, None)

    def _released(self, rows: Rows, elsewhere: bool) -> np.ndarray:
        """Whether rows (M,) were released; with `elsewhere`, as part of another data set."""
        if not self._ledger.exists():
            return np.zeros(len(rows), dtype=bool)
        _, held, marks, at = self._found(rows)  # whole without a lock: files are replaced
        return _were_released([r for i, r in enumerate(held) if not elsewhere or i != at], marks)

    @property
    def _ledger(self) -> Path:
        """File of the ledger; fail if the file or its folder is a broken link."""
        path = self.folder / "ledger"
        for each in (self.folder, path):
            require_no_lost_link(each)
        return path

    def _locked(self) -> AbstractContextManager[None]:
        """Keep other processes out, and make the folder."""
        return nullcontext() if self.look else lock_file(self._ledger.with_name("lock"))

    def _read(self) -> tuple[bytes, list[Release]]:
        """Read the secret, or make it if nothing was released, and the released data sets."""
        path, secret, held = self.folder / "secret", None, list[Release]()
        try:
            if path.exists():
                if not self.look:
                    path.chmod(0o600)
                text = path.read_bytes().decode("ascii", "replace").strip()
                secret = bytes.fromhex(text) if re.fullmatch("[0-9a-f]{64}", text) else None
            plain = self._ledger.read_bytes() if self._ledger.exists() else None
        except OSError as error:
            raise LocalError(f"{error.filename}: cannot be read: {error.strerror}") from None
        if plain is not None:
            try:
                found = parse_record(plain)
                under = str(found["secret"])
                held = [Release.of(each) for each in found["released"]]
            except DAMAGED:
                words = "damaged, so releases are unknown: put back the copy made after"
                raise LocalError(f"{self._ledger}: {words} the last release") from None
            if held and (secret is None or _fingerprint(secret) != under):
                words = f"{path}: not the secret that {self._ledger} was written under"
                raise LocalError(f"{words}: put that back, or rows would get fresh noise")
        if secret is None:
            secret = secrets.token_bytes(32)
            self._replace(path, secret.hex() + "\n")
        return secret, held

    def _write(self, secret: bytes, held: list[Release]) -> None:
        whole = {"secret": _fingerprint(secret), "released": [entry.plain() for entry in held]}
        self._replace(self._ledger, json.dumps(whole))

    def _replace(self, path: Path, text: str) -> None:
        """Write a file of mode 0600 whole, and wait until it is on the disk."""
        if self.look:
            return
        with replacing(path, private=True, durable=True) as temporary:
            temporary.write_text(text)


def _fingerprint(secret: bytes) -> str:
    """Return a fingerprint of the ledger's secret, which does not show the secret."""
    return keyed_digest(secret, b"fingerprint").hex()


def _were_released(held: list[Release], marks: np.ndarray) -> np.ndarray:
    """Whether rows with these marks (M,) were released in any of these data sets."""
    known = [released.marks for released in held]
    return np.isin(marks, np.concatenate(known)) if known else np.zeros(len(marks), bool)
