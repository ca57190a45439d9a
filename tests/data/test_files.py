"""Open files: what is said of damaged ones, and nothing else is changed."""

import warnings

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hopfed.data.delimited import Delimited
from hopfed.data.hdf5 import table_parts
from hopfed.tables.arrays import Npz, npy_rows
from hopfed.tables.arrow_files import parquet_batches


def test_warnings_of_others_are_shown_between_two_blocks(tmp_path):
    """A reader that waits silenced whatever its caller said meanwhile."""
    (tmp_path / "a.csv").write_text("a,b\n1,2\n" * 3)
    np.save(tmp_path / "a.npy", np.eye(3))
    np.savez(tmp_path / "a.npz", x=np.eye(3))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["examples"] = np.eye(3)
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "a.parquet")
    archive = Npz(tmp_path / "a.npz")
    readers = [
        Delimited.of(tmp_path / "a.csv").blocks(),
        npy_rows(tmp_path / "a.npy", 1),
        archive.rows("x", 1),
        table_parts(tmp_path / "a.h5", ("examples",), 1),
        parquet_batches(tmp_path / "a.parquet", 1)[1](),
    ]
    before = list(warnings.filters)
    for reader in readers:
        next(reader)
        assert warnings.filters == before
        reader.close()
    archive.__exit__(None, None, None)
