"""Examples of next-character prediction as in LEAF: 80 characters predict the next one.

Source: arXiv:1812.01097; theory/NOTES.md, "Text of the neural experiments".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LENGTH = 80  # characters of context

# The 80 characters of LEAF, in its order. As in LEAF, any other character counts as a space.
VOCABULARY = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
SPACE = VOCABULARY.index(" ")

_CODES = np.full(128, SPACE, dtype=np.uint8)
_CODES[[ord(c) for c in VOCABULARY]] = np.arange(len(VOCABULARY))


def encode_text(text: str) -> np.ndarray:
    """Return the codes of `text`, uint8 (len(text),)."""
    points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    return np.where(points < 128, _CODES[np.minimum(points, 127)], np.uint8(SPACE))


def speech_windows(speeches: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return every window of every speech, the character that follows it, and its speech.

    As in LEAF, a speech becomes one line: line breaks and runs of spaces become single spaces, and
    a line break ends it. 80 spaces before it make its first character predictable too.
    """
    lines = [" ".join(speech.split()) + "\n" for speech in speeches]
    padded = encode_text("".join(" " * LENGTH + line for line in lines))
    lengths = np.array([len(line) for line in lines], dtype=np.int64)
    speech = np.repeat(np.arange(len(lines)), lengths)
    # The k-th target follows k other targets and the padding of all speeches so far.
    start = np.arange(len(speech)) + LENGTH * speech
    windows = np.lib.stride_tricks.sliding_window_view(padded, LENGTH)[start]
    return windows, padded[start + LENGTH].astype(np.int64), speech
