"""A folder of tables leads to no file outside of it."""

from pathlib import Path

import pytest

from hopfed.errors import DataError
from hopfed.tables.partitions import _parts_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("given", ["sent", "sent/*.csv", "sent/**/*.csv"])
def test_a_folder_of_tables_leads_to_no_other_file(folder, given):
    (folder / "sent").mkdir()
    (folder / "private").mkdir()
    for path in ("sent/a.csv", "private/b.csv"):
        Path(path).write_text("tea,ale\nyes,no\nno,no\n")
    assert [part.what for part in _parts_of(given)] == ["sent/a.csv"]
    (folder / "sent" / "b.csv").symlink_to("a.csv")
    assert len(_parts_of(given)) == 2
    (folder / "sent" / "b.csv").unlink()
    (folder / "sent" / "b.csv").symlink_to("../private/b.csv")
    with pytest.raises(DataError, match="a link that leads out of"):
        _parts_of(given)
