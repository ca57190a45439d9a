"""Classes of a federation related to an outcome that clients hold, and weights of a survey."""

from dataclasses import replace

import numpy as np
import pytest
from federations import announced
from machines import Machines

from hopfed import load, recover
from hopfed.archetypes.relate import Column, first_sums
from hopfed.errors import ArgumentError, DataError
from hopfed.experiments import serve
from hopfed.hopfield.class_questions import QUESTIONS, answer
from hopfed.hopfield.clients import ClassClient
from hopfed.hopfield.stream import Batches
from hopfed.kernels import pack

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
    told, arrays = announced(config, Batches(tuple(owners), 1, tuple(outcomes)))
    return told.archetypes(), serve.relation(config, arrays)


def assert_alike(related, here, rtol):
    np.testing.assert_allclose(related.estimates, here.estimates, rtol=rtol)
    np.testing.assert_allclose(related.errors, here.errors, rtol=10 * rtol)


def test_survey_weights_are_those_of_one_table():
    x, y, w = drawn(3, 300, 500, 200)
    w = [each * scale for each, scale in zip(w, (1, 4, 2), strict=True)]
    owners = [replace(pack(a), counts=b) for a, b in zip(x, w, strict=True)]
    outcomes = [Column("y", each[:, None]) for each in y]
    found, related = served(owners, outcomes, relate="y", byzantine=0.0, claim=100.0)
    one = recover(list(x), n_archetypes=3, weights=w)
    order = found.means.mean(axis=1).argsort(), one.means.mean(axis=1).argsort()
    np.testing.assert_allclose(found.means[order[0]], one.means[order[1]], atol=0.04)
    np.testing.assert_allclose(found.shares[order[0]], one.shares[order[1]], atol=0.01)
    assert_alike(related, found.relate(list(x), list(y), weights=w), 1e-5)


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
    assert served([*map(pack, x)], alike, relate="tree")[1] == (
        "tree holds a single value: nothing can depend on it"
    )
    other = [*outcomes, Column("bush", values[2], ("ash", "elm"))]
    assert "fell silent" in served([*map(pack, x)], other, relate="tree=ash,elm")[1]


def test_questions_that_are_none():
    (x,), (y,), _ = drawn(5, 100)
    client = ClassClient(Batches((pack(x),), 1), 8)
    asked = {"means": np.zeros((2, 8)), "shares": np.full(2, 0.5)}
    asked |= {"question": np.array(FIRST_STEP), "outcome": np.array([121], np.uint8)}
    assert set(client.question(asked)) == set(asked)
    for wrong in (
        {"question": np.array(99)},
        {"question": np.array(FIRST_STEP + 2)},
        {"question": np.array(FIRST_STEP + 3), "along": np.zeros((2, 3, 9))},
        {"outcome": np.array([255], np.uint8)},
    ):
        with pytest.raises(DataError, match="malformed message from the server"):
            client.question(asked | wrong)
    words = Column("y", np.ones((100, 1)), ("yes",))
    for outcome, message in (
        (words, "with all its words"),
        (Column("z", y), "--outcome z"),
    ):
        with pytest.raises(DataError, match=message):
            answer(pack(x), asked, 0, outcome)
    for relate in ("=a,b", "y=a"):
        with pytest.raises(ArgumentError, match="relate must be a column"):
            serve.Config(columns=8, graded=True, relate=relate).validate()


def test_owners_with_ages_on_machines(tmp_path):
    x, y, w = drawn(6, 150, 250, 200)
    y, w = ([each.round(3) for each in held] for held in (y, w))
    names = [f"q{j}" for j in range(8)]
    (tmp_path / "names.txt").write_text("\n".join(names))
    for c in range(3):
        table = np.column_stack([(x[c] + 1) // 2, y[c], w[c]]).astype(object)
        table[:, :8] = table[:, :8].astype(int)
        lines = [",".join("" if cell != cell else str(cell) for cell in row) for row in table]
        (tmp_path / f"{c}.csv").write_text("\n".join([",".join([*names, "age", "w"]), *lines]))
    with Machines(tmp_path, clients=3) as machines:
        asked = ("--graded", "--archetypes", "3", "--columns", "names.txt", "--relate", "age")
        machines.serve("--minimum", "3", *asked, "--byzantine", "0")
        machines.join_all("--data", "@.csv", "--outcome", "age", "--weights", "w")
        run = machines.run()
        assert machines.end("clients") == 0
        log = machines.log("server")
    here = load(tmp_path / "run.h5").relate(list(x), list(y), weights=w)
    there = serve.relation(serve.Config(columns=8, graded=True, relate="age"), run.arrays)
    assert_alike(there, here, 1e-4)
    assert "age: Wald's chi2(2)" in log
    assert f"{np.isnan(np.concatenate(y)).sum()} rows without an entry are left out" in log
