"""Names of columns across machines: which column of an owner is which of the federation.

What a server says of its columns travels beside every question, as a message of one of these kinds:

- nothing: columns are matched by their place, as those without names are;
- *names*: their names in order, where whoever serves told them (`hopfed serve --columns FILE`); in
  a federation of classes with exact sums an owner may lack a third of them;
- *sorted*: a digest of their names, sorted; every owner sorts its columns by name.

An owner answers only where its own names are these, and tells nobody its names. Where no names were
told, the server first asks each client for that digest, of 32 bytes, and takes what most of all
clients have (`settled`). A digest hides no name from somebody who guesses it; the name of the
federation is in it, so that those of two federations cannot be compared.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hopfed.errors import DataError, OtherColumnsError
from hopfed.federation.contract import Context, Metrics, State
from hopfed.federation.messages import Field, Message, Spec, malformed
from hopfed.tables.source import LONGEST
from hopfed.tables.table import listed

MOST = 2**24  # columns that a server may name
WIDEST = 4 * LONGEST  # bytes of a name
DIGEST = 32  # bytes
ABSENT = 3  # one column of so many may be absent, where rows may have gaps
BY_NAME = "by_name"  # the number that says of an answer that its columns were found by name

KINDS: dict[str, Spec] = {
    "names": {
        "lengths": Field((None,), "u", least=1, most=WIDEST),
        "letters": Field((None,), "u", most=255),
    },
    "sorted": {"sorted": Field((DIGEST,), "u", most=255)},
}


@dataclass(frozen=True)
class Headers:
    """The question for digests of the names of columns, as a method of its own."""

    exchanges = 1


@dataclass(frozen=True)
class Introduced:
    """A client that answers `Headers`: a digest, or an empty array where there are no names.

    Attributes
    ----------
    names : of its columns; none where they have none.
    run : name of the federation.
    """

    names: tuple[str, ...]
    run: str

    def client_start(self, client: int, seed: int) -> State:  # noqa: ARG002
        """State of a client, which remembers nothing."""
        return {}

    def client_step(
        self,
        state: State,
        down: Message,  # noqa: ARG002
        context: Context,  # noqa: ARG002
    ) -> tuple[State, Message, Metrics]:
        """Tell the digest."""
        nothing = np.zeros(0, np.uint8)
        told = digest_of(sorted(self.names), self.run) if self.names else nothing
        return state, {"sorted": told}, {}


def digest_of(names: Sequence[str], run: str) -> np.ndarray:
    """SHA-256 of names in their order, (32,) uint8."""
    found = hashlib.sha256()
    for word in (run, *names):
        letters = word.encode("utf-8", "surrogatepass")
        found.update(len(letters).to_bytes(8, "little") + letters)
    return np.frombuffer(found.digest(), np.uint8)


def told_names(names: Sequence[str]) -> Message:
    """Names as a message."""
    words = [name.encode("utf-8", "surrogatepass") for name in names]
    lengths = np.array([len(word) for word in words], np.uint16)
    return {"lengths": lengths, "letters": np.frombuffer(b"".join(words), np.uint8)}


def read_names(told: Message, most: int = MOST) -> tuple[str, ...]:
    """Undo `told_names`, whatever was sent."""
    wrong = malformed(told, KINDS["names"])
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


def kind_of(told: Message) -> str:
    """Say which of KINDS a message is; "" of an empty one."""
    if not told:
        return ""
    for kind, spec in KINDS.items():
        if set(spec) == set(told):
            wrong = malformed(told, spec)
            if wrong is None:
                return kind
            raise DataError(f"a malformed message from the server: {wrong}")
    raise DataError(
        "a malformed message from the server: columns that it neither names nor digests"
    )


def places_of(
    own: Sequence[str], width: int, told: Message, run: str, gaps: bool = False
) -> np.ndarray | None:
    """Where the columns of a federation are among one's own; None where both are in one order."""
    kind = kind_of(told)
    if kind == "names":
        return _by_names(own, width, read_names(told, 2 * width), gaps)
    if kind == "sorted":
        if not own:
            raise OtherColumnsError(
                "the federation goes by names of columns, and my table has none: name them, or ask "
                "whoever serves for serve --columns FILE"
            )
        if not np.array_equal(told["sorted"], digest_of(sorted(own), run)):
            raise OtherColumnsError(
                "my columns are others than those of most owners; serve --columns FILE tells which"
            )
        return np.array(sorted(range(width), key=lambda j: own[j]))
    return None


def _by_names(
    own: Sequence[str], width: int, names: Sequence[str], gaps: bool
) -> np.ndarray | None:
    """Find the columns of a federation that told their names."""
    if not own:
        if len(names) != width:
            raise OtherColumnsError(
                f"the federation has {len(names):,} columns, my table {width:,} without names"
            )
        return None
    place = {name: j for j, name in enumerate(own)}
    lacks = [name for name in names if name not in place]
    due = set(names)
    more = [name for name in own if name not in due]
    few = len(lacks) > len(names) // ABSENT
    if more or few or (lacks and not gaps):
        parts = [f"lacks {listed(lacks)} of the federation"] if lacks else []
        beside = "beside" if lacks else "beside those of the federation"
        parts += [f"has {listed(more)} {beside}"] if more else []
        rule = "; two thirds of them are needed" if gaps and few else ""
        raise OtherColumnsError(f"my table {', and '.join(parts)}{rule}")
    return np.array([place.get(name, -1) for name in names])


def heard_of(message: Message) -> bytes | None:
    """Digest that a client answered to `Headers`, empty without names; None of no answer."""
    if malformed(message, {"sorted": Field((None,), "u", most=255)}) is not None:
        return None
    digest = message["sorted"].astype(np.uint8).tobytes()
    return digest if len(digest) in (0, DIGEST) else None


@dataclass(frozen=True)
class Settled:
    """How columns are matched, as most clients would have it.

    Attributes
    ----------
    digest : of the sorted names; empty for by place alone.
    kept : clients that fit.
    """

    digest: bytes
    kept: tuple[int, ...]


def settled(
    heard: Mapping[int, bytes], fewest: int = 0, suspects: int = 0, last: bool = True
) -> Settled | None:
    """Match columns so that as many clients as can be fit; None where too few do.

    Names in sorted order fit all whose names are the same, in whatever order. Columns go by place
    where nobody has names, or where more than may lie, and than agree on names, have none.
    """
    named = {c: digest for c, digest in heard.items() if digest}
    unnamed = len(heard) - len(named)
    fewest = fewest or len(heard) // 2 + 1
    by_place = Settled(b"", tuple(sorted(heard)))
    if not named:
        return by_place if last or unnamed >= fewest else None
    digest = Counter(named.values()).most_common(1)[0][0]
    alike = tuple(sorted(c for c in named if named[c] == digest))
    if unnamed - suspects > len(alike):
        return by_place if unnamed - (0 if last else suspects) >= fewest else None
    if len(alike) >= fewest and 2 * len(alike) > len(named):
        return Settled(digest, alike)
    return by_place if last and unnamed > len(alike) and unnamed >= fewest else None
