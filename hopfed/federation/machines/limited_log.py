"""A log about a server that is not trusted, which that server cannot fill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

MOST = 5_000  # lines


@dataclass
class Sparing:
    """Says each kind of line once, and at most so many lines.

    Attributes
    ----------
    say : is told them.
    most : lines, with the one that says that no more follow.
    """

    say: Callable[[str], object]
    most: int = MOST
    _said: set[str] = field(default_factory=set)

    def __call__(self, words: str, kind: str = "") -> None:
        """Say `words`, unless words of the same kind, or the same words, were said."""
        kind = kind or words
        if kind in self._said or len(self._said) >= self.most:
            return
        self._said.add(kind)
        if len(self._said) < self.most:
            self.say(words)
        else:
            self.say(
                f"that was line {self.most:,} of what the server made this client say: "
                "no more follow"
            )
