"""Small stand-ins for datasets, and what many tests ask of them."""

import numpy as np
from hypothesis import strategies as st

from hopfed.neural.data import Dataset

IMAGES = np.random.default_rng(0).integers(0, 256, size=(6, 5, 4), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2])

seeds = st.integers(0, 2**32)


def npz(folder, **arrays):
    path = folder / "a.npz"
    np.savez(path, **{"images": IMAGES, "labels": LABELS} | arrays)
    return path


def one_line(error):
    return "\n" not in str(error.value)


@st.composite
def labelled(draw, least=1):
    """Labels in random order, every class with at least `least` examples."""
    counts = draw(st.lists(st.integers(least, 40), min_size=2, max_size=6))
    labels = np.repeat(np.arange(len(counts)), counts)
    return draw(st.randoms(use_true_random=False)).sample(labels.tolist(), len(labels))


def plays(rng, roles=6, speeches=8):
    """Tokens whose labels vary inside a speech, by role and speech."""
    lengths = rng.integers(5, 30, size=roles * speeches)
    group = np.repeat(np.arange(roles * speeches), lengths)
    n = len(group)
    labels, tokens = rng.integers(0, 9, size=n), rng.integers(0, 9, size=(n, 4))
    names = tuple(map(str, range(9)))
    writer, roles = group // speeches, tuple(f"role {k}" for k in range(roles))
    return Dataset("play", tokens, labels, names, writer=writer, writer_names=roles, group=group)


def rows_of(part):
    parts = zip(part.train, part.validation, part.test, strict=True)
    return [np.concatenate(three) for three in parts]


def disjoint(arrays):
    together = np.concatenate(arrays)
    return len(np.unique(together)) == len(together)
