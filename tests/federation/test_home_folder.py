"""Ledgers and locks of a home: only where nobody else can write, only undamaged."""

import pytest
from asking import signs

from hopfed.errors import BackendError, LocalError
from hopfed.hopfield.ledger import Ledger, Terms
from hopfed.neural.training.together import keep_compiled_at_home
from hopfed.tables.examples import as_examples


def charge(folder):
    return Ledger(folder).charge(as_examples(signs(60)), Terms(1.0, 1e-5))


def test_nothing_is_kept_where_others_can_write_or_a_link_leads_away(tmp_path, monkeypatch):
    place, linked, lost = (tmp_path / name for name in ("place", "linked", "lost"))
    place.mkdir()
    place.chmod(0o777)
    linked.symlink_to(place)
    lost.symlink_to(tmp_path / "gone")  # a disk that is not there
    for folder, words in ((place, "others own it"), (linked, "others own it"), (lost, "a link to")):
        with pytest.raises(LocalError, match=words):
            charge(folder)
    monkeypatch.setenv("HOPFED_HOME", str(place))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    with pytest.raises(BackendError, match="others own it or can write to it"):
        keep_compiled_at_home()
    assert not list(place.iterdir())
    place.chmod(0o700)  # one's own links are followed to one's own folders
    charge(linked)
    assert {path.stat().st_mode & 0o77 for path in place.iterdir()} == {0}
    (place / "lock").unlink()
    (place / "lock").symlink_to(tmp_path / "away")
    with pytest.raises(LocalError, match="cannot be used"):
        charge(place)
    assert not {"gone", "away"} & {path.name for path in tmp_path.iterdir()}
