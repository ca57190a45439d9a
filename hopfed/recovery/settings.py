"""Settings of a recovery, and rank rules by name.

Tables of several owners, in whatever form they are given.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from hopfed._lib.settings import real, require
from hopfed.archetypes.annealed_search import Search
from hopfed.archetypes.factorize import METHODS
from hopfed.errors import ArgumentError
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.spectral.rank import Fixed, MarchenkoPastur, RankRule, Shuffle, TracyWidom
from hopfed.tables.files import is_many
from hopfed.tables.partitions import is_partitioned, read_partitions
from hopfed.tables.reading import read_table, read_tables
from hopfed.tables.table import Table, aligned_tables

CHANNELS = ("auto", "symmetric", "graded")


@dataclass(frozen=True)
class Settings:
    """How to recover; see `recover` for the meaning of each field.

    Attributes
    ----------
    quality, method, rank_rule, alpha, groups, search, refit, channel, masked, support : as the
        arguments of `recover`.

    Raises
    ------
    ArgumentError : an unknown method or channel, a number of another kind or out of its range.
    """

    quality: float | None = None
    method: str = "auto"
    rank_rule: str | float = "tw"
    alpha: float | None = None
    groups: int = 10
    search: Search | None = None
    refit: bool = False
    channel: str = "auto"
    masked: bool = False
    support: int = 5

    def __post_init__(self) -> None:
        if self.channel not in CHANNELS:
            raise ArgumentError("channel", f"one of {', '.join(CHANNELS)}", self.channel)
        if self.channel == "graded" and self.asked:
            raise ArgumentError("channel", f"auto or symmetric with {self.asked}", self.channel)
        if self.method not in METHODS:
            raise ArgumentError("method", f"one of {', '.join(METHODS)}", self.method)
        for name, least in (("groups", 2), ("support", 1)):
            number = getattr(self, name)
            whole = isinstance(number, Integral) and int(number) >= least
            require(whole, name, f"a whole number, at least {least}", number)
        for name in ("quality", "alpha"):
            number = getattr(self, name)
            require(number is None or isinstance(number, Real), name, "a number", number)
        if self.quality is not None:
            require(0 < self.quality <= 1, "quality", "in (0, 1]", self.quality)
        given = self.search is None or isinstance(self.search, Search)
        require(given, "search", "a hopfed.archetypes.annealed_search.Search", self.search)

    @property
    def asked(self) -> str:
        """What is set that only the symmetric channel has a use for; empty for nothing."""
        asked = {
            "method": self.method != "auto",
            "rank_rule": self.rank_rule != "tw",
            "quality": self.quality is not None,
            "refit": self.refit,
            "search": self.search is not None,
            "masked": self.masked,
        }
        return next((name for name, given in asked.items() if given), "")

    @property
    def only_symmetric(self) -> bool:
        """Whether no other channel is looked at."""
        return self.channel == "symmetric" or bool(self.asked)


def named_rule(name: str | float, alpha: float | None, seed: int) -> RankRule:
    """Rank rule by name: "tw", "mp", "shuffle", or a number, the fixed tau of the paper.

    Parameters
    ----------
    alpha : false-alarm rate of "tw" and "shuffle", their own default when None.

    Raises
    ------
    ArgumentError : another name, or an alpha that it has no use for.
    """
    if name == "tw":
        return TracyWidom() if alpha is None else TracyWidom(alpha)
    if name == "shuffle":
        return Shuffle(seed=seed) if alpha is None else Shuffle(alpha, seed=seed)
    if alpha is not None:
        raise ArgumentError("alpha", "left out unless the rank rule is tw or shuffle", alpha)
    if name == "mp":
        return MarchenkoPastur()
    rule = "tw, mp, shuffle or a finite number"
    tau = real("rank_rule", str(name), rule)
    require(math.isfinite(tau), "rank_rule", rule, name)
    return Fixed(tau)


def tables_of(examples: Any, columns: str = "same") -> list[Table] | None:
    """Return the tables that somebody gives as examples, their columns in one order.

    Parameters
    ----------
    examples : a table, a frame, a mapping from names to columns, rows in lists, an array or a frame
        of Dask, or a path: of a file, or of a folder, a zarr store or a pattern of files, which
        Dask's workers read. Or a list of these, one for each owner; files in it are coded alike.
    columns : what becomes of columns that not all owners have (`hopfed.tables.table`).

    Returns
    -------
    Their tables; None for arrays and packed rows, and lists of these: they have no names.
    """
    alone = (_is_path, is_partitioned, _is_frame, _is_rows)
    if isinstance(examples, Table) or any(check(examples) for check in alone):
        return [_table(examples)]
    if not isinstance(examples, Sequence) or not any(_is_named(part) for part in examples):
        return None
    if all(_is_path(part) and not is_many(part) for part in examples):
        return read_tables(list(examples), columns=columns)
    found = [_table(part) for part in examples]
    return aligned_tables(found, [f"examples[{i}]" for i in range(len(found))], columns)


def warn_of_input(examples: Any) -> None:
    """Warn where 0 stands beside -1 in arrays, and where owners hold the same rows."""
    several = isinstance(examples, list | tuple) and not _is_rows(examples)
    given = examples if several else [examples]
    arrays = [part for part in given if isinstance(part, np.ndarray) and part.dtype.kind in "if"]
    if any(part.size and part.min() == -1 and (part == 0).any() for part in arrays):
        warnings.warn(
            "examples: 0 is missing, as -1 occurs; where 0 means no, give np.where(x == 0, -1, x);"
            " where it means no and -1 no answer, give np.where(x == -1, np.nan, x)",
            stacklevel=3,
        )
    if len({id(part) for part in given}) < len(given):
        warnings.warn("examples: one is given twice, so that its rows count twice", stacklevel=3)


def _table(given: Any) -> Table:
    if isinstance(given, Table):
        return given
    return read_partitions(given) if _is_path(given) and is_many(given) else read_table(given)


def _is_named(part: Any) -> bool:
    checks = (_is_path, is_partitioned, _is_frame, _is_rows)
    return isinstance(part, Table) or any(check(part) for check in checks)


def _is_path(given: Any) -> bool:
    return isinstance(given, str | os.PathLike)


def _is_frame(given: Any) -> bool:
    """Whether something has columns of its own, or is no array that is packed as it stands."""
    if isinstance(given, PackedBits | MaskedBits):
        return False
    kinds = ("__arrow_c_stream__", "__dataframe__", "obs_names", "tocsr", "collect_schema")
    return isinstance(given, dict) or any(hasattr(given, kind) for kind in kinds)


def _is_rows(given: Any) -> bool:
    """Whether something is a list of rows of cells."""
    if not isinstance(given, list | tuple) or not given or not isinstance(given[0], list | tuple):
        return False
    return all(cell is None or isinstance(cell, bool | int | float | str) for cell in given[0])
