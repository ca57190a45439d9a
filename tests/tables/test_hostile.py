"""Tables of strangers: they run nothing, lead nowhere, and take no more memory than they may."""

import gzip
import json
import os
import pickle
import subprocess
import sys
import zlib

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import hopfed
from hopfed._lib.settings import with_settings
from hopfed.archetypes.run_file import as_run, of_run
from hopfed.errors import ArgumentError, DataError
from hopfed.hopfield.plasticity import Fixed
from hopfed.kernels import unpack
from hopfed.tables.coding import Code, Coding, number
from hopfed.tables.writers import text_cell

NUMBERS = b"\1\0\0\1" * 3


class Opens:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.fixture
def store(tmp_path):
    """Write a zarr folder with one chunk."""
    pytest.importorskip("zarr", reason="zarr is not installed")

    def write(chunk, shape=(4, 3), **settings):
        path = tmp_path / "a.zarr"
        path.mkdir()
        plain = {"dtype": "|i1", "compressor": None, "filters": None, "fill_value": 0}
        held = {"zarr_format": 2, "order": "C", "shape": shape, "chunks": [4, 3], **plain}
        (path / ".zarray").write_text(json.dumps({**held, **settings}))
        if chunk is not None:
            (path / "0.0").write_bytes(chunk)
        return path

    return write


CODECS = [
    {"dtype": "|O", "filters": [{"id": "vlen-utf8"}, {"id": "pickle"}], "fill_value": ""},
    {"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "compressor": {"id": "pickle"}},
]


@pytest.mark.parametrize("settings", CODECS)
def test_no_codec_runs_what_it_reads(tmp_path, store, monkeypatch, settings):
    """Older releases of numcodecs unpickle whatever a folder names the codec for."""
    numcodecs = pytest.importorskip("numcodecs")
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    path = store(pickle.dumps(Opens(tmp_path / "made")), **settings)
    with pytest.raises(DataError, match="cannot be read"):
        hopfed.read_table(path)
    assert not (tmp_path / "made").exists()
    assert numcodecs.get_codec({"id": "pickle"})  # nobody else loses it


def test_links_and_pipes_are_not_followed(tmp_path, store):
    (tmp_path / "secret").write_bytes(NUMBERS)
    path = store(None)
    (path / "0.0").symlink_to(tmp_path / "secret")
    with pytest.raises(DataError, match="links, pipes or devices"):
        hopfed.read_table(path)
    (path / "0.0").unlink()
    os.mkfifo(path / "0.0")
    with pytest.raises(DataError, match="links, pipes or devices"):
        hopfed.read_table(path)


def test_chunks_are_bounded(store, monkeypatch):
    """Of 1 MB, 1.3 GB were unpacked for a table of 12 numbers; here 200 MB, where 64 may be."""
    monkeypatch.setattr("hopfed._lib.guarded_reading.ROOM", 1 << 26)
    deflate = zlib.compressobj(9)
    packed = b"".join(deflate.compress(bytes(1 << 24)) for _ in range(12)) + deflate.flush()
    path = store(packed, compressor={"id": "zlib", "level": 1})
    with pytest.raises(DataError, match="cannot be read"):
        hopfed.read_table(path)
    (path / "0.0").unlink()
    for shape in ([2**40, 3], [4, 2**40]):
        held = json.loads((path / ".zarray").read_text())
        (path / ".zarray").write_text(json.dumps({**held, "shape": shape}))
        with pytest.raises(DataError, match="cannot be in a file"):
            hopfed.read_table(path)


@pytest.mark.parametrize("options", [{"ignore": ["a"]}, {"binarize": "median"}])
def test_a_long_word_that_occurs_often_is_kept_once(tmp_path, monkeypatch, options):
    """Of 50 kB, 20 GB were made, of a word of 1 MB in 20,000 rows; here 400 MB."""
    rows, long = 20_000, "0" * 20_000
    places = [2000 if k % 10 else k // 10 for k in range(rows)]
    words = pa.array([*(f"{k}" for k in range(2000)), long])
    cells = pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), words)
    table = pa.table({"a": cells, "b": pa.array([k % 2 for k in range(rows)])})
    parquet.write_table(table, tmp_path / "a.parquet", compression="zstd", store_schema=False)
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        read = hopfed.read_table(tmp_path / "a.parquet", **options)
    finally:
        pa.set_memory_pool(before)
    assert pool.max_memory() < 1 << 25
    assert unpack(read.rows)[:, -1].tolist() == [2 * (k % 2) - 1 for k in range(rows)]
    if "binarize" in options:  # of 2,000 numbers and 18,000 zeros
        assert unpack(read.rows)[:, 0].tolist() == [1 if 0 < p < 2000 else -1 for p in places]


