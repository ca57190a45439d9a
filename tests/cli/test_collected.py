"""`hopfed fl collect`, `forget` and `admit` as a user runs them."""

import pytest

pytest.importorskip("torch", reason="torch is not installed")

SMALL = ("--clients", "3", "--set", "filters=4", "--set", "fields=1")


def test_who_is_forgotten_was_never_there(hopfed, tmp_path):
    one, other = tmp_path / "one.h5", tmp_path / "other.h5"
    status, text, err = hopfed("fl", "collect", one, *SMALL)
    assert (status, err) == (0, "")
    assert "clients in the sums: 0, 1, 2" in text
    assert "not exact" not in text
    assert hopfed("fl", "collect", other, *SMALL, "--without", "1")[0] == 0
    before = one.read_bytes()
    assert hopfed("fl", "forget", one, "1")[0] == 0
    assert one.read_bytes() == other.read_bytes()
    assert hopfed("fl", "admit", other, "1")[0] == 0
    assert other.read_bytes() == before
    assert hopfed("show", one)[0] == 0


def test_a_trace_that_stays_is_told_in_one_line(hopfed, tmp_path):
    file = tmp_path / "sums.h5"
    hopfed("fl", "collect", file, *SMALL, "--set", "bits=pooled")
    status, text, _ = hopfed("fl", "forget", file, "2")
    assert status == 0
    assert text.splitlines()[-1].startswith("not exact: filters and thresholds")


def test_mistakes_are_one_line_and_lose_nothing(hopfed, tmp_path):
    file = tmp_path / "sums.h5"
    hopfed("fl", "collect", file, *SMALL, "--without", "0")
    before = file.read_bytes()
    for words in (
        ("forget", file, "0"),
        ("admit", file, "1"),
        ("admit", file, "3"),
        ("forget", tmp_path / "none.h5", "0"),
        ("collect", file, *SMALL, "--set", "choose=all"),
        ("collect", file, *SMALL, "--without", "x"),
    ):
        status, text, err = hopfed("fl", *words)
        assert (status, text) == (2, "")
        assert len(err.strip().splitlines()) == 1 or "Usage" in err
    assert file.read_bytes() == before
