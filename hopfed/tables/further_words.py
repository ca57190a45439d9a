"""Words that stand for no entry in tables that are coded as another one is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hopfed.tables.coding import Coding
from hopfed.tables.options import Choices
from hopfed.tables.vocabulary import GONE

NOTHING: dict[str, Any] = {
    "id": None,
    "ignore": (),
    "binarize": None,
    "kinds": {},
}  # said beside words


def with_gone(coding: Coding, given: Choices) -> Coding | None:
    """Return a coding in which more words stand for no entry; None if more was said than that.

    Parameters
    ----------
    coding : of archetypes.
    given : what was told of a table.

    Examples
    --------
    >>> from hopfed.tables.coding import Code
    >>> coding = Coding(("tea",), (Code("words", (("no", -1), ("yes", 1))),))
    >>> with_gone(coding, Choices(words={"9": None})).codes[0].codes(["9"]).tolist()
    [0]
    >>> with_gone(coding, Choices(words={"9": 1})) is None
    True
    """
    given = given.among(coding.names)
    told = [given.signs(name) for name in coding.names]
    only_words = replace(given, words=None) == replace(given, words=None, **NOTHING)
    plain = all(sign == GONE for signs in told for sign in signs.values())
    unknown = given.named() - set(coding.names)
    if not (given.words and only_words and plain and not unknown):
        return None
    codes = [
        replace(code, words=(*code.words, *((w, GONE) for w in signs if w not in dict(code.words))))
        for code, signs in zip(coding.codes, told, strict=True)
    ]
    return replace(coding, codes=tuple(codes))