def test_a_short_coding_of_many_columns_makes_no_names(monkeypatch):
    """Of 2 kB, a name was made for each of 10,000 columns; of 500 kB, for 256 million."""
    rng = np.random.default_rng(1)
    rows = 2 * rng.integers(0, 2, (200, 30)) - 1
    found = hopfed.recover(rows, seed=1)
    code = Code("category", levels=tuple(map(str, range(100))))
    coding = Coding(tuple(f"c{j}" for j in range(100)), (code,) * 100)
    run = as_run(found)
    run.config["coding"] = coding.to_json()
    monkeypatch.setattr(Code, "names", None)
    with pytest.raises(ArgumentError, match="coding must be of 30 columns, got 10000"):
        of_run(run)


def test_runs_of_equal_cells_end(tmp_path):
    """1,210 bytes of 2^38 rows were read for hours."""
    rows = 2**38
    run = pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int64()), pa.array([1], pa.int8()))
    batch = pa.RecordBatch.from_arrays([run, run], names=["a", "b"])
    options = pa.ipc.IpcWriteOptions(allow_64bit=True)
    with (
        pa.OSFile(str(tmp_path / "a.feather"), "wb") as file,
        pa.ipc.new_file(file, batch.schema, options=options) as writer,
    ):
        writer.write_batch(batch)
    with pytest.raises(DataError, match="549,755,813,888 entries cannot be in a file"):
        hopfed.read_table(tmp_path / "a.feather")


