"""Names of columns: which column of an owner is which of the federation.

A server that knows the names tells them with every question, the shorter name first; where it knows
only their number, columns go by their place. An owner tells nobody its names.
"""

from __future__ import annotations

from collections.abc import Sequence

from hopfed.errors import DataError, OtherColumnsError
from hopfed.federation.messages import MALFORMED
from hopfed.tables.table import LONGEST, listed

MOST = 2**24  # columns that a server may name


def read_names(given: Sequence[object], most: int = MOST) -> tuple[str, ...]:
    """Names that a server tells, whatever it sent."""
    names = tuple(n for n in given if isinstance(n, str) and 0 < len(n) <= LONGEST)
    whole = not any("\0" in name for name in names)  # a run file keeps what is before it
    if not len(set(names)) == len(given) <= most or not whole:
        raise DataError(f"{MALFORMED}: names that are too many, there twice, or no such text")
    return names


def in_order(names: Sequence[str]) -> list[int]:
    """Where the columns of a federation are among these: those of one length by the alphabet."""
    return sorted(range(len(names)), key=lambda j: (len(names[j]), names[j]))


def check_columns(own: Sequence[str], width: int, given: Sequence[object]) -> None:
    """Fail unless columns, `own` names in order or a `width` without names, are those `given`."""
    if bool(given) != bool(own):
        raise OtherColumnsError(
            "my columns have names, and the server knows only their number: ask whoever serves "
            "for serve --columns FILE"
            if own
            else f"the federation names its columns, and my {width:,} have no names"
        )
    names = read_names(given, 2 * width)
    lacks, more = ([n for n in a if n not in set(b)] for a, b in ((names, own), (own, names)))
    if lacks or more:
        parts = [f"lacks {listed(lacks)} of the federation"] if lacks else []
        beside = "beside" if lacks else "beside those of the federation"
        parts += [f"has {listed(more)} {beside}"] if more else []
        raise OtherColumnsError(f"my table {', and '.join(parts)}")
    if tuple(names) != tuple(own):
        raise DataError(f"{MALFORMED}: columns not in the order of names")
