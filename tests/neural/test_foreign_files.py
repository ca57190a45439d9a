"""Files of networks of users: as modules of their own, which leave the process as it was."""

import pickle
import sys

import pytest

torch = pytest.importorskip("torch", reason="needs the extra neural")

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.neural.models.architectures import Shape  # noqa: E402
from hopfed.neural.models.networks import make  # noqa: E402

SHAPE = Shape(channels=4, size=1, classes=2)
NET = """
import torch

class Net(torch.nn.Linear):
    said = {said!r}

    def __init__(self):
        super().__init__(4, 2)
"""


def net(folder, said="", before=""):
    """Make the network of a file in `folder`, which does `before` first."""
    folder.mkdir(exist_ok=True)
    (folder / "net.py").write_text(before + NET.format(said=said))
    return make(f"{folder / 'net.py'}:Net", SHAPE)


def test_networks_of_files_of_one_name_are_pickled(tmp_path):
    models = [net(tmp_path / name, name) for name in ("one", "two")]
    again = pickle.loads(pickle.dumps(models))
    assert [model.said for model in again] == ["one", "two"]


@pytest.mark.parametrize("first", [True, False])
def test_folders_that_a_file_adds_stay_and_its_own_goes(tmp_path, monkeypatch, first):
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = list(sys.path)
    net(tmp_path, before=f"import sys; sys.path.insert({0 if first else len(before)}, 'added')")
    assert sorted(sys.path) == sorted([*before, "added"])


@pytest.mark.parametrize("line", ["import sys; del sys.path[0]", "import helper", ""])
def test_the_path_of_modules_is_as_before(tmp_path, line):
    before = list(sys.path)
    (tmp_path / "helper.py").touch()
    net(tmp_path, before=line)
    assert sys.path == before


def test_a_file_that_fails_leaves_its_folder_out(tmp_path):
    before = list(sys.path)
    with pytest.raises(ArgumentError, match="ZeroDivisionError"):
        net(tmp_path, before="1 / 0")
    assert sys.path == before
