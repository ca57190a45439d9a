"""Attacks of another account of the machine: its links, and folders that it owns or can write to.

No file that is written goes where such a link leads.
"""

import os
from types import SimpleNamespace

import numpy as np
import pytest

from hopfed._lib.other_accounts import check_own
from hopfed._lib.outputs import check_folder, check_writable, replacing
from hopfed.errors import ArgumentError, RunFileError

LINK = "a link of somebody else"
# Rights of a folder, and whether another account owns it.
OPEN = [(0o777, False), (0o775, False), (0o1777, False), (0o755, True), (0o1777, True)]


@pytest.fixture
def theirs(monkeypatch):
    """Let files and links belong to another account, as far as this process can see."""
    held = {}

    def seen_by(real):
        def look(*arguments, **options):
            found = real(*arguments, **options)
            owner = held.get((found.st_dev, found.st_ino), found.st_uid)
            return os.stat_result((*found[:4], owner, *found[5:10]))

        return look

    def give(path, owner=None):
        found = lstat(path)
        held[found.st_dev, found.st_ino] = os.geteuid() + 1 if owner is None else owner
        return path

    lstat = os.lstat
    for name in ("stat", "lstat"):
        monkeypatch.setattr(os, name, seen_by(getattr(os, name)))
    return give


@pytest.fixture
def home(tmp_path):
    """A folder of one's own, with a file that is dear."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o755)
    (folder / "rows.csv").write_text("precious")
    return folder


def shared(tmp_path, mode=0o777):
    """A folder where others can leave links."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    return folder


def linked(place, to):
    place.symlink_to(to)
    return place


# Links


@pytest.mark.parametrize(("mode", "foreign"), OPEN)
@pytest.mark.parametrize("through", ["rows.csv", "folder/rows.csv", "folder/new/rows.csv"])
def test_no_link_of_others_is_followed_where_they_can_leave_one(
    tmp_path, home, theirs, mode, foreign, through
):
    folder = shared(tmp_path, mode)
    theirs(linked(folder / "rows.csv", home / "rows.csv"))
    theirs(linked(folder / "folder", home))
    (home / "new").mkdir()
    if foreign:
        theirs(folder)
    for path in (folder / through, linked(tmp_path / "mine", folder) / through):
        with pytest.raises(ArgumentError, match=LINK):
            check_writable(path, "--out")
        with pytest.raises(RunFileError, match=LINK), replacing(path) as temporary:
            temporary.write_text("rows")
        if through != "rows.csv":
            with pytest.raises(ArgumentError, match=f"--keep must be .*{LINK}"):
                check_folder(path.parent, "--keep")
    assert (home / "rows.csv").read_text() == "precious"
    assert sorted(os.listdir(home)) == ["new", "rows.csv"]
    assert not list((home / "new").iterdir())


def test_a_file_that_was_there_does_not_say_who_runs_the_new_one(tmp_path):
    path = tmp_path / "rows.csv"
    path.touch()
    path.chmod(0o4755)
    with replacing(path) as temporary:
        temporary.write_text("rows")
        assert os.stat(temporary).st_mode & 0o7777 == 0o755


@pytest.mark.parametrize(("mode", "foreign"), OPEN)
def test_links_of_ones_own_and_of_root_are_followed(tmp_path, home, theirs, mode, foreign):
    folder = shared(tmp_path, mode)
    linked(folder / "mine", home)
    theirs(linked(folder / "system", "mine"), owner=0)
    if foreign:
        theirs(folder)
    path = folder / "system" / ".." / "home" / "rows.csv"
    check_writable(path, "--out")
    assert check_folder(folder / "system" / "new") == home.resolve() / "new"
    with replacing(path) as temporary:
        temporary.write_text("rows")
    assert (home / "rows.csv").read_text() == "rows"


COMMANDS = """
recover x.csv --out shared/link/r.h5
theory mp --figure shared/link/f.png
run mp --preset quick --out shared/link/run.h5
sweep mp --preset quick --grid N=40 --out shared/link
certs shared/link --clients 1
fl run fedavg --clients 2 --rounds 1 --models mlp:4 --keep shared/link
run fl --preset quick --set models=mlp:4 --set keep=shared/link
"""


@pytest.mark.parametrize("line", COMMANDS.strip().splitlines())
def test_no_command_writes_where_a_link_of_others_leads(
    hopfed, tmp_path, home, theirs, monkeypatch, line
):
    if "mlp" in line:
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("1,0,1,1\n0,1,1,0\n" * 25)
    theirs(linked(shared(tmp_path) / "link", home))
    assert LINK in hopfed.refused(*line.split())
    assert [p.name for p in home.iterdir()] == ["rows.csv"]
    assert [p.name for p in (tmp_path / "shared").iterdir()] == ["link"]


def test_links_that_come_during_a_run_are_not_followed(tmp_path, home, theirs, monkeypatch):
    pytest.importorskip("torch")
    from hopfed.experiments.shared import kept_networks

    folder = shared(tmp_path)
    theirs(linked(folder / "link", home))
    config = SimpleNamespace(keep=str(folder / "link"), method="fedavg")
    arrays = {"validation": np.ones(2), "scored": np.ones(2, bool)}
    with pytest.raises(RunFileError, match=LINK):
        kept_networks.keep(config, 0, 0, arrays, None, None)
    assert [p.name for p in home.iterdir()] == ["rows.csv"]


# Folders


@pytest.mark.parametrize(("mode", "foreign"), OPEN)
def test_keys_are_made_in_no_folder_that_others_can_change(hopfed, tmp_path, theirs, mode, foreign):
    """Whoever can put other public keys there takes the place of clients."""
    folder = shared(tmp_path, mode)
    if foreign:
        theirs(folder)
    assert (
        "folder must be yours alone to write (others own it or can write to it)"
        in hopfed.refused("certs", folder, "--clients", 1)
    )
    assert not list(folder.iterdir())
    folder.chmod(0o755)
    theirs(folder, os.geteuid())
    assert hopfed("certs", folder, "--clients", 1)[0] == 0


def test_where_a_file_system_knows_no_owners_folders_are_taken(tmp_path, monkeypatch):
    """Such as that of a stick: whatever is made there, is shown as everybody's."""
    folder = shared(tmp_path)
    with pytest.raises(PermissionError):
        check_own(folder)
    real = os.fstat

    def everybodys(handle):
        found = real(handle)
        return os.stat_result((found.st_mode | 0o777, *found[1:10]))

    monkeypatch.setattr(os, "fstat", everybodys)
    check_own(folder)
    assert not list(folder.iterdir())
