"""Ledgers and locks of a home: only where nobody else can write, only undamaged."""

import pytest
from asking import signs

from hopfed.errors import BackendError, LocalError
from hopfed.hopfield.ledger import Ledger, Terms
from hopfed.neural.training.together import keep_compiled_at_home
from hopfed.tables.examples import as_examples


def charge(folder):
    return Ledger(folder).charge(as_examples(signs(60)), Terms(1.0, 1e-5))


def shared(folder):
    """Make a folder that other accounts can write to."""
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def test_a_home_on_a_disk_that_is_not_there_is_no_new_home(tmp_path):
    (tmp_path / "privacy").symlink_to(tmp_path / "gone")
    with pytest.raises(LocalError, match="a link to what is not there"):
        Ledger(tmp_path / "privacy")
    assert not (tmp_path / "gone").exists()


def test_nothing_is_compiled_in_a_home_that_others_can_write_to(tmp_path, monkeypatch):
    home = shared(tmp_path / "home")
    monkeypatch.setenv("HOPFED_HOME", str(home))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    with pytest.raises(BackendError, match="others own it or can write to it"):
        keep_compiled_at_home()
    assert not list(home.iterdir())
    home.chmod(0o700)
    (home / "compiled").symlink_to(away := shared(tmp_path / "compiled"))
    with pytest.raises(BackendError, match="others own it or can write to it"):
        keep_compiled_at_home()
    assert not list(away.iterdir())


def test_no_ledger_is_kept_where_others_can_write(tmp_path):
    place, linked = shared(tmp_path / "place"), tmp_path / "linked"
    linked.symlink_to(place)
    for folder in (place, linked):
        with pytest.raises(LocalError, match="others own it or can write to it"):
            charge(folder)
    assert not list(place.iterdir())
    place.chmod(0o700)  # one's own links are followed to one's own folders
    charge(linked)
    assert {path.stat().st_mode & 0o77 for path in place.iterdir()} == {0}


def test_no_lock_is_made_through_a_link(tmp_path):
    (tmp_path / "privacy").mkdir(mode=0o700)
    (tmp_path / "privacy" / "lock").symlink_to(tmp_path / "away")
    with pytest.raises(LocalError, match="cannot be used"):
        charge(tmp_path / "privacy")
    assert not (tmp_path / "away").exists()
