"""Names of columns across machines: which column of an owner is which of the federation.

What a server says of its columns travels beside every question, as a message of one of these kinds:

- nothing: columns are matched by their place, as those without names are;
- *names*: their names in order, where whoever serves told them (`hopfed serve --columns FILE`); in
  a federation of classes, whose rows may have gaps, an owner may lack a third of them;
- *sorted*: a digest of their names, sorted; every owner sorts its columns by name;
- *ordered*: a digest of their names in order, which stays that of the files.

An owner answers only where its own names are these, and tells nobody its names. Where no names were
told, the server first asks each client for both digests, of 32 bytes each, and takes what most of
all clients have (`settled`). A digest hides no name from somebody who guesses it; the name of the
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
    "ordered": {"ordered": Field((DIGEST,), "u", most=255)},
}


@dataclass(frozen=True)
class Headers:
    """The question for digests of the names of columns, as a method of its own."""

    exchanges = 1


@dataclass(frozen=True)
class Introduced:
    """A client that answers `Headers`: two digests, or two empty arrays where there are no names.

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
        """Tell the digests."""
        nothing = np.zeros(0, np.uint8)
        if not self.names:
            return state, {"ordered": nothing, "sorted": nothing}, {}
        orders = {"ordered": self.names, "sorted": sorted(self.names)}
        return state, {kind: digest_of(names, self.run) for kind, names in orders.items()}, {}


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
    if kind == "ordered" and own and not np.array_equal(told["ordered"], digest_of(own, run)):
        raise OtherColumnsError(
            "my columns are others than those of most owners, or in another order, which counts "
            "where some owners have no names: serve --columns FILE tells names"
        )
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


def heard_of(message: Message) -> Message | None:
    """What a client answered to `Headers`; None where that is no answer."""
    either = {name: Field(("letters",), "u", most=255) for name in ("ordered", "sorted")}
    if malformed(message, either) is not None or len(message["sorted"]) not in (0, DIGEST):
        return None
    return {name: message[name].astype(np.uint8) for name in either}


@dataclass(frozen=True)
class Settled:
    """How columns are matched, as most clients would have it.

    Attributes
    ----------
    kind : "sorted", "ordered" or "" for by place alone.
    digest : of the names; empty for "".
    kept : clients that fit.
    """

    kind: str
    digest: bytes
    kept: tuple[int, ...]


def settled(
    heard: Mapping[int, Message], fewest: int = 0, suspects: int = 0, last: bool = True
) -> Settled | None:
    """Match columns so that as many clients as can be fit; None where too few do.

    Names in sorted order fit all whose names are the same, in whatever order, also those who come
    later. The order of files fits those who have the same names in that order, and all who have
    none: it is taken only where these are more than may lie, since it keeps other orders out.
    """
    told = {c: (bytes(m["sorted"]), bytes(m["ordered"])) for c, m in heard.items()}
    named = {c: pair for c, pair in told.items() if pair[0]}
    unnamed = [c for c in told if c not in named]
    fewest = fewest or len(heard) // 2 + 1
    if not named:
        return Settled("", b"", tuple(unnamed)) if last or len(unnamed) >= fewest else None
    digest = Counter(pair[0] for pair in named.values()).most_common(1)[0][0]
    alike = [c for c, pair in named.items() if pair[0] == digest]
    # The order counts with the names: who tells that of some and the names of others stands alone.
    pair = Counter(named.values()).most_common(1)[0][0]
    placed = [*unnamed, *(c for c in named if named[c] == pair)]
    by_name = Settled("sorted", digest, tuple(sorted(alike)))
    by_place = Settled("ordered", pair[1], tuple(sorted(placed)))
    if len(placed) - suspects > len(alike):
        return by_place if len(placed) - (0 if last else suspects) >= fewest else None
    if len(alike) >= fewest and 2 * len(alike) > len(named):
        return by_name
    more = len(placed) > len(alike)
    return by_place if last and more and len(placed) >= fewest else None
