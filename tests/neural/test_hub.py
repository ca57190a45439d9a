"""Datasets of the hub, from tables as the `datasets` library gives them."""

import sys
import types

import pytest
from PIL import Image

from hopfed.errors import ArgumentError, BackendError, DataError
from hopfed.neural.data import load
from hopfed.neural.data.text import VOCABULARY


class Table:
    """What is used of a table of the `datasets` library."""

    def __init__(self, columns, names=()):
        self.columns = columns
        self.column_names = list(columns)
        kinds = {name: types.SimpleNamespace() for name in columns}
        self.features = kinds | {k: types.SimpleNamespace(names=v) for k, v in dict(names).items()}

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, column):
        return iter(self.columns[column])

    def iter(self, batch_size):
        for start in range(0, len(self), batch_size):
            yield {k: v[start : start + batch_size] for k, v in self.columns.items()}


def pictures(n, mode="RGB", size=(4, 4)):
    return [Image.new(mode, size, k if mode == "L" else (k, 0, 0)) for k in range(n)]


def fake(monkeypatch, tables):
    def load_dataset(path, split):
        if (path, split) not in tables:
            raise ConnectionError("no network\nand more")
        return tables[path, split]

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))


def test_hub_with_a_published_split(monkeypatch):
    names = {"label": list("0123456789")}
    train = Table({"image": pictures(3, "L"), "label": [5, 0, 4]}, names)
    test = Table({"image": pictures(2, "L"), "label": [7, 2]}, names)
    fake(monkeypatch, {("ylecun/mnist", "train"): train, ("ylecun/mnist", "test"): test})
    data = load("hub:mnist")
    assert data.inputs[:, 0, 0, 0].tolist() == [0, 1, 2, 0, 1]
    assert data.labels.tolist() == [5, 0, 4, 7, 2]
    assert data.train.tolist() == [True, True, True, False, False]
    assert (data.shape, data.classes) == ((1, 4, 4), 10)
    assert load("hub:mnist", size=2).shape == (1, 2, 2)


def test_hub_with_superclasses(monkeypatch):
    columns = {"img": pictures(4), "fine_label": [0, 1, 2, 1], "coarse_label": [1, 0, 1, 0]}
    table = Table(columns, {"fine_label": ["a", "b", "c"]})
    fake(monkeypatch, {("uoft-cs/cifar100", split): table for split in ("train", "test")})
    data = load("hub:cifar100")
    assert data.coarse.tolist() == [1, 0, 1]
    assert data.inputs[:, 0, 0, 0].tolist() == [0, 1, 2, 3] * 2


def test_hub_by_writer_and_by_domain(monkeypatch):
    columns = {"image": pictures(3, "L"), "writer_id": ["f2", "f1", "f2"], "character": [0, 9, 9]}
    femnist = Table(columns, {"character": list("0123456789")})
    columns = {"image": pictures(1) + pictures(1, size=(9, 5)), "domain": ["art", "photo"]}
    pacs = Table(columns | {"label": [0, 1]}, {"label": ["dog", "elephant"]})
    tables = {("flwrlabs/femnist", "train"): femnist, ("flwrlabs/pacs", "train"): pacs}
    fake(monkeypatch, tables)
    data = load("hub:femnist")
    assert data.writer.tolist() == [1, 0, 1]
    assert data.train is None
    data = load("hub:pacs")
    assert data.shape == (3, 64, 64)
    assert data.domain_names == ("art", "photo")


def test_hub_texts(monkeypatch):
    line = "To be, or not to be".rjust(80)
    columns = {"character_id": ["HAMLET"] * 2, "x": [line, line[1:] + ","], "y": [",", "\n"]}
    fake(monkeypatch, {("flwrlabs/shakespeare", "train"): Table(columns)})
    data = load("hub:shakespeare")
    assert "".join(VOCABULARY[c] for c in data.inputs[1]) == line[1:] + ","
    assert data.group.tolist() == [0, 0]
    assert [VOCABULARY[k] for k in data.labels] == [",", "\n"]


def test_hub_faults(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BackendError, match=r"hub:pacs needs the datasets library: pip install"):
        load("hub:pacs")
    table = Table({"image": pictures(2), "lable": [0, 1]})
    ragged = Table({"image": pictures(1) + pictures(1, size=(5, 4)), "label": [0, 1]})
    tables = {("flwrlabs/office-home", "train"): table}
    tables |= {("zh-plus/tiny-imagenet", split): ragged for split in ("train", "valid")}
    fake(monkeypatch, tables)
    with pytest.raises(DataError, match="no column label in flwrlabs/office-home, only image,"):
        load("hub:office-home")
    with pytest.raises(DataError, match="row 1: images of differing size"):
        load("hub:tiny-imagenet")
    with pytest.raises(BackendError, match=r"uoft-cs/cifar10 cannot be loaded: no network$"):
        load("hub:cifar10")
    with pytest.raises(ArgumentError, match="did you mean hub:cifar10"):
        load("hub:cifar11")
