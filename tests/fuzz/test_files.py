"""Damaged files in front of every reader: examples, or one line that says what is wrong."""

import os
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from calls import in_time, spread
from hypothesis import given
from hypothesis import strategies as st
from mutants import FILES, FOLDERS, damaged, damaged_inside, odd_archive, odd_header

import hopfed
from hopfed.errors import ColumnsError, HopfedError
from hopfed.experiments.shared.silhouettes import load_silhouettes
from hopfed.kernels import unpack
from hopfed.runs import Run
from hopfed.tables.coding import Coding
from hopfed.tables.formats import read_numbers

ARRAYS = (".npy", ".npz", ".csv", ".h5")
TABLES = (".csv", ".tsv", ".gz", ".parquet", ".feather", ".xlsx", ".ods", ".sav", ".dta", ".json")
FAST, SLOW = 150, 38_750  # cases; test_commands.py has the others

pytestmark = pytest.mark.usefixtures("little_memory")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def read(reader, path):
    """Call a reader: what it answers, or None after an error of one line."""
    try:
        with in_time(path), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", ".*: 0 is missing")  # said of sound tables, too
            return reader(path)
    except HopfedError as caught:
        error, words = caught, str(caught)
    lines = words.split("\n")
    assert len(lines) == 1 or isinstance(error, ColumnsError)
    assert all(line.isprintable() for line in lines)
    return None


TOLD = (
    {}, {"binarize": "median"}, {"binarize": "levels", "id": ""},
    {"words": {"oak": 1, "ash": None}},
)  # fmt: skip


def examples(folder, data, suffix, told=TOLD[0]):
    path = folder / f"a{suffix}"
    path.write_bytes(data)
    if suffix in ARRAYS:
        found = read(read_numbers, path)
        assert found is None or found.ndim >= 1
    table = read(lambda path: hopfed.read_table(path, **told), path)
    assert table is None or (table.shape[0] >= 2 and table.shape[1] == len(table.columns) >= 1)
    if table is None:
        return
    assert table.ids is None or len(table.ids) == len(table)
    again = hopfed.read_table(path, coding=table.coding)
    np.testing.assert_array_equal(unpack(again.rows), unpack(table.rows))
    assert Coding.from_json(table.coding.to_json()) == table.coding


def dataset(folder, data):
    from hopfed.neural.data.sources import read_npz

    path = folder / "a.npz"
    path.write_bytes(data)
    found = read(read_npz, path)
    assert found is None or (len(found) >= 1 and 0 <= found.labels.min() <= found.labels.max())
    pictures = read(lambda path: load_silhouettes(path, ()), path)
    assert pictures is None or set(np.unique(pictures)) <= {-1, 1}


def run_file(folder, data):
    path = folder / "run.h5"
    path.write_bytes(data)
    found = read(Run.load, path)
    assert found is None or found.kind


def published(root, name, file, data):
    """Put the folder of a dataset down, with one file damaged, and load it."""
    from hopfed.neural.data import load

    place = root / name
    for at, held in FOLDERS[name].items():
        path = place / at
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if at == file else held)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPFED_DATA", str(place))
        found = read(lambda _: load(name), place)
    assert found is None or len(found) >= 1


draws = st.randoms(use_true_random=True)  # a failure prints the seed that repeats it
PUBLISHED = [(name, file) for name, files in FOLDERS.items() for file in files]


def table_of(folder, rng, suffix):
    name = ".csv.gz" if suffix == ".gz" else suffix
    packed = suffix in (".xlsx", ".ods") and rng.random() < 0.5
    data = (damaged_inside if packed else damaged)(rng, FILES[suffix])
    examples(folder, data, name, rng.choice(TOLD))


def array_of(folder, rng, suffix):
    examples(folder, damaged(rng, FILES[suffix]), suffix)


def odd_archives(folder, rng):
    data = odd_archive(rng)
    dataset(folder, data)
    examples(folder, data, ".npz")


def published_folders(folder, rng):
    name, file = rng.choice(PUBLISHED)
    published(folder, name, file, damaged(rng, [FOLDERS[name][file]]))


CASES = {
    "headers": lambda folder, rng: examples(folder, odd_header(rng), ".npy"),
    "archives": lambda folder, rng: dataset(folder, damaged(rng, FILES[".npz"])),
    "odd archives": odd_archives,
    "runs": lambda folder, rng: run_file(folder, damaged(rng, FILES[".h5"])),
    "published folders": published_folders,
}
CASES |= {f"examples {suffix}": partial(array_of, suffix=suffix) for suffix in ARRAYS}
CASES |= {f"tables {suffix}": partial(table_of, suffix=suffix) for suffix in TABLES}


@pytest.mark.parametrize("case", CASES)
@spread(FAST // 10, known=True)
@given(rng=draws)
def test_damaged_files(folder, case, rng):
    CASES[case](folder, rng)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@spread(SLOW // 10, known=False)
@given(rng=draws)
def test_damaged_files_at_length(folder, case, rng):
    CASES[case](folder, rng)


NO_FILES = {
    "folder": Path.mkdir, "pipe": os.mkfifo, "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path), "empty": Path.touch, "nothing": lambda path: None,
}  # fmt: skip


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".h5", ".parquet", ".feather"])
@pytest.mark.parametrize("kind", [*NO_FILES, "long"])
def test_what_is_no_file(tmp_path, suffix, kind):
    from hopfed.neural.data.sources import read_npz

    path = tmp_path / f"{'a' * (300 if kind == 'long' else 1)}{suffix}"
    if kind in NO_FILES:
        NO_FILES[kind](path)
    for reader in (read_numbers, hopfed.read_table, read_npz, load_silhouettes, Run.load):
        assert read(reader, path) is None
