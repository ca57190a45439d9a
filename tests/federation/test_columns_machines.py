"""Whole federations of owners whose tables have names of columns, in one order or another."""

import csv
import re

import numpy as np
import pytest
from machines import COLUMNS, Machines

from hopfed._lib.settings import from_plain
from hopfed.cli import main
from hopfed.experiments import serve
from hopfed.federation.engines.local import LocalEngine
from hopfed.hopfield.batches import Batches
from hopfed.tables.examples import as_examples

NAMES = tuple(f"question {j}" for j in range(COLUMNS))


def write(machines, c, order=None, names=NAMES):
    """Write the rows of a client to a .csv file with names of columns, in some order."""
    order = np.arange(COLUMNS) if order is None else order
    rows = np.load(machines.folder / f"{c}.npy")[:, order]
    with open(machines.folder / f"{c}.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([names[j] for j in order])
        writer.writerows(rows.tolist())


def mixed(seed):
    return np.random.default_rng(seed).permutation(COLUMNS)


def alone(machines, run, clients, order):
    """Arrays of the same federation in one process, of tables in one order."""
    config = from_plain(serve.Config, run.config)
    rows = [np.load(machines.folder / f"{c}.npy")[:, order] for c in clients]
    owners = tuple(as_examples(x, gaps=True) for x in rows)
    arrays, _ = serve.play(config, config.make(Batches(owners)), 0, 0, None, LocalEngine())
    return {name: array[None, None] for name, array in arrays.items()}


def assert_found(machines, run, clients, order):
    there = alone(machines, run, clients, order)
    number = int(there["archetypes/number"].item())
    assert number == 3
    for name in ("archetypes/packed", "archetypes/number", "examples", "n_detected"):
        np.testing.assert_array_equal(run.arrays[name], there[name], err_msg=name)


def test_headers_in_other_orders_give_the_same_and_others_are_refused(tmp_path):
    with Machines(tmp_path, clients=4) as machines:
        write(machines, 0)
        write(machines, 1, mixed(1))
        write(machines, 2, mixed(2))
        write(machines, 3, names=("a secret \x1b[31m", *NAMES[1:]))
        machines.serve("--minimum", "3")
        machines.join_all("--data", "@.csv", "--out", "found-@.csv")
        run = machines.run()
        assert machines.end("clients") == 1
    order = np.argsort(NAMES)
    config = from_plain(serve.Config, run.config)
    assert config.order.startswith("sorted ")
    assert_found(machines, run, range(3), order)
    log, clients = machines.log("server"), machines.log("clients")
    assert re.search("columns are those of [23] clients, in the order of their names", log)
    assert "its columns are not those of the federation" in log
    assert clients.count("error: my columns are others") == 1
    assert clients.count("the federation is over: 3 archetypes") == 3
    assert "secret" not in log + clients
    patterns = serve.served_archetypes(config, run.arrays)
    for c, own in enumerate((np.arange(COLUMNS), mixed(1), mixed(2))):
        with open(tmp_path / f"found-{c}.csv", newline="") as file:
            header, *rows = csv.reader(file)
        assert header == [NAMES[j] for j in own]
        np.testing.assert_array_equal(np.array(rows, int)[:, np.argsort(own)][:, order], patterns)


@pytest.mark.slow
def test_a_server_that_tells_names_puts_all_in_their_order(tmp_path):
    with Machines(tmp_path, clients=3) as machines:
        write(machines, 0, mixed(1))
        write(machines, 2, names=(*NAMES[:-2], "tea", "milk"))
        (tmp_path / "names.txt").write_text("\n".join(NAMES))
        machines.serve("--columns", "names.txt", "--minimum", "2")
        machines.join(2, "--data", "2.csv")
        machines.wait("client-2", "joined")  # before a round may be over without it
        machines.join(0, "--data", "0.csv", "--out", "found.json")
        machines.join(1, "--out", "by_place.csv")  # an array, without names
        run = machines.run()
        assert [machines.end(f"client-{c}") for c in range(3)] == [0, 0, 2]
    assert from_plain(serve.Config, run.config).names == NAMES
    assert_found(machines, run, range(2), np.arange(COLUMNS))
    words = machines.log("client-2").strip().splitlines()[-1]
    assert "lacks 'question 118', 'question 119' of the federation" in words
    assert "has 'tea', 'milk' beside" in words
    assert "tea" not in machines.log("server")
    assert "client 1 goes by place" in machines.log("server")
    assert "this table has no names of columns" in machines.log("client-1")
    assert (tmp_path / "by_place.csv").read_text().startswith("question 0,question 1,")
    assert '"question 0"' in (tmp_path / "found.json").read_text()


@pytest.mark.slow
def test_tables_with_names_and_without_go_by_place(tmp_path):
    with Machines(tmp_path, clients=3) as machines:
        write(machines, 0)
        machines.serve("--minimum", "3")
        machines.join(0, "--data", "0.csv")
        machines.join(1)  # one alone without names may lie, and is refused
        machines.join(2)
        run = machines.run()
        assert [machines.end(f"client-{c}") for c in range(3)] == [0, 0, 0]
    assert_found(machines, run, range(3), np.arange(COLUMNS))
    assert "columns go by their place: those of client 1, 2 have no names" in machines.log("server")
    assert "its columns go by place" in machines.log("client-2")


@pytest.mark.slow
def test_a_server_that_is_resumed_keeps_to_the_names(tmp_path):
    with Machines(tmp_path, clients=2) as machines:
        for c in range(2):
            write(machines, c, mixed(c))
        machines.serve("--rounds", "3", "--minimum", "2")
        machines.join(0, "--data", "0.csv")
        machines.join(1, "--data", "1.csv")
        machines.wait("server", "round 1 exchange 0")
        machines.kill("server")
        machines.serve("--resume")
        run = machines.run()
        assert [machines.end(f"client-{c}") for c in range(2)] == [0, 0]
    assert from_plain(serve.Config, run.config).order.startswith("sorted ")
    assert machines.log("server").count("columns are those of") == 1
    assert run.arrays["examples"].shape == (1, 3)


def test_a_dry_run_says_that_names_stay_and_what_digests_tell(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    rows = np.random.default_rng(0).integers(0, 2, (500, 20))
    np.savetxt(
        tmp_path / "a.csv", rows, "%d", ",", header=",".join("abcdefghijklmnopqrst"), comments=""
    )
    said = "No row, and no name of a column: digests of them"
    main(["join", "--data", str(tmp_path / "a.csv"), "--trust-server", "--dry-run"])
    assert said in " ".join(capsys.readouterr().out.split())
