"""Words of other tools, and what says the same here, by the table words.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

TABLE: dict[str, Any] = tomllib.loads(
    files("hopfed.cli").joinpath("words.toml").read_text(encoding="utf-8")
)


def answer(word: str, command: str, options: Iterable[str]) -> str | None:
    """What to write instead of an option of another tool; None for words that are not known."""
    plain, held = _plain(word), set(options)
    for row in TABLE["option"]:
        if plain in row["words"].split():
            for option, way in row.items():
                if option != "words" and (option in held or not option):
                    way = way or option
                    use = "use " if way.startswith("--") else ""
                    return f"{command} has no {word}: {use}{way}"
    return None


def command_for(word: str, commands: Sequence[str]) -> str | None:
    """The command that does what `word` does elsewhere; None for words that are not known."""
    plain = _plain(word)
    found = (name for name, words in TABLE["command"].items() if plain in words.split())
    return next((name for name in found if name in commands), None)


def _plain(word: str) -> str:
    """A word without its dashes, in small letters."""
    return re.sub(r"[_.]", "-", word.partition("=")[0]).strip("-").lower()
