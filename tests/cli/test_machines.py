"""`hopfed certs`, `serve` and `join`: what they print, and what they refuse in one line."""

import numpy as np
import pytest

from hopfed._lib.random import stream
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.privacy_ledger import Ledger, Terms
from hopfed.kernels.examples import as_examples


@pytest.fixture
def examples(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    rng = stream(0, "cli machines")
    np.save(tmp_path / "museum.npy", draw_examples(rademacher(2, 60, rng), 200, 0.6, rng)[0])
    return tmp_path / "museum.npy"


def test_a_home_or_a_key_that_cannot_be_used_is_one_line_before_anything_is_sent(
    hopfed, examples, tmp_path, monkeypatch
):
    keys = tmp_path / "keys"
    text, _ = hopfed.done("certs", keys, "--clients", 1, "--host", "server.example")
    assert ("wrote 3 files" in text, "client-N.key" in text) == (True, True)
    key = keys / "client-0.key"
    where = ("--ca", keys / "ca.pem", "--key", key, "--patience", "0.1")
    join = ("join", "--data", examples, "--server", "127.0.0.1:9", "--epsilon", "1", *where)
    for home in (examples, examples / "below", "/proc/none"):
        monkeypatch.setenv("HOPFED_HOME", str(home))
        assert "privacy: cannot be used" in hopfed.refused(*join)
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    key.chmod(0o644)
    assert "others can read this key (mode 644)" in hopfed.refused(*join)
    assert not (tmp_path / "home").exists()
    assert "without certificates and keys" in hopfed.refused("certs", keys, "--clients", 1)
    held = key.stat().st_ino
    hopfed.done("certs", keys, "--clients", 1, "--overwrite")
    assert key.stat().st_ino != held


def test_a_dry_run_says_first_what_matters(hopfed, examples, tmp_path):
    given = "join", "--data", examples, "--dry-run"
    for options, words in (
        (("--trust-server",), "can learn single rows of yours"),
        (("--epsilon", "2"), "what epsilon 2 and delta 1e-05 allow"),
    ):
        text, _ = hopfed.done(*given, *options)
        assert words in " ".join(text.split())
        assert text.endswith("Nothing was sent.\n")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(("epsilon", "refused"), [("2", "this join"), ("4", "a server with other")])
def test_a_dry_run_says_what_an_earlier_release_refuses(
    hopfed, examples, tmp_path, epsilon, refused
):
    rows = as_examples(np.load(examples))
    Ledger(tmp_path / "home" / "privacy").charge(rows, Terms(4.0, 1e-5))
    text, _ = hopfed.done("join", "--data", examples, "--dry-run", "--epsilon", epsilon)
    assert refused in text.partition("released with epsilon 4.0")[2]


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_keys_are_made_in_no_folder_that_others_can_change(hopfed, tmp_path, mode):
    """Whoever can put other public keys there takes the place of clients."""
    tmp_path.chmod(mode)
    refused = hopfed.refused("certs", tmp_path, "--clients", 1)
    assert "yours alone to write (others own it or can write to it)" in refused
    assert not list(tmp_path.iterdir())
