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
        ((*serve, "--columns", "60", "--minimum", "0"), "minimum must be 1 to the 3 clients"),
        ((*serve, "--columns", "60", "--clients", "0"), "clients must be at least 1"),
        ((*serve, "--columns", "60", "--clients", "99999999"), "clients must be at most 10000"),
        ((*serve, "--columns", "1"), "columns must be at least 2"),
        ((*serve, "--columns", "60", "--liars", "0.5"), "liars must be in [0, 1/2)"),
        ((*serve, "--columns", "60", "--liars", "nan"), "liars must be"),
        ((*serve, "--columns", "60", "--claim", "0.5"), "claim must be at least 1"),
        ((*serve, "--columns", "60", "--support", "-1"), "support must be at least 0"),
        ((*serve, "--columns", "60", "--robust", "best"), "kind must be one of mean"),
        ((*serve, "--columns", "60", "--quorum", "2"), "quorum must be in [0, 1]"),
        ((*serve, "--columns", "60", "--persistence", "2"), "persistence must be 1 to the 1"),
        ((*serve, "--columns", "60", "--timeout", "0"), "--timeout must be a number above 0"),
        ((*serve, "--columns", "60", "--wait", "nan"), "--wait must be a number above 0"),
        ((*serve, "--columns", "60", "--limit", "inf"), "--limit must be a number above 0"),
        ((*serve[:-1], str(tmp_path), "--columns", "60"), "--out must be a new file"),
        ((*serve[:-1], str(tmp_path / "no" / "x"), "--columns", "60"), "--out must be in a folder"),
        ((*serve, "--columns", "60", "--listen", "here"), "--listen must be HOST:PORT"),
        (("certs", str(tmp_path / "keys"), "--clients", "0"), "clients must be at least 1"),
    ):
        assert message in refused(capsys, *words)


def test_every_guard_is_an_option_of_serve_whose_help_names_its_default():
    from dataclasses import fields

    from hopfed.cli.serve import serve_command
    from hopfed.experiments.serve import GUARDS, Config

    options = {option.name: option for option in serve_command.params}
    defaults = {f.name: f.default for f in fields(Config)}
    for name in (*GUARDS, "robust"):
        default = "check" if name == "check" else f"{defaults[name]}".removesuffix(".0")
        assert f"[default: {default}]" in options[name].help


def test_certs_says_who_gets_what(tmp_path, capsys):
    main(["certs", str(tmp_path / "keys"), "--clients", "2", "--host", "server.example"])
    printed = capsys.readouterr().out
    assert "wrote 7 files" in printed
    assert "client-c.key" in printed
