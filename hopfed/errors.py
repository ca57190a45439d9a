"""Every exception hopfed raises on purpose, under one base.

A message names what was wrong, the rule it broke, and what was got, in one line: the command line
prints it as it stands and exits with status 2.
"""

from __future__ import annotations

LONGEST = 300  # characters of somebody else's words that are shown


def shown(words: object, most: int = LONGEST) -> str:
    """Return `words` of somebody else as one harmless line, cut to `most` characters.

    What steers a terminal, such as an escape sequence, a new line or a change of the direction of
    writing, is spelled out and not obeyed.

    Examples
    --------
    >>> print(shown("gone\\x1b[2J\\nall well"))
    gone\\x1b[2J\\nall well
    >>> shown("x" * 12, most=10)
    'xxxxxxx...'
    """
    text = str(words)[: most + 1]  # the rest of a text of any length is not even looked at
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return line if len(line) <= most else line[: max(most - 3, 0)] + "..."


class HopfedError(Exception):
    """Base of all errors raised by hopfed.

    Examples
    --------
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
    """An argument breaks its rule.

    Parameters
    ----------
    argument : name of the argument.
    rule : what it must be, as in "a number in (0, 1]".
    got : the value that was passed.

    Examples
    --------
    >>> str(ArgumentError("quality", "a number in (0, 1]", 1.5))
    'quality must be a number in (0, 1], got 1.5'
    """

    def __init__(self, argument: str, rule: str, got: object):
        super().__init__(f"{argument} must be {rule}, got {shown(got)}")
        self.argument = argument
        self.rule = rule
        self.got = got

    def __reduce__(self) -> tuple[type, tuple[str, str, object]]:
        return type(self), (self.argument, self.rule, self.got)


class DataError(HopfedError, ValueError):
    """Input data cannot be used as they are: unreadable, empty, of unequal width, not binary.

    Examples
    --------
    >>> from hopfed import read_table
    >>> read_table("survey.xlsx")
    Traceback (most recent call last):
        ...
    hopfed.errors.DataError: survey.xlsx: no such file
    """


class LocalError(DataError):
    """Something on this machine is in the way; the words name it, and are for its owner alone.

    Examples
    --------
    >>> issubclass(LocalError, DataError)
    True
    """

    public = "this client cannot answer, and has told its owner why"  # to anybody else


class OtherColumnsError(LocalError):
    """The columns of a table are not those of a federation; the words may name them.

    Examples
    --------
    >>> OtherColumnsError("lacks 'tea'").public
    'its columns are not those of the federation; its owner was told which'
    """

    public = "its columns are not those of the federation; its owner was told which"


class RunFileError(HopfedError):
    """A run file is truncated, foreign, or written by a newer version.

    Examples
    --------
    >>> from hopfed.runs import Run
    >>> Run.load("lost.h5")
    Traceback (most recent call last):
        ...
    hopfed.errors.RunFileError: lost.h5: no such run file
    """


class BackendError(HopfedError, RuntimeError):
    """An optional package or a device that was asked for is not there.

    Examples
    --------
    >>> issubclass(BackendError, HopfedError), issubclass(BackendError, RuntimeError)
    (True, True)
    """


class ColumnsError(DataError):
    """Columns of a table that cannot be read as they are: a line for each, and what to say of them.

    Parameters
    ----------
    message : of several lines.
    columns : their names.

    Examples
    --------
    >>> ColumnsError("a.csv: ...", ("tea",)).columns
    ('tea',)
    """

    def __init__(self, message: str, columns: tuple[str, ...] = ()):
        super().__init__(message)
        self.columns = columns

    def __reduce__(self) -> tuple[type, tuple[str, tuple[str, ...]]]:
        return type(self), (str(self), self.columns)
