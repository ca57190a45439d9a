"""Servers and clients as processes, outcomes that clients hold, and the page about them."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from federations import announced
from machines import WITHOUT_TORCH, Machines

from hopfed import load, recover
from hopfed.archetypes.relate import Column, first_sums
from hopfed.cli.machines.join import join_command
from hopfed.cli.machines.serve import certs_command, serve_command
from hopfed.errors import ArgumentError, DataError
from hopfed.experiments import serve
from hopfed.federation.contract import Context
from hopfed.federation.machines.keys import make_keys
from hopfed.hopfield import class_questions
from hopfed.hopfield.class_questions import QUESTIONS, answer
from hopfed.hopfield.clients import ClassClient, PatternClient
from hopfed.hopfield.example_sources import BatchSource, RemoteSource
from hopfed.hopfield.noise import Noise
from hopfed.kernels import pack


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


def test_its_table_of_what_leaves_names_every_array_of_an_answer():
    """`join` logs them by name; with noise those of the line above the table alone leave."""
    N, K, one = 4, 2, np.array(1.0)
    ones = {"above": one, "survey": one, "vector": np.ones(N), "directions": np.ones((K, N))}
    ones |= {"points": np.zeros((1, K, N)), "more": np.zeros((1, K)), "parts": np.ones(2)}
    ones |= {"outcome": np.frombuffer(b"age", np.uint8), "outcome_means": np.zeros((K, 1))}
    ones |= {"along": np.zeros((1, K, N + 1)), "solved": np.zeros((K, K, N + 1))}
    first = class_questions.first_question(N)
    classes = {"means": np.zeros((K, N), np.float32), "shares": np.full(K, 0.5, np.float32)}
    each = enumerate(class_questions.NEEDED.values())
    asked = [classes | {"question": np.array(i)} | {n: ones[n] for n in names} for i, names in each]
    leaves = {name for down in (first, *asked) for name in class_questions.answer_spec(down, N)}
    told, at = {"basis": np.ones((N, K)), "patterns": np.ones((K, 1))}, Context(0, 0, 0, 0)
    for factors, exchange in ((0, 0), (2, 0), (0, 1), (0, 2)):
        client = PatternClient(RemoteSource(1), N, factors=factors)
        leaves |= client.expects(told, replace(at, exchange=exchange)).keys()
    said = TEXT[TEXT.index("## What leaves") : TEXT.index("## What others")]
    cells = " ".join(re.findall(r"(?m)^\| (`.*?) \|", said))
    assert set(re.findall(r"`(\w+)`", cells)) == leaves
    noisy = ClassClient(RemoteSource(1), N, Noise(1.0, 1e-5)).expects(classes, at)
    assert set(re.findall(r"`(\w+)`", said.splitlines()[2])) == noisy.keys()


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


FIRST_STEP = QUESTIONS.index(first_sums)
HIGH = np.array([0.95, 0.8, 0.7, 0.9, 0.6, 0.85, 0.75, 0.95])
RATES = np.where(np.array([np.ones(8), np.arange(8) < 4, np.zeros(8)]) > 0, HIGH, 0.15)


def drawn(seed, *sizes):
    """Of each owner rows (M, 8) of +-1, an outcome that some lack, and weights."""
    rng, found = np.random.default_rng(seed), []
    for M in sizes:
        labels = rng.choice(3, M, p=[0.4, 0.35, 0.25])
        x = np.where(rng.random((M, 8)) < RATES[labels], 1, -1).astype(np.int8)
        y = np.where(rng.random(M) < 0.05, np.nan, 40 + labels + rng.normal(size=M))
        found.append((x, y, rng.uniform(0.2, 3, M)))
    return zip(*found, strict=True)


def served(owners, outcomes=(), **settings):
    config = serve.Config(columns=8, clients=len(owners), graded=True, archetypes=3, **settings)
    told, arrays = announced(config, BatchSource(tuple(owners), 1, tuple(outcomes)))
    return told.archetypes(), serve.relation_of_run(config, arrays)


def assert_alike(related, here, rtol):
    np.testing.assert_allclose(related.estimates, here.estimates, rtol=rtol)
    np.testing.assert_allclose(related.errors, here.errors, rtol=10 * rtol)


def test_words_and_clients_without_the_outcome():
    x, y, _ = drawn(4, 300, 300, 300)
    words = [np.array(["ash", "elm"], object)[(each > 41).astype(int)] for each in y]
    values = [np.column_stack([each == "ash", each == "elm"]).astype(float) for each in words]
    outcomes = [Column("tree", each, ("ash", "elm")) for each in values[:2]]
    found, related = served([*map(pack, x)], [*outcomes, None], relate="tree=ash,elm")
    told = (related.kind, related.names, related.rows, related.left_out)
    assert told == ("rate", ("elm",), 600, 300)
    assert_alike(related, found.relate(list(x), [*words[:2], [None] * 300]), 1e-5)
    alike = [Column("tree", np.full((300, 1), 0.1))] * 3
    assert "a single value" in served([*map(pack, x)], alike, relate="tree")[1]
    other = [*outcomes, Column("bush", values[2], ("ash", "elm"))]
    assert "fell silent" in served([*map(pack, x)], other, relate="tree=ash,elm")[1]


def test_questions_that_are_none():
    (x,), (y,), _ = drawn(5, 100)
    client = ClassClient(BatchSource((pack(x),), 1), 8)
    asked = {"means": np.zeros((2, 8)), "shares": np.full(2, 0.5)}
    asked |= {"question": np.array(FIRST_STEP), "outcome": np.array([121], np.uint8)}
    assert set(client.check(asked, None)) == set(asked)
    along = {"question": np.array(FIRST_STEP + 3), "along": np.zeros((2, 3, 9))}
    numbers = ({"question": np.array(number)} for number in (99, FIRST_STEP + 2))
    for wrong in (*numbers, along, {"outcome": np.array([255], np.uint8)}):
        with pytest.raises(DataError, match="malformed message from the server"):
            client.check(asked | wrong, None)
    for own, words in ((Column("y", y, ("yes",)), "with all its words"), (Column("z", y), "z")):
        with pytest.raises(DataError, match=words):
            answer(pack(x), asked, 0, own)
    for relate in ("=a,b", "y=a"):
        with pytest.raises(ArgumentError, match="relate must be a column"):
            serve.Config(columns=8, graded=True, relate=relate).validate()


def test_owners_with_ages_on_machines(tmp_path):
    x, y, w = drawn(3, 300, 500, 200)
    y = [each.round(3) for each in y]
    w = [(each * scale).round(3) for each, scale in zip(w, (1, 4, 2), strict=True)]
    names = [f"q{j}" for j in range(8)]
    (tmp_path / "names.txt").write_text("\n".join(names))
    for c in range(3):
        columns = [*((x[c].T + 1) // 2), np.where(np.isnan(y[c]), "", y[c].astype(str)), w[c]]
        rows = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
        (tmp_path / f"{c}.csv").write_text("\n".join([",".join([*names, "age", "w"]), *rows]))
    with Machines(tmp_path, clients=3) as machines:
        asked = ("--graded", "--archetypes", "3", "--columns", "names.txt", "--relate", "age")
        machines.serve("--minimum", "3", *asked, "--byzantine", "0", "--set", "claim=100")
        machines.join_all("--data", "@.csv", "--outcome", "age", "--weights", "w")
        run = machines.run()
        assert machines.end("clients") == 0
        log = machines.log("server")
    found, one = load(tmp_path / "run.h5"), recover(list(x), n_archetypes=3, weights=w)
    order = found.means.mean(axis=1).argsort(), one.means.mean(axis=1).argsort()
    np.testing.assert_allclose(found.means[order[0]], one.means[order[1]], atol=0.04)
    np.testing.assert_allclose(found.shares[order[0]], one.shares[order[1]], atol=0.01)
    here = found.relate(list(x), list(y), weights=w)
    there = serve.relation_of_run(serve.Config(columns=8, graded=True, relate="age"), run.arrays)
    assert_alike(there, here, 1e-4)
    assert "age: Wald's chi2(2)" in log
    assert f"{np.isnan(np.concatenate(y)).sum()} rows without an entry are left out" in log
