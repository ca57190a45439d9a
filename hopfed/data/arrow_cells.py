"""Cells of a table as Arrow has them: their words, and the numbers among these."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
NO_NUMBER = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)  # numbers that are none
NONE: frozenset[str] = frozenset()


def number(word: str) -> float | None:
    """Return the number that a word is, None if it is none; NaN is none.

    Parameters
    ----------
    word : of a cell.

    Examples
    --------
    >>> number("1.0"), number("-1e3"), number("1_0"), number("nan")
    (1.0, -1000.0, None, None)
    """
    word = word.strip()
    if NUMBER.fullmatch(word) or (NO_NUMBER.fullmatch(word) and word[-3:].lower() != "nan"):
        return float(word)
    return None


def measured(word: str) -> float | None:
    """Return the number that a word is, or that it says to lie below or above: `<= 2.5`, `> 2.5`.

    So hopfed fills a gap of a column of numbers that it cuts at 2.5. Above is the next number.

    Parameters
    ----------
    word : of a cell.

    Examples
    --------
    >>> measured("<= 2.5"), measured("> 2.5") > 2.5, measured("2.5"), measured("> many")
    (2.5, True, 2.5, None)
    """
    word = word.strip()
    for sign in ("<=", ">"):
        if word.startswith(sign):
            cut = number(word.removeprefix(sign))
            return cut if cut is None or sign == "<=" else float(np.nextafter(cut, np.inf))
    return number(word)


def distinct(array: Any) -> tuple[list[str], np.ndarray]:
    """Return the different words of an array of Arrow, and for each row which it is, -1 for null.

    Parameters
    ----------
    array : of Arrow, of any type that its values can be told from their text.

    Examples
    --------
    >>> import pyarrow as pa
    >>> words, places = distinct(pa.array([1.0, None, 0.5, 1.0]))
    >>> words, places.tolist()
    (['1.0', '0.5'], [0, -1, 1, 0])
    """
    import pyarrow as pa

    short = _single(array)
    if short is not None:
        return short
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    words = [str(word) for word in coded.dictionary.to_pylist()]
    places = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    if len(set(words)) < len(words):  # as of a dictionary that came with the array
        first: dict[str, int] = {}
        for k, word in enumerate(words):
            first.setdefault(word, k)
        places = np.array([first[word] for word in words] + [-1])[places]
    return words, places


def _single(array: Any) -> tuple[list[str], np.ndarray] | None:
    """Do what `distinct` does for text of one letter or none in every cell, as most tables hold."""
    import pyarrow as pa

    if not pa.types.is_string(array.type) or array.null_count or not len(array):
        return None
    _, ends, text = array.buffers()
    at = np.frombuffer(ends, np.int32)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(at)
    if lengths.max() > 1 or text is None:
        return None
    letters = np.frombuffer(text, np.uint8)[at[0] : at[-1]]
    counts = np.bincount(letters, minlength=256)
    found = np.flatnonzero(counts)
    if found.size and found[-1] > 127:
        return None
    place = np.zeros(256, np.int64)
    place[found] = np.arange(len(found))
    words = [chr(letter) for letter in found]
    if len(letters) == len(array):
        return words, place[letters]
    places = np.full(len(array), len(found))
    places[lengths > 0] = place[letters]
    return [*words, ""], places


@dataclass
class Cells:
    """Some cells of a column, whose different words are found once and kept.

    Attributes
    ----------
    array : of Arrow.

    Examples
    --------
    >>> import pyarrow as pa
    >>> Cells(pa.array(["x", "", "x"])).words
    ['x', '']
    """

    array: Any

    def __len__(self) -> int:
        return len(self.array)

    @property
    def words(self) -> list[str]:
        """The different words."""
        return self._distinct[0]

    @property
    def places(self) -> np.ndarray:
        """For each cell which of the words it is; -1 for null."""
        return self._distinct[1]

    @cached_property
    def _distinct(self) -> tuple[list[str], np.ndarray]:
        return distinct(self.array)


def as_numbers(
    array: Any, missing: frozenset[str] = NONE, sides: bool = False
) -> np.ndarray | None:
    """Return the numbers of an array of Arrow, NaN where one is missing; None if one is a word.

    Parameters
    ----------
    array : of numbers or of text.
    missing : words, in lower case, that stand for none, beside nan; a number however it is written.
    sides : whether a word may say which side of a number it is on, as of `measured`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> as_numbers(pa.array([" 1", "?", "2.5"]), frozenset("?")).tolist()
    [1.0, nan, 2.5]
    >>> as_numbers(pa.array([30.0, -99.0]), frozenset(["-99"])).tolist()
    [30.0, nan]
    >>> as_numbers(pa.array(["1", "?"])) is None
    True
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):  # of each word once, however long it is
        at = array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        used, places = np.unique(at, return_inverse=True)
        values = as_numbers(array.dictionary.take(pa.array(used, mask=used < 0)), missing, sides)
        return None if values is None else values[places]
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        array = pc.utf8_trim_whitespace(array)
        gone = pc.is_in(pc.utf8_lower(array), value_set=pa.array(sorted(missing), array.type))
        array = pc.if_else(gone, None, array)
    try:
        numbers = array.cast(pa.float64(), safe=False)
    except pa.ArrowInvalid:
        words, places = distinct(array)  # slowly: Arrow reads no "+1"
        read = measured if sides else number
        found = [np.nan if word.lower() == "nan" else read(word) for word in words]
        if any(value is None for value in found):
            return None
        values = np.array([*found, np.nan], float)[places]
    else:
        values = numbers.fill_null(np.nan).to_numpy(zero_copy_only=False)
    gone = [value for word in missing if (value := number(word)) is not None]
    return np.where(np.isin(values, gone), np.nan, values) if gone else values
