"""Labelled points around a centre for each class."""

import numpy as np


def examples(n=120, d=20, classes=4, seed=0, queries=40):
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    centres = 2 * rng.standard_normal((classes, d))
    keys = (centres[labels] + rng.standard_normal((n, d))).astype(np.float32)
    asked = rng.integers(classes, size=queries)
    near = (centres[asked] + rng.standard_normal((queries, d))).astype(np.float32)
    return keys, labels, near, asked
