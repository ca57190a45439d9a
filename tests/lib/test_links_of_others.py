"""Outputs follow no link of somebody else, and take over no rights of an older file."""

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from hopfed._lib.outputs import check_writable, replacing
from hopfed.errors import ArgumentError, RunFileError


@pytest.mark.parametrize("through", ["rows.csv", "folder/rows.csv", "mine/rows.csv"])
def test_an_output_does_not_go_where_a_link_of_somebody_else_leads(tmp_path, monkeypatch, through):
    """Linux follows no such link in a folder for all; hopfed follows links before Linux does."""
    shared, home = tmp_path / "shared", tmp_path / "home"
    shared.mkdir()
    shared.chmod(0o1777)
    home.mkdir()
    (home / "rows.csv").write_text("precious")
    (shared / "rows.csv").symlink_to(home / "rows.csv")
    (shared / "folder").symlink_to(home)
    (tmp_path / "mine").symlink_to(shared)  # one's own link, to that of somebody else
    path = (tmp_path if through.startswith("mine") else shared) / through
    check_writable(path, "--out")  # one's own are followed
    real = Path.lstat

    def of_others(self):
        found = real(self)
        other = found.st_uid + (self.parent.resolve() == shared.resolve())
        return SimpleNamespace(st_mode=found.st_mode, st_uid=other)

    monkeypatch.setattr(Path, "lstat", of_others)
    with pytest.raises(ArgumentError, match="a link of somebody else"):
        check_writable(path, "--out")
    with pytest.raises(RunFileError), replacing(path) as temporary:
        temporary.write_text("rows")
    assert (home / "rows.csv").read_text() == "precious"
    shared.chmod(0o700)
    with replacing(path) as temporary:
        temporary.write_text("rows")
    assert (home / "rows.csv").read_text() == "rows"


def test_a_file_that_was_there_does_not_say_who_runs_the_new_one(tmp_path):
    path = tmp_path / "rows.csv"
    path.touch()
    path.chmod(0o4755)
    with replacing(path) as temporary:
        temporary.write_text("rows")
        assert stat.S_IMODE(os.stat(temporary).st_mode) == 0o755
