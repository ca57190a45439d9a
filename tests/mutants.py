"""Sound files of every kind that hopfed reads, and ways to damage them, for the fuzz tests."""

import io
import zipfile

import h5py
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image
from tables.test_formats import MADE

from hopfed.runs import Run

RNG = np.random.default_rng(7)
ROWS = RNG.integers(0, 2, (12, 9)).astype(np.int8)
IMAGES = RNG.integers(0, 256, (6, 4, 4), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2])
PARTS = np.array(["train", "test", "val", "train", "test", "val"])

# Words and numbers at which readers, lengths, offsets and counts break.
WORDS = ("", "nan", "inf", "-inf", "1e400", "-1", "0x1", "1_0", "²", "１", "9" * 11, "1" * 400)
WORDS += ("0", "1", "2", "0.5", " 1", "--", "#", '"', "é", "[/b]", "\x1b[31m")
EDGES = [word.encode() for word in (*WORDS, "\0")] + [
    number.to_bytes(size, order)
    for size in (1, 2, 4, 8)
    for order in ("little", "big")
    for number in (0, 1, 127, 1 << 8 * size - 1, (1 << 8 * size) - 1)
]
TYPES = ("|i1", "|b1", "<f8", ">f4", "<f2", "<f16", "|O", "<U4", "<U0", "|V9", "<M8[s]", "<c16")
TYPES += ("|S2147483647", "(9999999,)i1", [("a", "<i4")], 7, "<i\\d")
SIDES = (2, 8, 0, 127, 2**31, 2**40, 2**62, 2**63, 2**64 - 1, -1, -(2**62), True, 1.5, "2", None)


def _array(array):
    return lambda path: np.save(path, array)


def _arrays(**arrays):
    return lambda path: np.savez_compressed(path, **arrays)


def _hdf5(name, data, **more):
    def write(path):
        with h5py.File(path, "w") as file:
            file.create_dataset(name, data=data, **more)

    return write


def _sheets(path):
    buffer = io.BytesIO()
    Image.fromarray(RNG.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(buffer, "JPEG")
    data = np.frombuffer(buffer.getvalue(), np.uint8)
    held = {"jpeg": data, "offsets": np.array([0, len(data)]), "tile": np.array([2, 4])}
    np.savez(path, labels=np.arange(4), **held)


def _pictures(path):
    for name, mode in (
        ("photo/dog/a.png", "RGB"),
        ("photo/cat/a.jpg", "L"),
        ("art/dog/a.png", "P"),
    ):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(IMAGES[0]).convert(mode).save(path / name)


def _clients(path):
    for client in ("ann", "bob"):
        (path / client).mkdir(parents=True)
        for part in ("train", "test"):
            np.savez(path / client / part, x=IMAGES, y=LABELS)


# Name -> function that writes the file, or the folder, there.
SOUND = MADE | {
    "signs.npy": _array(2.0 * ROWS - 1),
    "turned.npy": _array(np.asfortranarray(ROWS.astype(">i4"))),
    "examples.npz": _arrays(examples=ROWS, labels=np.arange(12)),
    "images.npz": _arrays(
        images=IMAGES / 255, labels=LABELS, class_names=np.array(["a", "b", "c"]), split=PARTS,
        coarse_labels=LABELS > 0, domain=PARTS, writer=LABELS, writer_names=PARTS[:3],
    ),
    "sheets.npz": _sheets,
    "speeches.npz": _arrays(
        text=np.frombuffer(b"Speak, speak. Resolved.", np.uint8), start=np.array([0, 14]),
        end=np.array([13, 23]), labels=np.array(["a", "b"]),
    ),
    "silhouettes.npz": _arrays(
        images=(IMAGES > 99).astype(np.uint8), labels=LABELS, split=np.array(["train"] * 6),
        class_names=np.array(["anchor", "bass", "cup"]),
    ),
    "whole.h5": _hdf5("examples", ROWS),
    "packed.h5": _hdf5("a/b", ROWS, chunks=(4, 4), maxshape=(None, 9), compression="gzip"),
    "run.h5": Run("serve", {"clients": 3}, {"patterns": ROWS}, {"gap": [0.1, 2]}, {}, 1, 2).save,
    "pictures": _pictures,
    "clients": _clients,
}  # fmt: skip


@st.composite
def scrambled(draw, data):
    """Bytes of which a few are cut, doubled, moved or replaced by edges."""
    held = bytearray(data)
    for _ in range(draw(st.sampled_from((1, 1, 2, 4)))):
        # Headers and directories are at the ends: they are hit as often as all the rest.
        far = draw(st.integers(0, draw(st.sampled_from((len(held), min(len(held), 200))))))
        at = draw(st.sampled_from((far, len(held) - far)))
        size = draw(st.sampled_from((0, 1, 1, 4, 8, 40, len(held))))
        piece = bytes(held[at : at + size])
        new = (st.sampled_from(EDGES), st.binary(max_size=8), st.sampled_from((b"", 2 * piece)))
        held[at : at + size] = draw(st.one_of(new))
    return bytes(held)


@st.composite
def archives(draw, data):
    """A sound zip of the members of another, one of which is damaged, renamed or left out."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as whole,
        zipfile.ZipFile(buffer, "w", draw(st.sampled_from((0, 8, 14)))) as archive,
    ):
        bad = draw(st.sampled_from(whole.namelist()))
        for name in whole.namelist():
            if name != bad:
                archive.writestr(name, whole.read(name))
            elif how := draw(st.sampled_from(("damaged", "damaged", "renamed", ""))):
                renamed = how == "renamed"
                held = whole.read(name)
                archive.writestr("../" * renamed + name, held if renamed else draw(damaged(held)))
    return buffer.getvalue()


def _saved(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _headed(header):
    """An .npy with a body of 16 bytes, under a header of any shape and type."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + bytes(range(16))


SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6)
DTYPES = hnp.scalar_dtypes() | hnp.unicode_string_dtypes() | hnp.byte_string_dtypes()
ARRAYS = hnp.arrays(DTYPES | st.just(np.dtype([("a", "i4")])), SHAPES)
HEADERS = st.fixed_dictionaries({
    "descr": st.sampled_from(TYPES),
    "fortran_order": st.booleans(),
    "shape": st.lists(st.sampled_from(SIDES), max_size=4).map(tuple),
})  # fmt: skip


def damaged(data):
    """Strategy of what may become of the bytes of a file."""
    if data.startswith(b"\x93NUMPY"):
        return scrambled(data) | ARRAYS.map(_saved) | HEADERS.map(_headed)
    if data.startswith(b"PK"):
        return scrambled(data) | archives(data)
    return scrambled(data)
