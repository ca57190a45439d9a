"""Damaged files in front of every reader: examples, or one line that says what is wrong."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from calls import SECONDS
from helpers import rest_slow
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutants import SOUND, damaged

import hopfed
from hopfed.errors import ColumnsError, HopfedError
from hopfed.experiments.shared.silhouettes import load_silhouettes
from hopfed.kernels import unpack
from hopfed.runs import Run
from hopfed.tables.coding import Coding
from hopfed.tables.formats import read_numbers

pytestmark = pytest.mark.usefixtures("little_memory")
OPTIONS = (
    {}, {"binarize": "median"}, {"binarize": "levels", "id": ""},
    {"words": {"oak": 1, "ash": None}},
)  # fmt: skip


def read(reader, *arguments, **more):
    """Call a reader: what it answers, or None after an error of one line."""
    began, found, said = time.process_time(), None, ""
    try:
        found = reader(*arguments, **more)
    except ColumnsError as error:
        said = str(error).replace("\n", "")  # a line for each column
    except HopfedError as error:
        said = str(error)
    assert said.isprintable()
    assert time.process_time() - began < SECONDS
    return found


def judge(path, options):
    """What the readers of tables, datasets, pictures and runs make of a file or folder."""
    from hopfed.neural.data import load

    numbers, table = read(read_numbers, path), read(hopfed.read_table, path, **options)
    assert numbers is None or numbers.ndim >= 1
    data = read(load, str(path))
    assert data is None or (len(data) >= 1 and 0 <= data.labels.min() <= data.labels.max())
    if path.suffix == ".npz":
        pictures = read(load_silhouettes, path, ())
        assert pictures is None or set(np.unique(pictures)) <= {-1, 1}
    if path.suffix == ".h5":
        run = read(Run.load, path)
        assert run is None or run.kind
    if table is not None:
        assert table.shape[0] >= 2
        assert table.shape[1] == len(table.columns) >= 1
        assert table.ids is None or len(table.ids) == len(table)
        again = hopfed.read_table(path, coding=table.coding)
        np.testing.assert_array_equal(unpack(again.rows), unpack(table.rows))
        assert Coding.from_json(table.coding.to_json()) == table.coding
    return numbers, table, data


@pytest.mark.parametrize("cases", rest_slow([10, 1500], 1))
@pytest.mark.parametrize("name", SOUND)
def test_damaged_files(tmp_path, name, cases):
    SOUND[name](tmp_path / name)
    whole = {p: p.read_bytes() for p in sorted(tmp_path.rglob("*")) if p.is_file()}

    @settings(max_examples=cases, derandomize=cases < 100, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def damage(data):
        for path, held in whole.items():
            path.write_bytes(held)
        path = data.draw(st.sampled_from([*whole]))
        path.write_bytes(data.draw(damaged(whole[path])))
        judge(tmp_path / name, data.draw(st.sampled_from(OPTIONS)))

    damage()


NO_FILES = {
    "folder": Path.mkdir, "pipe": os.mkfifo, "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path), "empty": Path.touch, "nothing": lambda path: None,
    "long": lambda path: None,
}  # fmt: skip


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".h5", ".parquet", ".feather"])
@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file(tmp_path, suffix, kind):
    path = tmp_path / f"{'a' * (300 if kind == 'long' else 1)}{suffix}"
    NO_FILES[kind](path)
    assert judge(path, {}) == (None,) * 3
