"""The data of `hopfed demo`: letters dealt to five clients, a quarter of the pixels flipped."""

from __future__ import annotations

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments.shared.letters import LETTERS, render_letters
from hopfed.hopfield.channel import draw_examples

CLIENTS, EACH, QUALITY, SUBSET = 5, 1_200, 0.5, 14


def letters_over_clients(seed: int, size: int) -> tuple[np.ndarray, list[np.ndarray], list[str]]:
    """Return the letters (26, size^2), each client's examples, and which letters each holds.

    Subsets overlap and together cover the alphabet: every client gets its share of a shuffled
    alphabet dealt round, and more letters at random up to its number.

    Parameters
    ----------
    seed : of the deal and of the noise.
    size : height and width of a letter in pixels.

    Examples
    --------
    >>> letters, examples, subsets = letters_over_clients(seed=0, size=16)
    >>> letters.shape, [x.shape[1] for x in examples], sorted(set("".join(subsets)))[:3]
    ((26, 256), [256, 256, 256, 256, 256], ['A', 'B', 'C'])
    """
    letters = render_letters(size)
    order = stream(seed, "demo", "deal").permutation(len(LETTERS))
    examples, subsets = [], []
    for c in range(CLIENTS):
        rng = stream(seed, "demo", "client", c)
        own = set(order[c::CLIENTS].tolist())
        others = [k for k in rng.permutation(len(LETTERS)).tolist() if k not in own]
        subset = sorted(own | set(others[: SUBSET - len(own)]))
        examples.append(draw_examples(letters[subset], EACH, QUALITY, rng)[0])
        subsets.append("".join(LETTERS[k] for k in subset))
    return letters, examples, subsets
