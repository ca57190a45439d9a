"""Marks of rows, keyed by a secret, and the order in which a secret deals rows out."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np

from hopfed import kernels
from hopfed.kernels import MaskedBits, PackedBits

MARK = 16  # bytes


def keyed(secret: bytes, data: bytes, size: int = MARK) -> bytes:
    """Digest of data that nobody can make without the secret."""
    return hashlib.blake2b(data, digest_size=size, key=secret).digest()


def fingerprint(secret: bytes) -> str:
    """Tell a secret from others without showing it."""
    return keyed(secret, b"fingerprint").hex()


def marks_of(rows: PackedBits | MaskedBits, secret: bytes) -> np.ndarray:
    """Marks (M,) of rows: equal for equal rows, and for nothing else.

    A complete row has the same mark whether or not another row of its file has a gap.
    """
    front = f"row of {rows.shape[1]} ".encode()
    if isinstance(rows, PackedBits):
        said = [front + row.tobytes() for row in rows.words]
    else:
        whole = kernels.pack(np.ones((1, rows.shape[1]), np.int8)).words[0]
        gaps = (rows.seen.words != whole).any(axis=1)
        said = [front + row.tobytes() for row in rows.signs.words]
        for m in np.flatnonzero(gaps):
            said[m] = b"with gaps, " + said[m] + rows.seen.words[m].tobytes()
    return np.frombuffer(b"".join(keyed(secret, each) for each in said), dtype=f"S{MARK}")


def by_chance(marks: np.ndarray, secret: bytes) -> np.ndarray:
    """Order (M,) of rows that neither their file nor their values decide.

    In a sorted file one row decides the places of all those after it, and would by these decide
    which of them are in which batch: then every batch of a release would tell of that row, and not
    its own alone. By a key, with the number of each copy of a row, all orders are as likely,
    whatever the rows are, and another row in the place of one is another row in one batch.
    """
    copies: Counter[bytes] = Counter()
    dealt = []
    for mark in marks.tolist():
        dealt.append(keyed(secret, b"dealt out " + mark + b" copy %d" % copies[mark]))
        copies[mark] += 1
    return np.argsort(np.array(dealt, dtype=f"S{MARK}"), kind="stable")
