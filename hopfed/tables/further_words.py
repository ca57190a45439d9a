"""Words that tables may hold beside those of the table as which they are coded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hopfed._lib.settings import require
from hopfed.errors import shown
from hopfed.tables.coding import Code, Coding
from hopfed.tables.options import Choices
from hopfed.tables.vocabulary import GONE

# What is said beside words where nothing else is.
NOTHING: dict[str, Any] = {"id": None, "ignore": (), "binarize": None, "kinds": {}}


def with_words(coding: Coding, given: Choices) -> Coding | None:
    """Return a coding that knows more words; None if more was said than words, or in vain.

    Words for no entry are so in every column; those for +1 and -1 in the columns of words. What a
    word stands for already stays so.

    Parameters
    ----------
    coding : of archetypes.
    given : what was told of a table.

    Raises
    ------
    ArgumentError : a word is +1 in the coding and was told to be -1, or the other way round.

    Examples
    --------
    >>> coding = Coding(("tea",), (Code("words", (("no", -1), ("yes", 1))),))
    >>> with_words(coding, Choices(words={"9": None, "1": 1})).codes[0].codes(["9", "1"]).tolist()
    [0, 1]
    >>> with_words(coding, Choices(words={"9": None}, ignore="tea")) is None
    True
    """
    given = given.among(coding.names)
    only_words = replace(given, words=None) == replace(given, words=None, **NOTHING)
    unknown = given.named() - set(coding.names)
    if not (given.words and only_words and not unknown):
        return None
    signed = {w for name in coding.names for w, sign in given.signs(name).items() if sign != GONE}
    codes = []
    for name, code in zip(coding.names, coding.codes, strict=True):
        signs = {w: s for w, s in given.signs(name).items() if s == GONE or code.kind == "words"}
        _check(name, code, signs, given)
        signed -= signs.keys()
        fresh = [(word, sign) for word, sign in signs.items() if word not in dict(code.words)]
        codes.append(replace(code, words=(*code.words, *fresh)))
    return None if signed else replace(coding, codes=tuple(codes))


def _check(name: str, code: Code, signs: dict[str, int], given: Choices) -> None:
    """Refuse to turn what a word stands for."""
    for word, sign in code.words:
        require(
            signs.get(word, GONE) * sign >= 0,
            given.called("words"),
            f"for other words than '{shown(word, 40)}', which is {sign:+d} in '{shown(name, 60)}'",
            f"{shown(word, 40)}={signs.get(word, GONE):+d}",
        )
