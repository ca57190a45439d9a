"""What several tests need: one strict comparison, data from one seed, where real data are."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from hopfed.archetypes.subspace import Subspace
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.rank import Sample, TracyWidom

DATA = Path(os.environ.get("HOPFED_DATA", Path(__file__).parents[2] / "shared" / "data"))


def data_file(name):
    """Path of a file of real data, or a skip where it is absent."""
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"{name} is not at hand; set HOPFED_DATA to its folder")
    return path


def written(path, head, rows, **how):
    """Write a table as a .csv file, and return its path."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, **how).writerows([head, *rows])
    return path


def lines_of(path, **how):
    """Head and rows of a .csv file."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file, **how))


def assert_close(got, want, *, rtol=1e-7, atol=0.0):
    """Same library, dtype, shape, and then values."""
    assert type(got) is type(want), (type(got), type(want))
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    assert got.shape == want.shape, (got.shape, want.shape)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


def assert_same(one, other):
    """Arrays of the same names, to the bit."""
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def sample(K, N, M, quality, seed, exposures=None):
    """Draw archetypes and examples from one seed: (archetypes, examples)."""
    rng = np.random.default_rng(seed)
    xi = rademacher(K, N, rng)
    return xi, draw_examples(xi, M, quality, rng, exposures=exposures)[0]


def spectrum_and_rank(eta):
    """Spectrum of examples as far as it is counted, and the count."""
    M, N = eta.shape
    rule = TracyWidom()
    spectrum = eigenpairs(
        FactorOperator.from_examples(eta), lambda v, c: rule(Sample(v, N, M, c)).n_detected
    )
    return spectrum, rule(Sample(spectrum.values, N, M))


def subspace(eta):
    """Signal subspace of examples, as a recovery finds it."""
    return Subspace.of(*spectrum_and_rank(eta))


def arrays_of(state):
    """All arrays of the state of a federation, by name."""
    return state.arrays()


def rest_slow(values, fast):
    """Parameters of a test, of which all after the first `fast` are left to the slow tests."""
    sets = [v if isinstance(v, tuple) else (v,) for v in values]
    marks = [()] * fast + [pytest.mark.slow] * (len(sets) - fast)
    return [pytest.param(*v, marks=mark) for v, mark in zip(sets, marks, strict=True)]


def first_fast(names, fast):
    """Names as parameters of a test: those that are `fast`, and the others for the slow tests."""
    return rest_slow(sorted(names, key=lambda name: name not in fast), len(fast))


def filled(found, source):
    """A table whose gaps archetypes fill: `Filled`, of all rows together."""
    import pyarrow as pa

    from hopfed.archetypes.table_filling import Completion, Filled, Filling, of_kind

    filling = Filling(found, source)
    parts = list(filling.blocks())
    cells = zip(*([array for _, array in part.columns] for part in parts), strict=True)
    columns = [
        (name, pa.chunked_array([of_kind(a, kind) for a in each], kind).combine_chunks())
        for (name, kind), each in zip(filling.types.items(), cells, strict=True)
    ]
    whole = [np.concatenate([getattr(p.completion, n) for p in parts]) for n in Completion._fields]
    gaps = np.concatenate([part.gaps for part in parts])
    sums = (sum(getattr(p, n) for p in parts) for n in Filled._fields[3:])
    return Filled(columns, Completion(*whole), gaps, *sums)
