"""Valid files of every kind that hopfed reads, and ways to damage them, for the fuzz tests."""

import gzip
import io
import json
import struct
import tempfile
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyreadstat
from PIL import Image
from pyarrow import feather, parquet

from hopfed.runs import Run

RNG = np.random.default_rng(7)
ROWS = RNG.integers(0, 2, (12, 9)).astype(np.int8)
IMAGES = RNG.integers(0, 256, (6, 4, 4), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2])

# Numbers at which lengths, offsets and counts break, and words that look like numbers.
EDGES = (0, 1, 2, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40)
EDGES += (2**62, 2**63 - 1, 2**63, 2**64 - 1)
NUMBERS = ("", "nan", "inf", "-inf", "1e400", "-1", "0x1", "1_0", "²", "１", "9" * 11, "1" * 400)
NUMBERS += ("0", "1", "2", "0.5", " 1", "--", "#", '"', "é", "\0", "[/b]", "\x1b[31m")


def _saved(save, *arrays, **named):
    buffer = io.BytesIO()
    save(buffer, *arrays, **named)
    return buffer.getvalue()


def npy(array):
    return _saved(np.save, array)


def npz(**arrays):
    return _saved(np.savez, **arrays)


def packed(**arrays):
    return _saved(np.savez_compressed, **arrays)


def _parquet(table, **options):
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


def _feather(table, compression):
    sink = pa.BufferOutputStream()
    feather.write_feather(table, sink, compression=compression)
    return sink.getvalue().to_pybytes()


def _workbook(engine):
    buffer = io.BytesIO()
    with pd.ExcelWriter(buffer, engine=engine) as book:
        STUDY.to_excel(book, sheet_name="answers", index=False)
        STUDY.head(2).to_excel(book, sheet_name="more", index=False)
    return buffer.getvalue()


def _study(write, **labels):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a")
        write(STUDY, str(path), **labels)
        return path.read_bytes()


def hdf5(fill):
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        fill(file)
    return buffer.getvalue()


def _run(run):
    with tempfile.TemporaryDirectory() as folder:
        run.save(f"{folder}/run.h5")
        return Path(folder, "run.h5").read_bytes()


def _picture(form, mode="RGB"):
    buffer = io.BytesIO()
    Image.fromarray(RNG.integers(0, 256, (4, 4, 3), dtype=np.uint8)).convert(mode).save(
        buffer, form
    )
    return buffer.getvalue()


