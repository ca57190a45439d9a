"""Names of columns: which column of an owner is which of the federation.

A server that knows the names of its columns (`hopfed serve --columns FILE`) tells them with every
question, and owners put theirs in that order, whatever their files have. Where a server knows only
their number, columns go by their place, which is for tables without names. An owner tells nobody
its names; a column that it lacks has to be in its file, empty.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hopfed.errors import DataError, OtherColumnsError
from hopfed.federation.messages import Field, Message, malformed
from hopfed.tables.table import LONGEST, listed

MOST = 2**24  # columns that a server may name
WIDEST = 4 * LONGEST  # bytes of a name
NAMES = {
    "lengths": Field((None,), "u", least=1, most=WIDEST),
    "letters": Field((None,), "u", most=255),
}


def told_names(names: Sequence[str]) -> Message:
    """Names as a message."""
    words = [name.encode("utf-8", "surrogatepass") for name in names]
    lengths = np.array([len(word) for word in words], np.uint16)
    return {"lengths": lengths, "letters": np.frombuffer(b"".join(words), np.uint8)}


def read_names(told: Message, most: int = MOST) -> tuple[str, ...]:
    """Undo `told_names`, whatever was sent."""
    wrong = malformed(told, NAMES)
    lengths = told["lengths"].astype(np.int64) if wrong is None else np.zeros(0, np.int64)
    if wrong is None and len(lengths) > most:
        wrong = f"{len(lengths):,} names of columns, of {most:,} at most"
    if wrong is None and lengths.sum() != len(told["letters"]):
        wrong = "names of columns of other lengths"
    if wrong is not None:
        raise DataError(f"a malformed message from the server: {wrong}")
    letters, ends = told["letters"].astype(np.uint8).tobytes(), lengths.cumsum()
    words = [letters[a:b] for a, b in zip(ends - lengths, ends, strict=True)]
    try:
        names = tuple(word.decode("utf-8", "surrogatepass") for word in words)
    except UnicodeDecodeError:
        raise DataError("a malformed message from the server: names that are no text") from None
    if any("\0" in name for name in names):  # a run file keeps what is before it
        raise DataError("a malformed message from the server: a name with a character of no text")
    if len(set(names)) != len(names):
        raise DataError("a malformed message from the server: a column that is named twice")
    return names


def places_of(own: Sequence[str], width: int, told: Message) -> np.ndarray | None:
    """Where the columns of a federation are among one's own; None where both are in one order."""
    if not told:
        if own:
            raise OtherColumnsError(
                "my columns have names, and the server knows only their number: ask whoever serves "
                "for serve --columns FILE"
            )
        return None
    names = read_names(told, 2 * width)
    if not own:
        if len(names) != width:
            raise OtherColumnsError(
                f"the federation has {len(names):,} columns, my table {width:,} without names"
            )
        return None
    place = {name: j for j, name in enumerate(own)}
    lacks, due = [name for name in names if name not in place], set(names)
    more = [name for name in own if name not in due]
    if lacks or more:
        parts = [f"lacks {listed(lacks)} of the federation"] if lacks else []
        beside = "beside" if lacks else "beside those of the federation"
        parts += [f"has {listed(more)} {beside}"] if more else []
        raise OtherColumnsError(f"my table {', and '.join(parts)}")
    return np.array([place[name] for name in names])
