"""Tiny files that say that they have very many columns: one line at once, and no memory filled."""

import json
import resource
import subprocess
import sys

import h5py
import numpy as np
import pytest

import hopfed
from hopfed.errors import DataError

WIDE = 1_000_000_000


def npy(path, shape, values=b""):
    with open(path, "wb") as file:
        header = {"descr": "|b1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(values)
    return path


def npz(path, shape):
    np.savez_compressed(path, examples=np.zeros(shape, np.int8))
    return path


def h5(path, shape):
    with h5py.File(path, "w") as file:
        packed = {"compression": "gzip", "chunks": (1, 1 << 20)} if shape[0] else {}
        file.create_dataset("examples", shape, "i1", **packed)
        for start in range(0, shape[1] if shape[0] else 0, 1 << 20):
            file["examples"][0, start : start + (1 << 20)] = 1
    return path


def zarr(path, shape):
    pytest.importorskip("zarr", reason="zarr is not installed")
    path.mkdir()
    plain = {"dtype": "|i1", "compressor": None, "filters": None, "fill_value": 0}
    held = {"zarr_format": 2, "order": "C", "shape": shape, "chunks": [4, 1024], **plain}
    (path / ".zarray").write_text(json.dumps(held))
    return path


FILES = {
    "no rows.npy": (npy, (0, WIDE), "1,000,000,000 columns are too many for a file of 128 bytes"),
    "no rows.h5": (h5, (0, WIDE), "cannot be in a file of 1,400 bytes"),
    "no rows.zarr": (zarr, (0, WIDE), "cannot be in a file of"),
    "no rows.npz": (npz, (0, WIDE), "1,000,000,000 columns are too many for a file of"),
    "packed.h5": (h5, (2, 3 * 10**7), "30,000,000 columns are too many for a file of"),
    "packed.npz": (npz, (2, 10**7), "10,000,000 columns are too many for a file of"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_tiny_file_of_many_columns_is_refused_at_once(tmp_path, name):
    make, shape, message = FILES[name]
    path = make(tmp_path / name, shape)
    with pytest.raises(DataError, match=message):
        hopfed.read_table(path)


def test_a_file_without_rows_is_one_line(tmp_path, hopfed):
    path = npy(tmp_path / "zero.npy", (0, 1000))
    for command in (("recover", path), ("recover", path, "--dry-run")):
        status, text, errors = hopfed(*command)
        assert (status, text) == (2, "")
        assert errors.strip().endswith("zero.npy: there are no rows in it, of 1,000 column(s)")


def test_arrays_are_weighed_before_their_columns_have_names(monkeypatch):
    monkeypatch.setattr("hopfed._lib.memory_limits.free_memory", lambda: 1 << 26)
    with pytest.raises(DataError, match=r"names of 1,000,000 columns: needs 0.10 GB of memory"):
        hopfed.read_table(np.zeros((2, 1_000_000), bool))
    with pytest.raises(DataError, match="there are no rows in it"):
        hopfed.read_table(np.zeros((0, WIDE), bool))


def test_a_command_that_meets_one_takes_little_memory(tmp_path):
    path = npy(tmp_path / "zero.npy", (0, WIDE))
    most = 2 << 30

    def limited():
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))

    command = [sys.executable, "-m", "hopfed", "recover", str(path), "--dry-run"]
    done = subprocess.run(command, preexec_fn=limited, capture_output=True, text=True)
    assert done.returncode == 2
    assert "columns are too many" in done.stderr
    assert len(done.stderr.splitlines()) == 1


READ = """
import sys
import hopfed

def most():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

hopfed.read_table([[0, 1], [1, 0]])  # loads and compiles what every table needs
hopfed.read_table(sys.argv[1])
before = most()
hopfed.read_table(sys.argv[2])
print(most() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc says how much memory a process took")
def test_a_column_of_a_text_takes_a_few_kilobytes(tmp_path):
    """Of 1.1 MB, 1.5 GB were made, for 100,000 columns; here 20,000, which took 12.6 kB each."""
    for name, columns in (("narrow.csv", 100), ("wide.csv", 20_000)):
        rows = np.random.default_rng(0).integers(0, 2, (2, columns))
        header = ",".join(f"g{j}" for j in range(columns))
        np.savetxt(tmp_path / name, rows, "%d", ",", header=header, comments="")
    paths = [str(tmp_path / name) for name in ("narrow.csv", "wide.csv")]
    done = subprocess.run([sys.executable, "-c", READ, *paths], capture_output=True, text=True)
    assert int(done.stdout) < 7 * 20_000, done.stderr
