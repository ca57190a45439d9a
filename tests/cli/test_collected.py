"""`hopfed fl collect`, `forget` and `admit` as a user runs them."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from hopfed.federation.contract import Context
from hopfed.neural.collected_sums import Collected

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


NOISY = (*SMALL, "--set", "epsilon=30")


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))


def test_noise_is_not_that_of_the_seed_in_the_file(hopfed, tmp_path, home):
    file = tmp_path / "private.h5"
    assert hopfed("fl", "collect", file, *NOISY)[0] == 0
    held = Collected.load(file)
    for client in held.members:
        bits, labels = held.method.bits_of(held.state, client, "train")
        for exchange in range(4):
            seeded = Context(held.method.task.seed, 0, exchange, client).rng("noise")
            guess = held.method.private.release(bits, labels, seeded)
            equal = (held.state[f"sent/{client}/counts"] == guess["counts"]).mean()
            assert equal < 0.9


def test_the_secret_of_the_noise_is_in_the_home_alone(hopfed, tmp_path, monkeypatch):
    files = [tmp_path / f"{i}.h5" for i in range(3)]
    for file, home in zip(files, ("one", "one", "other"), strict=True):
        monkeypatch.setenv("HOPFED_HOME", str(tmp_path / home))
        assert hopfed("fl", "collect", file, *NOISY)[0] == 0
    first, again, other = (file.read_bytes() for file in files)
    assert again == first
    assert other != first
    secret = (tmp_path / "one" / "privacy" / "secret").read_text().strip()
    assert bytes.fromhex(secret) not in first
    assert secret.encode() not in first


def test_noisy_sums_are_forgotten_and_admitted_to_the_bit(hopfed, tmp_path, home):
    one, other = tmp_path / "one.h5", tmp_path / "other.h5"
    assert hopfed("fl", "collect", one, *NOISY)[0] == 0
    assert hopfed("fl", "collect", other, *NOISY, "--without", "1")[0] == 0
    before = one.read_bytes()
    assert hopfed("fl", "forget", one, "1")[0] == 0
    assert one.read_bytes() == other.read_bytes()
    assert hopfed("fl", "admit", one, "1")[0] == 0
    assert one.read_bytes() == before


def test_what_each_client_gave_is_for_the_owner_of_the_file_alone(hopfed, tmp_path):
    file = tmp_path / "sums.h5"
    before = os.umask(0o022)
    try:
        assert hopfed("fl", "collect", file, *SMALL)[0] == 0
        assert file.stat().st_mode & 0o777 == 0o600
        file.chmod(0o644)  # as it was made before
        assert hopfed("fl", "forget", file, "1")[0] == 0
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600


SLOW = """
import sys, time
from hopfed.cli import main
from hopfed.neural.collected_sums import Collected
load = Collected.load
def waits(*arguments):
    held = load(*arguments)
    time.sleep(1)  # so that others load before this one saves
    return held
Collected.load = waits
main(sys.argv[1:])
"""


def test_of_two_that_change_a_file_at_once_neither_is_lost(hopfed, tmp_path):
    """Each saved what it had loaded, and so brought back whom the other had forgotten."""
    file = tmp_path / "sums.h5"
    hopfed("fl", "collect", file, *SMALL)
    words = (("forget", "1"), ("forget", "2"))
    command = [sys.executable, "-c", SLOW, "fl"]
    both = [subprocess.Popen([*command, act, str(file), who]) for act, who in words]
    assert [process.wait() for process in both] == [0, 0]
    assert Collected.load(file).members == [0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sums.h5"]


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
