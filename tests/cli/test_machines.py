"""`hopfed certs`, `serve` and `join`: what they print, and what they refuse in one line."""

import numpy as np
import pytest

from hopfed._lib.random import stream
from hopfed.cli import main
from hopfed.hopfield.channel import draw_examples, rademacher


def refused(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main(list(words))
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


@pytest.fixture
def examples(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    rng = stream(0, "cli machines")
    path = tmp_path / "museum.npy"
    np.save(path, draw_examples(rademacher(2, 60, rng), 200, 0.6, rng)[0])
    return str(path)


def test_bad_input_is_one_line(examples, tmp_path, capsys):
    join = ("join", "--data", examples, "--trust-server")
    serve = ("serve", "--keys", str(tmp_path), "--out", str(tmp_path / "run.h5"))
    for words, message in (
        (("join", "--data", "none.npy", "--epsilon", "1"), "none.npy: no such file"),
        (join, "--server must be given, unless with --dry-run"),
        ((*join, "--server", "x", "--ca", "x", "--key", "x"), "--server must be HOST:PORT"),
        ((*join, "--server", "x:1", "--ca", "x", "--key", "x"), "--key must be a file"),
        (("join", "--data", examples), "say how you take part, in one of two ways"),
        ((*join, "--epsilon", "0"), "say how you take part, in one of two ways"),
        (("join", "--data", examples, "--epsilon", "0"), "--epsilon must be a number above 0"),
        (("join", "--data", examples, "--epsilon", "1", "--weights", "n"), "left out with --eps"),
        (("join", "--data", examples, "--epsilon", "1", "--outcome", "n"), "related by exact sums"),
        ((*join, "--dry-run", "--outcome", "n"), "there is no column 'n'"),
        ((*serve, "--columns", "60", "--archetypes", "2"), "left out without graded exact sums"),
        (
            (*serve, "--columns", "60", "--graded", "--epsilon", "1", "--relate", "n"),
            "relate must be left out without graded exact sums",
        ),
        (serve, "--columns must be given"),
        ((*serve, "--columns", "60"), "--keys must be a folder with ca.pem"),
        ((*serve, "--columns", "60", "--minimum", "9"), "minimum must be 1 to the 3 clients"),
        ((*serve, "--columns", "60", "--clients", "99999999"), "clients must be in [1, 10000]"),
        ((*serve, "--columns", "1"), "columns must be at least 2"),
        ((*serve, "--columns", "60", "--byzantine", "0.5"), "byzantine must be in [0, 1/2)"),
        ((*serve, "--columns", "60", "--set", "persistence=2"), "persistence must be 1 to the 1"),
        ((*serve, "--columns", "60", "--timeout", "0"), "--timeout must be a number above 0"),
        ((*serve, "--columns", "60", "--wait", "nan"), "'--wait': 'nan' is not a number"),
        ((*serve, "--columns", "60", "--limit", "inf"), "--limit must be a number above 0"),
        ((*serve[:-1], str(tmp_path), "--columns", "60"), "--out must be a .h5"),
        (
            (*serve[:-1], str(tmp_path / "no" / "x.h5"), "--columns", "60"),
            "--out must be in a folder",
        ),
        ((*serve, "--columns", "60", "--listen", "here"), "--listen must be HOST:PORT"),
        (("certs", str(tmp_path / "keys"), "--clients", "0"), "clients must be 1 to 10000"),
    ):
        assert message in refused(capsys, *words)


def test_certs_says_who_gets_what(tmp_path, capsys):
    main(["certs", str(tmp_path / "keys"), "--clients", "2", "--host", "server.example"])
    printed = capsys.readouterr().out
    assert "wrote 5 files" in printed
    assert "client-c.key" in printed


def test_a_home_or_a_key_that_cannot_be_used_is_one_line_before_anything_is_sent(
    examples, tmp_path, capsys, monkeypatch
):
    main(["certs", str(tmp_path / "keys"), "--clients", "1"])
    capsys.readouterr()
    key = tmp_path / "keys" / "client-0.key"
    where = (
        "--server",
        "127.0.0.1:9",
        "--ca",
        str(tmp_path / "keys" / "ca.pem"),
        "--key",
        str(key),
    )
    join = ("join", "--data", examples, *where, "--patience", "0.1", "--epsilon", "1")
    for home in (examples, f"{examples}/below", "/proc/none"):
        monkeypatch.setenv("HOPFED_HOME", home)
        assert "privacy: cannot be used" in refused(capsys, *join)
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    key.chmod(0o644)
    assert "others can read this key (mode 644)" in refused(capsys, *join)
    assert not (tmp_path / "home").exists()
    assert "without certificates and keys" in refused(
        capsys, "certs", str(tmp_path / "keys"), "--clients", "1"
    )
