"""Files of many kinds, made here: all hold one table."""

import bz2
import gzip
import importlib
import json
import lzma
import struct
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, orc, parquet

import hopfed
from hopfed.errors import BackendError, DataError
from hopfed.kernels import unpack
from hopfed.tables.choosing import Choices
from hopfed.tables.reading import _parts_of, read_tables

pandas = pytest.importorskip("pandas", reason="pandas is not installed")
ROWS = 40
CELLS = {
    "id": [f"p{k}" for k in range(ROWS)],
    "tea": ["yes", "no", None, "no"] * 10,
    "tree": ["oak", "ash", "yew", "oak", "ash"] * 8,
    "kg": [0.5, 70.25, None, 80.0] * 10,
    "sex": [1, 2] * 20,
}
LABELS = {"sex": {1: "male", 2: "female"}}
CSV = pandas.DataFrame(CELLS).to_csv(index=False)


def frame():
    return pandas.DataFrame(CELLS)


def packed(path, **kinds):
    with kinds["open"](path, "wb") as file:
        file.write(CSV.encode())


def zipped(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", CSV)


def records(path):
    rows = [dict(zip(CELLS, row, strict=True)) for row in zip(*CELLS.values(), strict=True)]
    lines = "\n".join(map(json.dumps, rows))
    path.write_text(lines if path.suffix == ".jsonl" else json.dumps({"rows": rows, "n": ROWS}))


def folder(path):
    path.mkdir()
    table = pa.table(CELLS)
    parquet.write_table(table.slice(0, 15), path / "1.parquet")
    parquet.write_table(table.slice(15).select([4, 3, 2, 1, 0]), path / "2.parquet")


def study(name, **more):
    def write(path):
        module = pytest.importorskip("pyreadstat", reason="pyreadstat is not installed")
        getattr(module, f"write_{name}")(frame(), str(path), **more)

    return write


def book(engine):
    def write(path):
        pytest.importorskip("python_calamine", reason="python-calamine is not installed")
        pytest.importorskip(engine, reason=f"{engine} is not installed")
        with pandas.ExcelWriter(path, engine=engine) as sheets:
            pandas.DataFrame({"about": ["a survey"]}).to_excel(sheets, sheet_name="Read me")
            frame().to_excel(sheets, sheet_name="Data", index=False, startrow=3)
            frame()[:4].to_excel(sheets, sheet_name="May", index=False)

    return write


MADE = {
    "a.csv": lambda path: path.write_text(CSV),
    "a.txt": lambda path: path.write_text(CSV.replace(",", "\t")),
    "spaces.dat": lambda path: path.write_text(CSV.replace(",,", ",?,").replace(",", "   ")),
    "bar.csv": lambda path: path.write_text(CSV.replace(",", "|")),
    "title.csv": lambda path: path.write_text("Survey 2020\n# by hand\n\n" + CSV),
    "sep.csv": lambda path: path.write_text("sep=;\n" + CSV.replace(",", ";")),
    "comma.csv": lambda path: path.write_text(CSV.replace(",", ";").replace(".", ",")),
    "ends.csv": lambda path: path.write_text(CSV.replace("\n", ",,\n").replace("sex,,", "sex")),
    "bom.csv": lambda path: path.write_text(CSV, encoding="utf-8-sig"),
    "utf16le.csv": lambda path: path.write_text(CSV, encoding="utf-16-le"),
    "utf16.csv": lambda path: path.write_text(CSV, encoding="utf-16"),
    "a.csv.gz": lambda path: packed(path, open=gzip.open),
    "a.csv.bz2": lambda path: packed(path, open=bz2.open),
    "a.csv.xz": lambda path: packed(path, open=lzma.open),
    "a.csv.zst": lambda path: packed(path, open=lambda p, _: pa.CompressedOutputStream(p, "zstd")),
    "a.csv.zip": zipped,
    "a.json": records,
    "a.jsonl": records,
    "columns.json": lambda path: path.write_text(json.dumps(CELLS)),
    "a.parquet": lambda path: parquet.write_table(pa.table(CELLS), path),
    "a.feather": lambda path: feather.write_feather(pa.table(CELLS), path),
    "a.orc": lambda path: orc.write_table(pa.table(CELLS), path),
    "parts": folder,
    "a.sav": study("sav"),
    "a.zsav": study("sav", compress=True),
    "a.dta": study("dta"),
    "a.xpt": study("xport"),
    "a.por": study("por"),
    "a.xlsx": book("openpyxl"),
    "a.ods": book("odf"),
}


@pytest.mark.parametrize("name", MADE)
def test_every_kind_of_file_holds_the_table(tmp_path, name):
    MADE[name](tmp_path / name)
    choices = Choices(binarize={"kg" if name != "a.por" else "KG": 60})
    [table] = read_tables([tmp_path / name], choices=choices)
    names = [column.lower() for column in table.columns]
    assert names == ["tea", "tree=ash", "tree=oak", "tree=yew", "kg", "sex"]
    assert table.ids.tolist() == CELLS["id"]
    rows = unpack(table.held)
    assert rows[:4].tolist() == [
        [1, -1, 1, -1, -1, -1],
        [-1, 1, -1, -1, 1, 1],
        [0, -1, -1, 1, 0, -1],
        [-1, -1, 1, -1, 1, 1],
    ]
    assert np.array_equal(rows[20:24, [0, 4, 5]], rows[:4, [0, 4, 5]])


@pytest.mark.parametrize(("name", "kind"), [("a.sav", "sav"), ("a.dta", "dta")])
def test_values_are_read_by_their_labels(tmp_path, name, kind):
    study(kind, variable_value_labels=LABELS)(tmp_path / name)
    table = hopfed.read_table(tmp_path / name, ignore=["kg"])
    assert table.columns[-1] == "sex=male"
    assert unpack(table.held)[:2, -1].tolist() == [1, -1]
    assert "1 column(s) are read by the labels of their values" in table.notes


def test_declared_missing_values_are_gaps(tmp_path):
    module = pytest.importorskip("pyreadstat", reason="pyreadstat is not installed")
    cells = frame()[["id", "sex"]].assign(sex=[1, 2, 9, 1] * 10)
    labels = {"sex": {1: "male", 2: "female", 9: "refused"}}
    module.write_sav(
        cells, str(tmp_path / "a.sav"), variable_value_labels=labels, missing_ranges={"sex": [9]}
    )
    assert unpack(hopfed.read_table(tmp_path / "a.sav").held)[:4, 0].tolist() == [1, -1, 0, 1]


@pytest.mark.parametrize(
    ("sought", "written"),
    [
        ((2, 0, 0, 0), (2, 255, 0, 0)),  # of a number
        ((2, -1), (2, 9)),  # of the bytes of a name
        ((4, 1), (4, 99)),  # more labels than there are bytes
        ((4, 1, 4), (4, 1, 77)),
    ],
)
def test_a_damaged_dictionary_of_spss_ends_no_program(tmp_path, sought, written):
    """ReadStat crashed, and the program with it, where records contradict each other."""
    module = pytest.importorskip("pyreadstat", reason="pyreadstat is not installed")
    cells = pandas.DataFrame({"name": ["a" * 20, "b"], "sex": [1.0, 2.0]})
    path = tmp_path / "a.sav"
    module.write_sav(cells, str(path), variable_value_labels=LABELS)
    data, old = path.read_bytes(), struct.pack(f"<{len(sought)}i", *sought)
    assert old in data
    path.write_bytes(data.replace(old, struct.pack(f"<{len(written)}i", *written), 1))
    with suppress(DataError):
        hopfed.read_table(path)


def test_a_damaged_file_of_orc_ends_no_program(tmp_path):
    """Its reader crashed, and the program with it; with other releases the byte may be harmless."""
    path = tmp_path / "a.orc"
    MADE["a.orc"](path)
    data = bytearray(path.read_bytes())
    data[359] = 123
    path.write_bytes(data)
    with suppress(DataError):
        hopfed.read_table(path, ignore="kg")


def test_a_sheet_is_named_behind_a_colon(tmp_path):
    book("openpyxl")(tmp_path / "a.xlsx")
    assert hopfed.read_table(tmp_path / "a.xlsx:May", ignore="kg").shape == (4, 5)
    with pytest.raises(DataError, match="no sheet 'June'; there are 'Read me', 'Data', 'May'"):
        hopfed.read_table(tmp_path / "a.xlsx:June")
    notes = hopfed.read_table(tmp_path / "a.xlsx", ignore="kg").notes
    assert notes[0] == "sheet 'Data' was read, of 'Read me', 'Data', 'May' (--sheet)"


WORDS = {
    "cp1252": "id;Straße;Müsli\nJürgen;ja;nein\nKäthe;nein;ja\nRoß;ja;ja\n",
    "cp1250": "id;herbata;źródło\nŁukasz;tak;nie\nŚwięto;nie;tak\nŻółć;tak;tak\n",
    "cp1251": "имя;чай;дерево\nАнна;да;дуб\nИван;нет;ясень\n",
    "cp1253": "όνομα;τσάι\nΓιάννης;ναι\nΕλένη;όχι\n",
    "cp932": "名前;お茶;木\n太郎;はい;樫\n花子;いいえ;松\n",
    "gb18030": "姓名;茶;树\n张三;是;橡树\n李四;否;松树\n",
}


@pytest.mark.parametrize("encoding", WORDS)
def test_national_encodings_are_found_and_said(tmp_path, encoding):
    pytest.importorskip("chardet", reason="chardet is not installed")
    head, *rows = WORDS[encoding].splitlines()
    text = "\n".join([head, *rows * 12])
    (tmp_path / "a.csv").write_text(text, encoding=encoding)
    table = hopfed.read_table(tmp_path / "a.csv", id="")
    names = {column.partition("=")[0] for column in table.columns}
    assert names == set(head.split(";"))
    assert any(line.startswith("read as ") for line in table.notes)


@pytest.mark.parametrize(
    ("module", "name"),
    [("python_calamine", "a.xlsx"), ("pyreadstat", "a.sav"), ("chardet", "a.csv")],
)
def test_what_an_extra_brings_is_said_where_it_is_absent(tmp_path, monkeypatch, module, name):
    (tmp_path / name).write_bytes("größe,b\n1,0\n0,1\n".encode("latin-1"))
    monkeypatch.setitem(sys.modules, module, None)
    importlib.invalidate_caches()
    with pytest.raises(BackendError, match=r"pip install 'hopfed\[files\]'"):
        hopfed.read_table(tmp_path / name)


def test_a_file_of_commas_is_refused_at_once(tmp_path):
    for text in ("," * 5_000_000, ("," * 5_000_000 + "\n") * 3):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(DataError, match="5,000,001 columns are more than the 2,000,000"):
            hopfed.read_table(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text(",,,\n,,,\n")
    with pytest.raises(DataError, match="there is nothing in its first rows"):
        hopfed.read_table(tmp_path / "a.csv")


def test_a_plain_archive_of_two_files_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.csv.zip", "w") as archive:
        archive.writestr("a.csv", CSV)
        archive.writestr("b.csv", CSV)
    with pytest.raises(DataError, match="one file is needed in it, there are 2"):
        hopfed.read_table(tmp_path / "a.csv.zip")


def test_frames_that_hold_no_rows_yet_are_collected():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    table = hopfed.read_table(polars.LazyFrame(CELLS), ignore="kg")
    assert table.columns == hopfed.read_table(CELLS, ignore="kg").columns


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("given", ["sent", "sent/*.csv", "sent/**/*.csv"])
def test_a_folder_of_tables_leads_to_no_other_file(here, given):
    (here / "sent").mkdir()
    (here / "private").mkdir()
    for path in ("sent/a.csv", "private/b.csv"):
        Path(path).write_text("tea,ale\nyes,no\nno,no\n")
    assert [label for _, label in _parts_of(given)] == ["sent/a.csv"]
    (here / "sent" / "b.csv").symlink_to("a.csv")
    assert len(_parts_of(given)) == 2
    (here / "sent" / "b.csv").unlink()
    (here / "sent" / "b.csv").symlink_to("../private/b.csv")
    with pytest.raises(DataError, match="a link that leads out of"):
        _parts_of(given)