def _sheet():
    buffer = io.BytesIO()
    Image.fromarray(RNG.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(buffer, "JPEG")
    data = np.frombuffer(buffer.getvalue(), np.uint8)
    return {"jpeg": data, "offsets": np.array([0, len(data)]), "tile": np.array([2, 4])}


FRAME = pa.table(
    {
        "id": [f"row {k}" for k in range(12)],
        "a": ROWS[:, 0] > 0,
        "b": [None, *ROWS[1:, 1].tolist()],
        "c": [("oak", "ash", "yew", None)[k % 4] for k in range(12)],
        "d": pa.array([("x", "y")[k % 2] for k in range(12)]).dictionary_encode(),
        "e": (ROWS[:, 2] + 0.0).astype(np.float32),
    }
)
STUDY = pd.DataFrame(
    {
        "id": [f"row {k}" for k in range(6)],
        "tea": [1.0, 2.0, 9.0, 1.0, None, 2.0],
        "trees": ["oak", "ash", "", "oak", "ash", "oak"],
        "b": [0, 1, 1, 0, 1, 0],
    }
)
YES_NO = {"tea": {1: "yes", 2: "no"}}
SPSS = {"variable_value_labels": YES_NO, "missing_ranges": {"tea": [9]}}
TEXT = np.frombuffer(b"Speak, speak. Resolved.", np.uint8)
NPZ = {
    "images": {"images": IMAGES, "labels": LABELS},
    "columns": {
        "images": IMAGES / 255,
        "labels": LABELS,
        "class_names": np.array(["a", "b", "c"]),
        "coarse_labels": np.array([0, 1, 1, 0, 1, 1]),
        "domain": np.array(["p", "q", "p", "q", "p", "q"]),
        "writer": LABELS[::-1],
        "writer_names": np.array(["x", "y", "z"]),
        "split": np.array(["train", "test", "val", "train", "test", "val"]),
    },
    "published": {"images": IMAGES[..., None], "labels": LABELS, "train": LABELS > 0},
    "sheets": {"labels": np.arange(4)} | _sheet(),
    "speeches": {
        "text": TEXT,
        "start": np.array([0, 14]),
        "end": np.array([13, 23]),
        "labels": np.array(["a", "b"]),
    },
    "silhouettes": {
        "images": (IMAGES > 99).astype(np.uint8),
        "labels": LABELS,
        "split": np.array(["train"] * 6),
        "class_names": np.array(["anchor", "bass", "cup"]),
    },
    "examples": {"examples": ROWS, "labels": np.arange(12)},
    "alone": {"table": ROWS > 0},
}

RUNS = [
    _run(Run("bbp", {"N": 20, "seeds": 1}, {"x": np.ones((1, 2, 3))}, {"gap": [0.1, 0.2]}, {})),
    _run(Run("serve", {"clients": 3}, {"patterns": ROWS}, {"archetypes": 2}, {}, 1, 2)),
]

# Suffix -> bytes of valid files.
FILES = {
    ".npy": [
        npy(ROWS),
        npy(ROWS > 0),
        npy(2.0 * ROWS - 1),
        npy(np.asfortranarray(ROWS.astype(">i4"))),
        npy(np.zeros((3, 2, 2), np.float16)),
    ],
    ".npz": [*(npz(**arrays) for arrays in NPZ.values()), packed(**NPZ["examples"])],
    ".csv": [
        b"1,0,1\n0,1,1\n1,1,0\n",
        b"\xef\xbb\xbfa;b\r\n1;0\r\n0;1\r\n",
        b'"q1"\t"q2"\n"1"\t"-1"\n-1\t1\n\n',
        b"1 0 1\n0 1 1",
        b"id,q 1,tree\nx,yes,oak\ny,NO,\nz,?,ash\nw,yes,yew\n",
        b'"a","b"\r\n"r1",+,0.5\r\n"r2",-,2\r\n"r3","",3e1\r\n',
    ],
    ".tsv": [b"person\ta\tb\nP0\tt\t-1\nP1\tf\t1\nP2\tNA\t0\n"],
    ".gz": [gzip.compress(b"a,b\n1,0\n0,1\n1,1\n")],
    ".parquet": [_parquet(FRAME), _parquet(FRAME, compression="zstd", use_dictionary=False)],
    ".feather": [_feather(FRAME, "lz4"), _feather(FRAME, "uncompressed")],
    ".xlsx": [_workbook("openpyxl")],
    ".ods": [_workbook("odf")],
    ".sav": [
        _study(pyreadstat.write_sav, **SPSS),
        _study(pyreadstat.write_sav, row_compress=True, **SPSS),
    ],
    ".dta": [_study(pyreadstat.write_dta, variable_value_labels=YES_NO)],
    ".json": [
        STUDY.to_json(orient="records").encode(),
        STUDY.to_json(orient="records", lines=True).encode(),
        json.dumps({"rows": STUDY.to_dict("records")}).encode(),
        json.dumps({"a": [1, 0, None], "b": ["yes", "no", "?"]}).encode(),
    ],
    ".h5": [
        hdf5(lambda f: f.create_dataset("examples", data=ROWS)),
        hdf5(lambda f: f.create_dataset("a/b", data=ROWS, chunks=(4, 4), compression="gzip")),
        hdf5(lambda f: f.create_dataset("x", data=ROWS > 0, maxshape=(None, 9), fletcher32=True)),
        *RUNS,
    ],
    ".toml": [b'data = "digits"\nclients = 3\nlr = 0.1\nmodels = ["lenet"]\n[options]\nmu = 0.1\n'],
    ".pem": [b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"],
}

# Folders of datasets: name -> files by their place.
FOLDERS = {
    "pacs": {
        f"{domain}/{kind}/a.png": _picture("PNG", mode)
        for domain, mode in (("art_painting", "RGB"), ("photo", "P"))
        for kind in ("dog", "cat")
    },
    "pets": {
        f"{part}/{kind}/a.jpg": _picture("JPEG") for part in ("train", "val") for kind in "ab"
    },
    "clients": {
        f"{client}/{part}.npz": npz(x=IMAGES, y=LABELS)
        for client in ("ann", "bob")
        for part in ("train", "test")
    },
}

# Arrays that have no business in a dataset.
ODD = [
    np.array(3),
    np.zeros(0),
    np.zeros((0, 4, 4)),
    np.full(6, np.nan),
    np.full((6, 4, 4), np.inf),
    np.full(6, 3e15),
    np.full(6, 3 * 10**15),
    np.full(6, 2**63, np.uint64),
    np.full(6, -(2**63)),
    np.arange(6) - 1,
    np.array(["é", "\ud800", "", "[/b]", "\x1b[31m", "a" * 300]),
    np.array([b"\xff", b"", b"a", b"b", b"c", b"d"]),
    np.ones(6, complex),
    np.ones(6, "M8[s]"),
    np.ones(6, [("a", int)]),
    np.ones((6, 6), np.longdouble),
    np.full((6, 4, 4), 1e300),
    np.ones((2, 3, 4, 5, 6)),
    np.array([2**31, 2**31]),
    np.array([0, 2**62]),
]


def damaged(rng, seeds):
    """Bytes of one of `seeds` with a few of them changed, cut, moved or replaced by edges."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        # Headers and directories are at the ends: they are hit as often as all the rest.
        place = rng.randrange(max(len(data), 1))
        near = rng.choice(("any", "any", "first", "last"))
        if near != "any":
            place = place % 200 if near == "first" else max(len(data) - 1 - place % 200, 0)
        _damage(rng, data, min(place, max(len(data) - 1, 0)), seeds)
    return bytes(data)


def damaged_inside(rng, seeds):
    """A sound zip of the members of one of `seeds`, one of them damaged."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(rng.choice(seeds))) as whole:
        names = whole.namelist()
        bad = rng.choice(names)
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names:
                data = whole.read(name)
                archive.writestr(name, damaged(rng, [data]) if name == bad else data)
    return buffer.getvalue()


def _damage(rng, data, place, seeds):
    how = rng.choice(("flip", "byte", "edge", "cut", "drop", "copy", "word", "splice"))
    if how == "flip" and data:
        data[place] ^= 1 << rng.randrange(8)
    elif how == "byte" and data:
        data[place] = rng.randrange(256)
    elif how == "edge":
        form = rng.choice(("<H", "<I", "<Q", ">H", ">I", ">Q"))
        size = struct.calcsize(form)
        data[place : place + size] = struct.pack(form, rng.choice(EDGES) % 256**size)
    elif how == "cut":
        del data[place:]
    elif how == "drop":
        del data[place : place + rng.randint(1, 40)]
    elif how == "copy":
        data[place:place] = data[place : place + rng.randint(1, 200)] * rng.randint(1, 3)
    elif how == "word":
        data[place : place + 1] = rng.choice(NUMBERS).encode()
    elif how == "splice":
        data[place:] = rng.choice(seeds)[place:]


def odd_archive(rng):
    """An .npz whose zip is sound, with arrays that are not what they should be."""
    arrays = rng.choice(list(NPZ.values()))
    buffer = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
    bad = rng.sample(sorted(arrays), rng.choice((1, 1, 2)) if len(arrays) > 1 else 1)
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, array in arrays.items():
            held, data = name, npy(array)
            how = rng.choice(("odd", "odd", "damaged", "gone", "short", "traversal"))
            if name in bad and how == "gone":
                continue
            if name in bad:
                data = npy(rng.choice(ODD)) if how == "odd" else npy(array[:-1])
                data = damaged(rng, [npy(array)]) if how == "damaged" else data
                held = f"../{name}" if how == "traversal" else name
            archive.writestr(f"{held}.npy", data)
    return buffer.getvalue()


def odd_header(rng):
    """An .npy with a body of 16 bytes, under a header of any shape and type."""
    shape = tuple(
        rng.choice((2, 2, 8, 0, *EDGES, -1, -(2**62), True, 1.5, "2", None))
        for _ in range(rng.randrange(5))
    )
    types = ("|i1", "|i1", "|b1", "<f8", ">f4", "<f2", "<f16", "|O", "<U4", "<U0", "|V9", "<M8[s]")
    types += ("|S2147483647", "<c16", "(9999999,)i1", [("a", "<i4")], 7, "<i\\d")
    fields = {"descr": rng.choice(types), "fortran_order": rng.choice((True, False, 1))}
    fields |= {"shape": shape} | rng.choice(({}, {}, {}, {"more": 1}, {"shape": 4}))
    text = repr(fields).encode("latin-1", "replace")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(range(16))
