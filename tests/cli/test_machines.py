"""`hopfed certs`, `serve` and `join`: what they print, and what they refuse in one line."""

import numpy as np
import pytest

from hopfed.cli import main
from hopfed.data.channel import draw_examples, rademacher
from hopfed.rng import stream


def refused(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main(list(words))
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


@pytest.fixture
def examples(tmp_path):
    rng = stream(0, "cli machines")
    path = tmp_path / "museum.npy"
    np.save(path, draw_examples(rademacher(2, 60, rng), 200, 0.8, rng)[0])
    return str(path)


def test_a_dry_run_prints_what_would_be_sent(examples, capsys):
    main(["join", "--data", examples, "--dry-run", "--set", "rounds=2"])
    printed = capsys.readouterr().out
    for word in ("counts", "int16", "1770", "3.5 kB", "votes", "200 examples", "2 round(s)"):
        assert word in printed
    main(["join", "--data", examples, "--dry-run", "--epsilon", "1"])
    printed = capsys.readouterr().out
    assert "with noise" in " ".join(printed.split())
    assert "votes" not in printed


def test_bad_input_is_one_line(examples, tmp_path, capsys):
    join = ("join", "--data", examples)
    serve = ("serve", "--keys", str(tmp_path), "--out", str(tmp_path / "run.h5"))
    for words, message in (
        (("join", "--data", "none.npy", "--dry-run"), "none.npy: no such file"),
        (join, "--server must be given, unless with --dry-run"),
        ((*join, "--server", "x", "--ca", "x", "--key", "x"), "--server must be HOST:PORT"),
        ((*join, "--server", "x:1", "--ca", "x", "--key", "x"), "--key must be a file"),
        ((*join, "--dry-run", "--set", "nothing=1"), "'nothing'"),
        (serve, "--columns must be given"),
        ((*serve, "--columns", "60"), "--keys must be a folder with server.pem"),
        ((*serve, "--columns", "60", "--minimum", "9"), "minimum must be 1 to the 3 clients"),
        ((*serve, "--columns", "60", "--listen", "here"), "--listen must be HOST:PORT"),
        (("certs", str(tmp_path / "keys"), "--clients", "0"), "clients must be at least 1"),
    ):
        assert message in refused(capsys, *words)


def test_certs_says_who_gets_what(tmp_path, capsys):
    main(["certs", str(tmp_path / "keys"), "--clients", "2", "--host", "server.example"])
    printed = capsys.readouterr().out
    assert "wrote 7 files" in printed
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
    join = ("join", "--data", examples, *where, "--patience", "0.1")
    for home in (examples, f"{examples}/below", "/proc/none"):
        monkeypatch.setenv("HOPFED_HOME", home)
        assert "HOPFED_HOME must be a folder that can be used" in refused(capsys, *join)
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    key.chmod(0o644)
    assert "others can read this key (mode 644)" in refused(capsys, *join)
    assert not (tmp_path / "home").exists()
    assert "without certificates and keys" in refused(
        capsys, "certs", str(tmp_path / "keys"), "--clients", "1"
    )
