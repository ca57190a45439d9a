"""Every refusal of a client is a line in its owner's log."""

import grpc
import numpy as np
import pytest
from asking import N, method, signs
from rogue import Rogue, request

from hopfed.cli import main
from hopfed.federation.machines.keys import make_keys
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
        ({"recipe": recipe, "exchange": 1}, "not that of this round"),
        ({"recipe": '["made", "os:system", {}]'}, "is not made here"),
        ({"recipe": describe(method(columns=30))[0]}, "has 30 columns"),
    ]
    tricks = [request(**call) for call, _ in asked] + [request(last=True)]
    with Rogue(tmp_path, tricks) as server:
        given = ("--data", "a.npy", "--ca", "ca.pem", "--key", "client-0.key", "--trust-server")
        monkeypatch.chdir(tmp_path)
        main(["join", *given, "--server", server.address, "--patience", "60"])
    lines = [line for line in capsys.readouterr().err.splitlines() if "not answered" in line]
    assert len(lines) == len(asked)
    for line, (_, words) in zip(lines, asked, strict=True):
        assert words in line


@pytest.mark.parametrize("end", ["gone", "stopped"])
def test_a_client_without_a_result_says_what_it_did_not_answer(tmp_path, monkeypatch, hopfed, end):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    make_keys(tmp_path, 1, ["127.0.0.1"])
    np.save(tmp_path / "a.npy", signs(900))
    last = [request(last=True, down={"stopped": np.ones(())})]
    tricks = [grpc.StatusCode.UNAVAILABLE] * 100 if end == "gone" else last
    asked = request(recipe=describe(method(columns=41))[0])
    given = ("--data", "a.npy", "--ca", "ca.pem", "--key", "client-0.key", "--trust-server")
    with Rogue(tmp_path, [asked, *tricks]) as server:
        out = "--server", server.address, "--patience", "2", "--out", "a.h5"
        status, _, said = hopfed("join", *given, *out)
    assert (status, (tmp_path / "a.h5").exists()) == (2, False)
    assert "its last question was not answered: the federation has 41 columns" in said