@pytest.mark.parametrize("piece", [b"0,1\n1,0\n", b"\n"])
def test_packed_text_is_bounded(tmp_path, monkeypatch, piece):
    """Of 6 MB, 3 GB were read for minutes; here of 10 kB, 9 MB, where 4 may be."""
    monkeypatch.setattr("hopfed.tables.files.ROOM", 1 << 22)
    text = b"a,b\n0,1\n1,0\n" + piece * ((9 << 20) // len(piece))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text))
    with pytest.raises(DataError, match="unpacks to more than 4,194,304 bytes: unpack it first"):
        hopfed.read_table(tmp_path / "a.csv.gz")


@pytest.mark.parametrize("kind", ["feather", "parquet"])
def test_packed_words_are_bounded(tmp_path, monkeypatch, kind):
    """Of 75 kB, 12 GB were taken; here of less, 10 MB, where 4 may be."""
    monkeypatch.setattr("hopfed.tables.files.ROOM", 1 << 22)
    words = pa.array(["x" * (1 << 17) + str(k) for k in range(80)])
    table = pa.table({"a": words, "b": pa.array([k % 2 for k in range(80)])})
    path = tmp_path / f"a.{kind}"
    if kind == "feather":
        feather.write_feather(table, path, compression="zstd")
    else:
        parquet.write_table(table, path, compression="zstd", use_dictionary=False)
    assert path.stat().st_size < 20_000
    with pytest.raises(DataError, match="unpacks to more than 4,194,304 bytes"):
        hopfed.read_table(path)


def test_one_long_name_does_not_make_all_long(tmp_path, monkeypatch):
    """An array of names keeps as much for each as for the longest: of 2 MB, 16 GB."""
    rows = [f"{'x' * 200_000 if k == 5 else f'r{k}'},{k % 2}" for k in range(1000)]
    (tmp_path / "a.csv").write_text("id,b\n" + "\n".join(rows))
    monkeypatch.setattr("hopfed._lib.memory_limits.free_memory", lambda: 1 << 29)
    with pytest.raises(DataError, match=r"names of rows: needs 0\.80 GB"):
        hopfed.read_table(tmp_path / "a.csv")
    assert hopfed.read_table(tmp_path / "a.csv", ignore=["id"]).shape == (1000, 1)


def test_digits_are_looked_at_once():
    """A cell of 100 kB, digits and a letter, was looked at for minutes, in all ways to part it."""
    word = "1" * 100_000 + "x"
    assert number(word) is None
    assert text_cell(f"-{word}") == f"'-{word}"
    with pytest.raises(ArgumentError):
        with_settings(Fixed(), [f"weight={word}"])


WIDE = 1_000_000_000


def npy(path, shape):
    with open(path, "wb") as file:
        header = {"descr": "|b1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
    return path


def h5(path, shape):
    with h5py.File(path, "w") as file:
        packed = {"compression": "gzip", "chunks": (1, 1 << 20)} if shape[0] else {}
        file.create_dataset("examples", shape, "i1", **packed)
    return path


@pytest.mark.parametrize(
    ("name", "make", "shape"),
    [
        ("a.npy", npy, (0, WIDE)),
        ("a.h5", h5, (0, WIDE)),
        ("a.h5", h5, (2, 3 * 10**7)),
        (
            "a.npz",
            lambda path, shape: np.savez_compressed(path, examples=np.zeros(shape, "i1")),
            (2, 10**7),
        ),
    ],
)
def test_a_tiny_file_of_many_columns_is_refused_at_once(tmp_path, name, make, shape):
    make(tmp_path / name, shape)
    with pytest.raises(DataError, match=r"cannot be in a file of|no entry in|names of"):
        hopfed.read_table(tmp_path / name)


def test_a_file_without_rows_is_one_line(tmp_path, hopfed):
    path = npy(tmp_path / "zero.npy", (0, 1000))
    for command in (("recover", path), ("recover", path, "--dry-run")):
        status, text, errors = hopfed(*command)
        assert (status, text) == (2, "")
        assert errors.strip().endswith("zero.npy: there is no entry in 0 row(s) of 1,000 column(s)")


def test_arrays_are_weighed_before_their_columns_have_names(monkeypatch):
    monkeypatch.setattr("hopfed._lib.memory_limits.free_memory", lambda: 1 << 26)
    with pytest.raises(DataError, match=r"names of 1,000,000 columns: needs 0.10 GB of memory"):
        hopfed.read_table(np.zeros((2, 1_000_000), bool))
    with pytest.raises(DataError, match="there is no entry in 0 row"):
        hopfed.read_table(np.zeros((0, WIDE), bool))


READ = """
import sys
import hopfed

def most():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

hopfed.read_table([[0, 1], [1, 0]])  # loads and compiles what every table needs
hopfed.read_table(sys.argv[1])
before = most()
table = hopfed.read_table(sys.argv[2])
print(*table.shape, most() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc says how much memory a process took")
@pytest.mark.parametrize(
    ("rows", "columns", "most"),
    [
        (2, 20_000, 140_000),  # of 1.1 MB with 100,000 columns, 1.5 GB were made: 12.6 kB for each
        (200_000, 500, 300_000),  # of 200 MB, of which pandas would hold 800 MB of numbers
    ],
)
def test_a_text_takes_little_memory(tmp_path, rows, columns, most):
    rng = np.random.default_rng(0)
    for name, m, n in (("small.csv", 2, 100), ("large.csv", rows, columns)):
        line = np.full((min(m, 5000), 2 * n), ord(","), np.uint8)
        line[:, -1] = ord("\n")
        with open(tmp_path / name, "wb") as file:
            file.write((",".join(f"q{j}" for j in range(n)) + "\n").encode())
            for _ in range(0, m, 5000):
                line[:, ::2] = ord("0") + rng.integers(0, 2, (len(line), n), dtype=np.uint8)
                file.write(line.tobytes())
    paths = [tmp_path / "small.csv", tmp_path / "large.csv"]
    done = subprocess.run([sys.executable, "-c", READ, *paths], capture_output=True, text=True)
    *shape, took = map(int, done.stdout.split())
    assert (shape, took < most) == ([rows, columns], True), done.stderr
