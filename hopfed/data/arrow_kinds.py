"""Types of Arrow: which columns can be used, as what they are read, and as what they are written.

A column of dates, times, lists or records is no column of entries, but may name the rows, and stays
as it is where a table is written again.
"""

from __future__ import annotations

import json
from typing import Any

SECONDS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # parts of one, by the unit of a duration


def unfit(kind: Any) -> str:
    """Return why columns of a type cannot be used; an empty text where they can.

    Parameters
    ----------
    kind : of Arrow.

    Examples
    --------
    >>> import pyarrow as pa
    >>> unfit(pa.date32()), unfit(pa.int8())
    ('holds dates or times', '')
    """
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return unfit(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):  # its values are stored as those of another type
        return unfit(kind.storage_type)
    if types.is_temporal(kind):
        return "holds dates or times"
    if types.is_nested(kind):
        return "holds lists or records"
    return ""


def usual(array: Any) -> Any:
    """Return an array as numbers, truth values or text, and nulls for lists and records.

    Parameters
    ----------
    array : of Arrow.

    Examples
    --------
    >>> import pyarrow as pa
    >>> usual(pa.array([0], pa.date32())).to_pylist(), usual(pa.array([[1]])).to_pylist()
    (['1970-01-01'], [None])
    """
    import pyarrow as pa
    import pyarrow.types as types

    kind = array.type
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(array.indices, usual(array.dictionary))
    if isinstance(kind, pa.BaseExtensionType):
        return usual(array.storage)
    if types.is_nested(kind):
        return pa.nulls(len(array), pa.string())
    if types.is_temporal(kind):
        return as_text(array)
    if types.is_decimal(kind):
        return array.cast(pa.float64())
    plain = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
    return array if plain or types.is_string(kind) else array.cast(pa.string())


def kept(array: Any) -> Any:
    """Return an array in the type that it has in a table that is written again.

    Dates, times, lists, records and decimal numbers stay what they are; others are as `usual`.

    Parameters
    ----------
    array : of Arrow.

    Examples
    --------
    >>> import pyarrow as pa
    >>> kept(pa.array([0], pa.date32())).type, kept(pa.array(["a"], pa.large_string())).type
    (DataType(date32[day]), DataType(string))
    """
    import pyarrow as pa
    import pyarrow.types as types

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array.type, pa.BaseExtensionType):
        return kept(array.storage)
    if types.is_dictionary(array.type) and unfit(array.type):
        return kept(array.dictionary_decode())
    stays = bool(unfit(array.type)) or types.is_decimal(array.type)
    return array if stays and not types.is_interval(array.type) else usual(array)


def as_text(array: Any) -> Any:
    """Return an array as one of texts: dates and times as ISO 8601 has them, with a space for T.

    Durations are so, too: PT1H30M. Lists and records are as in JSON.

    Parameters
    ----------
    array : of Arrow.

    Examples
    --------
    >>> import pyarrow as pa
    >>> as_text(pa.array([86_400_500, None], pa.timestamp("ms"))).to_pylist()
    ['1970-01-02 00:00:00.5', None]
    >>> as_text(pa.array([5_400], pa.duration("s"))).to_pylist()
    ['PT1H30M']
    >>> as_text(pa.array([[1, None]])).to_pylist()
    ['[1, null]']
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    kind = array.type
    if types.is_duration(kind):
        counts = array.cast(pa.int64()).to_pylist()
        texts = [None if n is None else _duration(n, SECONDS[kind.unit]) for n in counts]
        return pa.array(texts, pa.string())
    if types.is_interval(kind) or types.is_nested(kind):
        texts = [None if v is None else _json(v) for v in array.to_pylist()]
        return pa.array(texts, pa.string())
    if not types.is_temporal(kind):
        return array.cast(pa.string())
    try:
        texts = array.cast(pa.string())
    except pa.ArrowException:  # a zone that this machine does not know
        texts = pc.binary_join_element_wise(
            array.cast(pa.timestamp(kind.unit)).cast(pa.string()), "Z", ""
        )
    texts = pc.replace_substring_regex(texts, r"\.0+([^0-9]|$)", r"\1")
    texts = pc.replace_substring_regex(texts, r"(\.[0-9]*[1-9])0+([^0-9]|$)", r"\1\2")
    return pc.replace_substring_regex(texts, r"([+-][0-9]{2})([0-9]{2})$", r"\1:\2")


def _duration(count: int, parts: int) -> str:
    """A duration of so many parts of a second as ISO 8601 has it."""
    whole, rest = divmod(abs(count), parts)
    minutes, seconds = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    after = f".{rest:0{len(str(parts)) - 1}d}".rstrip("0") if rest else ""
    said = [(hours, "H"), (minutes, "M"), (f"{seconds}{after}" if seconds or rest else 0, "S")]
    text = "".join(f"{value}{unit}" for value, unit in said if value) or "0S"
    return f"{'-' if count < 0 else ''}PT{text}"


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
