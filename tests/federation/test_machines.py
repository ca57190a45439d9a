"""Servers and clients as processes on loopback; what the page about them names is there."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from machines import WITHOUT_TORCH, Machines

from hopfed import load
from hopfed.cli.machines.join import join_command
from hopfed.cli.machines.serve import certs_command, serve_command
from hopfed.federation.machines.keys import make_keys


def assert_as_alone(machines, run):
    """Whatever happened, the federation found what it finds in one process, to the bit."""
    for name, array in machines.alone(run).items():
        np.testing.assert_array_equal(run.arrays[name], array, err_msg=name)


def test_three_owners(tmp_path):
    with Machines(tmp_path, clients=3) as machines:
        machines.serve("--rounds", "2", "--minimum", "3")
        machines.start("client-0", *machines.joining(0), "--out", "found.h5", code=WITHOUT_TORCH)
        machines.join_all(who=(1, 2))
        run = machines.run()
        assert [machines.end(name) for name in ("client-0", "clients")] == [0, 0]
        assert machines.log("clients").count("the federation is over: 3 archetypes") == 2
    assert_as_alone(machines, run)
    found = load(tmp_path / "found.h5").patterns
    assert np.array_equal(found, load(tmp_path / "run.h5").patterns)
    assert (np.abs(found @ machines.archetypes.T.astype(int)).max(axis=1) == 120).all()


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["client-1", "server"])
def test_whoever_is_killed_in_round_two_and_restarted_loses_nothing(tmp_path, killed):
    with Machines(tmp_path, clients=2) as machines:
        machines.serve("--rounds", "4", "--minimum", "2", "--timeout", "30")
        machines.join(0)
        machines.join(1)
        machines.wait(killed, "round 1 exchange 0")
        machines.kill(killed)
        if killed == "server":
            machines.serve("--resume")
        else:
            machines.join(1)
        run = machines.run()
        assert [machines.end(f"client-{c}") for c in range(2)] == [0, 0]
        words = "joined" if killed == "client-1" else "waiting for"
        assert words in machines.log("client-1").partition("round 1")[2]
        assert machines.log("server").count("round 0 exchange 0") == 1, "a committed round again"
        machines.join(1)  # who comes late is told by a server that is there again
        machines.wait("client-1", "waiting for", machines.log("client-1").count("waiting for"))
        machines.serve("--resume", "--wait", "4")  # which is waited, as no other comes
        machines.run()
        assert machines.end("client-1") == 0
    assert_as_alone(machines, run)


@pytest.mark.slow
def test_wrong_keys_and_terms_are_refused_in_words(tmp_path):
    make_keys(tmp_path / "others", 1, ["127.0.0.1"])
    with Machines(tmp_path, clients=3, rows=6000) as machines:
        machines.serve("--minimum", "2", "--epsilon", "4")
        stranger = [*machines.joining(0)[:-1], "others/client-0.key", "--patience", "1"]
        fooled = [w.replace("keys/ca.pem", "others/ca.pem") for w in machines.joining(0)]
        for name, words, said in (
            ("stranger", stranger, "this client's key"),
            ("fooled", fooled, "not signed by the authority"),
        ):
            machines.start(name, *words)
            assert machines.end(name) == 2
            assert said in machines.log(name)
        machines.join(2, "--epsilon", "1")
        machines.wait("server", "client 2 joined")
        machines.join(0, "--epsilon", "4", "--out", "found.h5")
        machines.join(1, "--epsilon", "4")
        run = machines.run()
        assert [machines.end(f"client-{c}") for c in range(3)] == [0, 0, 0]
    assert "asks for more than this client's epsilon" in machines.log("client-2")
    assert b"more than this client's epsilon" in run.arrays["faults/reason"][0, 0, 2]
    match = np.abs(load(tmp_path / "found.h5").patterns @ machines.archetypes.T.astype(int)) / 120
    assert match.shape == (3, 3)
    assert (match.max(axis=0) > 0.9).all()


ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "hopfed" / "pages" / "owners.md").read_text()


def test_every_row_of_its_table_names_a_test_that_is_there():
    rows = TEXT[TEXT.index("| other | learns") :].partition("\n\n")[0].splitlines()[2:]
    assert len(rows) >= 10
    for row in rows:
        path, function = re.search(r"`(tests/[\w/]+\.py)::(\w+)`", row).groups()
        tree = ast.parse((ROOT / path).read_text())
        assert function in {node.name for node in tree.body if hasattr(node, "name")}, row


def test_its_options_are_those_of_the_commands():
    commands = (certs_command, join_command, serve_command)
    known = {o for c in commands for p in c.params for o in p.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT)) <= known
    for option in ("--epsilon", "--trust-server", "--dry-run"):
        assert f"| `{option}" in TEXT
