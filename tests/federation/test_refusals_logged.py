"""Every refusal of a client is a line in its owner's log."""

import numpy as np
from asking import N, method, signs
from rogue import Raw, Rogue, request

from hopfed.cli import main
from hopfed.federation.engines.flower.keys import make_keys
from hopfed.federation.recipes import describe
from hopfed.hopfield.batches import Elsewhere
from hopfed.hopfield.graded.private import PrivateClasses


def test_every_refusal_is_a_line_in_the_owners_log(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    make_keys(tmp_path, 1, ["127.0.0.1"])
    np.save(tmp_path / "a.npy", signs(900))
    recipe, _ = describe(method())
    asked = [
        ({"recipe": describe(PrivateClasses(Elsewhere(1), N, 4.0))[0]}, "agreed to no epsilon"),
        ({"recipe": describe(method(rounds=5))[0]}, "2 round(s) at most"),
        ({"recipe": recipe, "exchange": 1}, "answers no questions"),
        ({"recipe": '["made", "os:system", {}]'}, "is not made here"),
        ({"recipe": describe(method(columns=30))[0]}, "has 30 columns"),
    ]
    tricks = [request(**call) for call, _ in asked] + [request(last=True)]
    with Rogue(tmp_path, tricks) as server:
        given = ("--data", "a.npy", "--ca", "ca.pem", "--key", "client-0.key")
        monkeypatch.chdir(tmp_path)
        main(["join", *given, "--server", server.address, "--patience", "60"])
    lines = [line for line in capsys.readouterr().err.splitlines() if "not answered" in line]
    assert len(lines) == len(asked)
    for line, (_, words) in zip(lines, asked, strict=True):
        assert words in line


def test_no_log_names_the_record_of_the_rows(tmp_path, monkeypatch, hopfed):
    """Who knows all rows but one could confirm a guess of that by a digest of them."""
    stopped = request(last=True, down={"stopped": np.ones(())})
    said = joined_in_two_rounds(tmp_path, monkeypatch, hopfed, stopped, whole=True)
    records = tmp_path / "home" / "released"
    assert f"what leaves is recorded in the folder {records}" in said.replace("\n", "")
    (record,) = {path.stem for path in records.iterdir()}
    assert record not in said.replace("\n", "")


def joined_in_two_rounds(tmp_path, monkeypatch, hopfed, *tricks, whole=False):
    """Join a server that asks for one round, and then plays tricks, with rows dealt over two."""
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    make_keys(tmp_path, 1, ["127.0.0.1"])
    np.save(tmp_path / "a.npy", signs(900))
    asked = request(recipe=describe(method(rounds=1))[0])
    given = ("--data", "a.npy", "--ca", "ca.pem", "--key", "client-0.key", "--rounds", "2")
    monkeypatch.chdir(tmp_path)
    with Rogue(tmp_path, [asked, *tricks]) as server:
        out = "--server", server.address, "--patience", "2", "--out", "a.h5"
        status, _, said = hopfed("join", *given, *out)
    assert (status, (tmp_path / "a.h5").exists()) == (2, False)
    return said if whole else said.splitlines()[-1]


def test_a_client_whose_server_left_says_what_it_did_not_answer(tmp_path, monkeypatch, hopfed):
    last = joined_in_two_rounds(tmp_path, monkeypatch, hopfed, *[Raw(b"")] * 100)
    assert "its last question was not answered: this client deals its rows over 2 round(s)" in last
    assert "serve --rounds 2" in last


def test_a_client_whose_server_ends_without_a_result_ends_too(tmp_path, monkeypatch, hopfed):
    stopped = request(last=True, down={"stopped": np.ones(())})
    last = joined_in_two_rounds(tmp_path, monkeypatch, hopfed, stopped)
    assert "the server ended the federation without a result; its last question was not" in last
    assert "needs serve --rounds 2" in last
