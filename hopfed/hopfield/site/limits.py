"""What the owner of a file lets any server ask, whatever the federation.

The server is not trusted. Rows are dealt out to batches, and no answer is computed from fewer rows
than a batch must have. How few is too few?

- Sums over one row are the row, sums over two give both away. Groups are of 50 rows, or more.
- An operator of M rows over N columns has rank M, and as long as M is below N its rows are the only
  +-1 vectors in its range that are easy to come by. Three ways to them were tried. Independent
  component analysis (N = 784, one core) rebuilt 50 of 50 rows in .1 s, 70 of 70 in .4 s, 83 of 84
  in 90 s, and none of 120 or 140 in 120 s. Linear programs go further where rows are near to their
  archetypes, which the server finds anyway: the vector in the range, of entries from -1 to 1, that
  is nearest to an archetype and differs from it in a given column, is often a row. At r = .8 that
  gave 28 of 140 rows in 25 s and 2 of 200 in 16 s, at r = .9 6 of 280; at N = 200 and r = .8, 3 of
  100 and 1 of 120 in 3 s, and none of 150 or 190; at r = .6 none of any.
- From as many rows as columns on the range is the whole space, and yet the rows x are short by
  ``x^T S^-1 x``, S the operator. Reduction of a lattice finds such vectors, and the fewer columns
  the better. With blocks of 30 at most, on one core, for M = N: 28 of 60 rows at r = .8 in .1 s; of
  100 rows 11 at r = .8 and 81 at r = .9 in 1 s; of 200 none and 14, of 300 none and 1, of 400 none
  of either. At N = 50 enumeration goes further: at r = .6 50 of 50 rows in 1 s, at r = .8 29 of 100
  among 5,266 guesses. So a batch has 400 rows at least.
- Who knows a part of a row finds the rest of it (`hopfed.hopfield.leaks.known_rows`): at N = 784
  and r = .6 or .8, of rows of which nine tenths are known 10 of 10 are completed from an operator
  of 862 rows, of which seven tenths are known 10 of 10; from 1,176 rows 1 and 2 of 10; from 1,568
  rows none, and 89 or 94 of 100 values instead of 81 or 90. So the default is twice as many rows as
  columns.
- Rows that a column or two set apart from all others are in the operator as they are, however many
  rows there are (`hopfed.hopfield.leaks.columns_apart`). Operators in which these are one or two
  are not sent.
- Where few pairs of rare values occur, as in sparse tables, these give rows away, and all rows were
  put together within seconds. Such an operator is not sent (`hopfed.hopfield.leaks.rare_values`).
- Rows that break a relation of columns which all others keep are in the operator, too, and so are
  those that break many which most others keep. Such an operator is not sent
  (`hopfed.hopfield.leaks.broken_relations`).
- A vote is a sum over the rows that are nearest to a pattern. Below 10 rows it is not sent: sums of
  so few rows are nearer to each of them than to what they have in common. An archetype that few
  rows of each client support gets no votes, and stays as the operators show it.
"""

from __future__ import annotations

from dataclasses import dataclass

from hopfed._lib.settings import check_types, require

BATCH = 400  # rows of a batch, at least
TIMES = 2  # rows of a batch for each column, at least
GROUP = 50  # rows of a group whose projections are sent
VOTE = 10  # rows that a vote is a sum of
SET = 3  # rows that a column or two may set apart from the others
OPERATORS = 4  # operators' worth of numbers that may leave about a row
USUAL = 20  # classes in an exchange for which numbers are allowed
CLASSES = 200  # classes that a server may name at once


@dataclass(frozen=True)
class Limits:
    """Limits of a client.

    Attributes
    ----------
    rounds : batches that the rows are dealt out to; 0 lets the server choose, as far as no batch
        gets too small.
    smallest_batch : rows of a batch and of a group, at least; 0 stands for 50 of a group, and of a
        batch for twice as many as there are columns, and 400 at least.
    smallest_vote : rows that support a pattern without which their sum is not sent.
    smallest_set : rows that a column, or a pair of columns, may set apart from the others of a
        batch, and that a pair of rare values needs so as to lead to no row; 1 does not look. With 3
        or more, no combination of columns may set one or two apart either, with 2 none one.
    questions : different sets of directions, and of patterns, that a batch answers, over all
        federations; with 0 only operators leave. A direction can be such that a sum of squares
        along it holds single rows as digits: no bound is known, so that `trust_server` is needed.
    most_numbers : numbers that may leave about a row, over all federations; 0 stands for four times
        those of an operator, 2 N (N + 1), and where classes are answered for 20 of them in each
        exchange besides.
    classes : different sets of classes about which a batch answers, over all federations: sums over
        the rows of each class, and products with their residuals. Answers to two sets can be
        subtracted, which leaves single rows: no bound is known, so that `trust_server` is needed
        where they have no noise.
    trust_server : whether whoever runs the server may learn single rows. Without it no `questions`
        are answered, nor any about `classes` without noise.
    weight : whether rules of plasticity other than `Fixed` are followed: their weight answers a
        question about patterns that the server chooses.

    Raises
    ------
    ArgumentError : a limit that is not one.

    Examples
    --------
    >>> limits = Limits()
    >>> limits.batch(784), limits.batch(60), limits.group, limits.numbers(784)
    (1568, 400, 50, 1230880)
    """

    rounds: int = 0
    smallest_batch: int = 0
    smallest_vote: int = VOTE
    smallest_set: int = SET
    questions: int = 0
    most_numbers: int = 0
    classes: int = 0
    trust_server: bool = False
    weight: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("rounds", "smallest_batch", "questions", "most_numbers", "classes"):
            require(getattr(self, name) >= 0, name, "at least 0", getattr(self, name))
        fewest = self.smallest_batch == 0 or self.smallest_batch >= 2
        require(fewest, "smallest_batch", "at least 2", self.smallest_batch)
        require(self.smallest_set >= 1, "smallest_set", "at least 1", self.smallest_set)
        require(self.smallest_vote >= 2, "smallest_vote", "at least 2", self.smallest_vote)

    @property
    def sets(self) -> int:
        """Sets of questions that a batch answers: none to a server that is not trusted.

        Examples
        --------
        >>> Limits(questions=1).sets, Limits(questions=1, trust_server=True).sets
        (0, 1)
        """
        return self.questions if self.trust_server else 0

    @property
    def group(self) -> int:
        """Rows of a group, at least."""
        return self.smallest_batch or GROUP

    def batch(self, columns: int) -> int:
        """Rows of a batch, at least."""
        return self.smallest_batch or max(BATCH, TIMES * columns)

    def numbers(self, columns: int) -> int:
        """Numbers that may leave about a row."""
        about_classes = self.classes * USUAL * (2 * columns + 1)
        return self.most_numbers or OPERATORS * columns * (columns + 1) // 2 + about_classes

    def noisy_numbers(self, columns: int) -> int:
        """Numbers with noise that may leave about a row, in answers about classes."""
        each = (columns + 1) * (columns + 2) // 2
        return self.most_numbers or self.classes * USUAL * each + 1

    def most_rounds(self, rows: int, columns: int) -> int:
        """Rounds that the rows may be dealt over, at most; 0 where they do not make a batch."""
        most = rows // self.batch(columns)
        return min(most, self.rounds) if self.rounds else most
