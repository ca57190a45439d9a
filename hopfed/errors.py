"""Exceptions raised by hopfed, under one base class; commands print their message unchanged."""

from __future__ import annotations

__all__ = [
    "ArgumentError", "BackendError", "ColumnsError", "DataError", "HopfedError", "RunFileError",
]  # fmt: skip

LONGEST = 300  # most characters of foreign text that are shown


def safe_line(words: object, most: int = LONGEST) -> str:
    """Return foreign text as one line for an error, cut, without control characters.

    >>> print(safe_line("gone\\x1b[2J\\nall well"), safe_line("x" * 12, most=10))
    gone\\x1b[2J\\nall well xxxxxxx...
    """
    text = str(words)[: most + 1]  # a longer text is not processed further
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return line if len(line) <= most else line[: max(most - 3, 0)] + "..."


class HopfedError(Exception):
    """Base of all errors raised by hopfed.

    >>> import hopfed
    >>> import numpy as np
    >>> try:
    ...     hopfed.recover(np.array([[1, -1], [1, 2], [1, 1]]), seed=0)
    ... except hopfed.HopfedError as error:
    ...     print(error)
    examples: values must be all +-1, all 0/1, or boolean, got 2 at row 2, column 2;
    commonest -1 (1x), 2 (1x), 1 (1x);
    give binarize={'column 2': 'median'}; or ignore=['column 2']
    """


class ArgumentError(HopfedError, ValueError):
    """An argument does not satisfy its rule.

    Parameters
    ----------
    argument : name of the argument.
    rule : the condition, such as "a number in (0, 1]".
    got : the value that was passed.

    >>> str(ArgumentError("quality", "a number in (0, 1]", 1.5))
    'quality must be a number in (0, 1], got 1.5'
    """

    def __init__(self, argument: str, rule: str, got: object):
        super().__init__(argument, rule, got)
        self.argument, self.rule, self.got = argument, rule, got

    def __str__(self) -> str:
        return f"{self.argument} must be {self.rule}, got {safe_line(self.got)}"


class DataError(HopfedError, ValueError):
    """Input data cannot be used: unreadable, empty, of unequal width, or not binary.

    >>> issubclass(DataError, HopfedError), issubclass(DataError, ValueError)
    (True, True)
    """


class LocalError(DataError):
    """A fault of this machine; the message describes it and is for the machine's owner alone."""

    public = "this client cannot answer; its owner has the reason"  # message for others


class OtherColumnsError(LocalError):
    """The columns of a table differ from those of a federation; the message may name them."""

    public = "its columns are not those of the federation; its owner was told which"


class RunFileError(HopfedError):
    """A run file is truncated, foreign, or written by a newer version.

    >>> issubclass(RunFileError, HopfedError)
    True
    """


class BackendError(HopfedError, RuntimeError):
    """A requested device or optional package is not available.

    >>> issubclass(BackendError, HopfedError), issubclass(BackendError, RuntimeError)
    (True, True)
    """


class ColumnsError(DataError):
    """Columns of a table cannot be read; the message has a line for each, and options to give.

    Parameters
    ----------
    message : text of several lines.
    columns : names of the columns.

    >>> ColumnsError("a.csv: ...", ("tea",)).columns
    ('tea',)
    """

    def __init__(self, message: str, columns: tuple[str, ...] = ()):
        super().__init__(message)
        self.columns = columns
