"""What the columns of a table hold: their words, how often, and whether they are numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hopfed.tables.vocabulary import MISSING, canonical, number

MOST = 1000  # different words of a column that are kept


@dataclass
class Contents:
    """What a column holds, as far as it was looked at.

    Attributes
    ----------
    words : its different words as they stand, and how often each occurs; a missing entry is "".
    many : there are more than `MOST` of them, and `words` are the first.
    numeric : so far all words are numbers or missing.
    different : whether no two of the first rows were alike, or missing.
    rows : that were looked at.
    kept : the numbers themselves, once there are many and if they are asked for.
    missing : words that stand for no entry.
    """

    words: Counter[str] = field(default_factory=Counter)
    many: bool = False
    numeric: bool = True
    different: bool = True
    rows: int = 0
    kept: list[np.ndarray] | None = None
    missing: frozenset[str] = MISSING

    def add(self, array: Any) -> None:
        """Look at some more rows: an array of Arrow."""
        if self.many:
            self._add_numbers(array)
            self.rows += len(array)
            return
        words, places = distinct(array)
        counts = np.bincount(places[places >= 0], minlength=len(words))
        if self.rows == 0:
            self.different = len(words) == len(array)
        elif self.different:
            self.different = len(words) == len(array) and not any(w in self.words for w in words)
        for word, count in zip(words, counts.tolist(), strict=True):
            self.words[word] += count
        gone = len(array) - int(counts.sum())
        if gone:
            self.words[""] += gone
        self.rows += len(array)
        if self.numeric and any(
            number(w) is None and canonical(w) not in self.missing for w in words
        ):
            self.numeric = False
        if len(self.words) > MOST:
            self.many = True
            if self.numeric and self.kept is not None:
                self._fill()

    def _fill(self) -> None:
        values = [(number(w), n) for w, n in self.words.items()]
        both = [(v, n) for v, n in values if v is not None]
        assert self.kept is not None
        self.kept.append(np.repeat([v for v, _ in both], [n for _, n in both]))

    def _add_numbers(self, array: Any) -> None:
        if not self.numeric:
            return
        values = as_numbers(array, self.missing)
        if values is None:
            self.numeric = False
        elif self.kept is not None:
            self.kept.append(values[~np.isnan(values)])

    @classmethod
    def together(cls, parts: Sequence[Contents]) -> Contents:
        """Return what one column holds in several tables.

        Parameters
        ----------
        parts : one for each table.
        """
        words: Counter[str] = Counter()
        for part in parts:
            words.update(part.words)
        kept = [array for part in parts for array in part.all_kept()]
        many = len(words) > MOST or any(part.many for part in parts)
        return cls(
            words,
            many,
            all(part.numeric for part in parts),
            all(part.different for part in parts),
            sum(part.rows for part in parts),
            kept if many and parts[0].kept is not None else None,
            parts[0].missing,
        )

    def all_kept(self) -> list[np.ndarray]:
        """Numbers that it holds, if they are asked for."""
        if self.kept is None or not self.numeric:
            return []
        return self.kept if self.many else [np.repeat(*self.values())]

    def values(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers that it holds, ascending, and how often each occurs."""
        if self.many and self.kept is not None:
            return np.unique(np.concatenate(self.kept), return_counts=True)
        found: Counter[float] = Counter()
        for word, count in self.words.items():
            value = number(word)
            if value is not None:
                found[value] += count
        values = np.array(sorted(found), float)
        return values, np.array([found[v] for v in values], int)


def distinct(array: Any) -> tuple[list[str], np.ndarray]:
    """Return the different words of an array of Arrow, and for each row which it is, -1 for null.

    Examples
    --------
    >>> import pyarrow as pa
    >>> words, places = distinct(pa.array([1.0, None, 0.5, 1.0]))
    >>> words, places.tolist()
    (['1.0', '0.5'], [0, -1, 1, 0])
    """
    import pyarrow as pa

    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    words = [str(word) for word in coded.dictionary.to_pylist()]
    places = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    if len(set(words)) < len(words):  # as of a dictionary that came with the array
        first = {word: words.index(word) for word in words}
        places = np.array([first[word] for word in words] + [-1])[places]
    return words, places


def as_numbers(array: Any, missing: frozenset[str] = MISSING) -> np.ndarray | None:
    """Return the numbers of an array of Arrow, NaN where one is missing; None if one is a word.

    Examples
    --------
    >>> import pyarrow as pa
    >>> as_numbers(pa.array([" 1", "?", "2.5"])).tolist(), as_numbers(pa.array(["x"])) is None
    ([1.0, nan, 2.5], True)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        array = pc.utf8_trim_whitespace(array)
        gone = pc.is_in(pc.utf8_lower(array), value_set=pa.array(sorted(missing), array.type))
        array = pc.if_else(gone, None, array)
    try:
        numbers = array.cast(pa.float64(), safe=False)
    except pa.ArrowInvalid:
        words, places = distinct(array)  # slowly: Arrow reads no "+1"
        found = [number(word) for word in words]
        if any(value is None for value in found):
            return None
        return np.array([*found, np.nan], float)[places]
    return numbers.fill_null(np.nan).to_numpy(zero_copy_only=False)
