"""Files that are written: whole or not at all, and as private as asked."""

import errno
import os
import stat
from contextlib import suppress

import click
import numpy as np
import pytest

from hopfed._lib import outputs
from hopfed._lib.outputs import remove_leftovers, replacing
from hopfed.cli.options import set_files_aside
from hopfed.errors import RunFileError
from hopfed.runs import Run


@pytest.fixture
def path(tmp_path):
    Run("toy", {}, {"x": np.zeros(3)}, {}).save(tmp_path / "run.h5")
    return tmp_path / "run.h5"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("lost", [None, "before", "after"])
def test_what_begins_anew_is_gone_only_once_there_is_something_new(path, lost):
    """A run that fails before its first result leaves the one before; without --overwrite all."""
    (path.parent / "seed-0").mkdir()
    before, context = path.read_bytes(), click.Context(click.Command("toy"))
    context.meta["overwrite"] = True
    with context, suppress(ZeroDivisionError), set_files_aside(path, path.parent / "seed-0", None):
        assert os.path.exists(path) is False
        if lost == "before":
            raise ZeroDivisionError
        path.write_text("new")
        if lost == "after":
            raise ZeroDivisionError
    assert path.read_bytes() == (before if lost == "before" else b"new")
    assert sorted(os.listdir(path.parent)) == ["run.h5", *["seed-0"] * (lost is not None)]
    with set_files_aside(path):
        assert path.exists()


def test_files_have_the_modes_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        for name, first, then, kept in (
            ("page.html", 0o640, 0o604, 0o604), ("secret", 0o600, 0o644, 0o600),
        ):  # fmt: skip
            with replacing(tmp_path / name, private=name == "secret") as temporary:
                temporary.write_text("all")
            assert mode(tmp_path / name) == first
            (tmp_path / name).chmod(then)
            with replacing(tmp_path / name, private=name == "secret", durable=True) as temporary:
                temporary.write_text("again")
            assert mode(tmp_path / name) == kept  # as its owner left it, but for what is private
    finally:
        os.umask(before)


def test_a_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link.txt").symlink_to("there/file.txt")
    for words in ("first", "second"):
        with replacing(tmp_path / "link.txt") as temporary:
            temporary.write_text(words)
        assert (tmp_path / "link.txt").is_symlink()
        assert (tmp_path / "there" / "file.txt").read_text() == words
    assert os.listdir(tmp_path / "there") == ["file.txt"]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_while_writing_leaves_the_old_file(path, error):
    before = path.read_bytes()
    with pytest.raises(error), replacing(path) as temporary:  # noqa: PT012
        temporary.write_bytes(b"half")
        raise error
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("step", ["open", "fsync", "replace", "chmod"])
def test_a_disk_that_is_full_at_any_step(path, monkeypatch, step):
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(outputs.os, step, full)
    with pytest.raises(RunFileError, match=r"run.h5: cannot be written: No space left on device"):
        Run("toy", {}, {}, {}).save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_leftovers_of_a_killed_writer_are_removed_and_nothing_else(path):
    made = []
    for each in (path, path.with_name("run-2.h5"), path.with_name("x" * 250)):
        with replacing(each) as temporary:
            made.append(temporary)
    for left in made:
        left.touch()
    remove_leftovers(path)
    assert [left.exists() for left in made] == [False, True, True]
    assert path.exists()
