"""What leaves a client at its defaults, whatever a server asks: operators of batches of its own."""

import json
from dataclasses import replace

import numpy as np
import pytest
from asking import N, ask, known, method, refused, signs, site

from hopfed.errors import LocalError
from hopfed.experiments.serve import Config
from hopfed.federation.engines.flower.kept_states import KeptStates
from hopfed.federation.messages import digest
from hopfed.hopfield.batches import Elsewhere
from hopfed.hopfield.encoding import Encoding, symmetric
from hopfed.hopfield.noisy import PrivateFederation
from hopfed.hopfield.plasticity.rules import Agreement, Fixed, Smoothing, Structure
from hopfed.hopfield.site.budget import Ledger, Terms
from hopfed.hopfield.site.limits import Limits
from hopfed.hopfield.site.released import Released
from hopfed.spectral.sketch import sketch_matrix
from hopfed.tables.examples import as_examples


def default(folder, rows=None, **options):
    """Return a node as `hopfed join` makes it without options, but for batches of 50 rows."""
    return site(folder, rows, **{"questions": Limits().questions, **options})


def test_a_client_answers_no_question_unless_its_owner_says_so(tmp_path):
    node, asked = default(tmp_path), method()
    started = ask(node, asked)
    assert set(started.up) == {"examples", "counts", "columns", "weight"}
    downs = {"basis": np.eye(N, 2, dtype="f4")}, known(signs(2)), {}
    for exchange in (1, 2, 3, -1, 2**40):
        for each in (asked, method(groups=0), method(votes=False), method(groups=9)):
            for down in downs:
                for base in (started.state, b""):
                    reply = ask(node, each, 0, exchange, base, down)
                    assert reply.fault
                    assert not reply.up
    refused(ask(node, asked, 0, 1, started.state, downs[0]), "only operators (join --questions N")
    for rule in (Agreement(), Structure()):
        refused(ask(node, method(rule=rule), down=known(signs(2))), "by Fixed")
    held = json.loads(next((tmp_path / "released").glob("*.json")).read_text())
    assert [each[0] for each in held["batches"]["0"]["answers"]] == ["operators"]


def test_rows_do_not_stay_for_questions_that_are_not_answered(tmp_path):
    node = default(tmp_path)
    state = node.kept.get("run", 0, ask(node, method()).state)
    assert set(state) == {"plasticity", "salt"}


def test_a_server_asks_nothing_by_default_that_a_client_refuses_by_default():
    made = Config(columns=N).make()
    assert made.steps == ("operators",)
    assert isinstance(made.rule, Fixed)
    assert Limits().questions == 0


def test_whatever_is_varied_the_table_is_the_same_and_other_forms_follow_from_it(tmp_path):
    """Names, numbers, seeds and settings of a federation, and seeds and widths of a sketch."""
    rows, columns = signs(300, 60, 0.6), 60
    first = ask(default(tmp_path, rows), method(columns=columns)).up
    settings = (
        {"smoothing": Smoothing(ema=0.1, limit=0.2, momentum=0.3, modulated=True)},
        {"memory": "literal", "discount": 0.1, "weighting": "clients", "alpha": 0.5},
        {"liars": 0.3, "claim": 1.0, "support": 7.0, "check": True, "smallest_group": 9},
    )
    for i, more in enumerate(settings):
        where = {"run": f"run{i}", "client": i, "seed": i, "down": known(rows[:2])}
        assert digest(
            ask(default(tmp_path, rows), method(columns=columns, **more), **where).up
        ) == (digest(first))
    S = symmetric(first["counts"], columns, 300)
    for seed, width in ((0, 5), (1, 20), (2**40, 20)):
        asked = replace(method(), encoding=Encoding(columns, "sketch", width, seed))
        sent = ask(default(tmp_path, rows), asked, run=f"sketch{seed}").up["sketch"]
        follows = (S @ sketch_matrix(columns, width, seed)).astype(np.float32)
        np.testing.assert_array_equal(sent, follows, "rounding tells of rows")


def test_a_server_does_not_learn_from_refusals_where_rows_are(tmp_path):
    """Three rows are apart; which batches are refused, of each number of them, told which rows."""
    rows = signs(400).copy()
    rows[:, 3] = 1
    rows[[17, 222, 333], 3] = -1
    told = []
    for rounds in (7, 6, 5, 4, 3, 2):
        replies = [
            ask(default(tmp_path, rows), method(rounds), t, run=f"r{rounds}") for t in range(rounds)
        ]
        told.append({"dealt over 7 round(s)" in reply.reason for reply in replies})
        if rounds == 7:
            assert any("rows of this batch apart" in reply.reason for reply in replies)
    assert told == [{False}] + 5 * [{True}]


def test_an_owner_may_deal_anew_what_never_left(tmp_path):
    """A first server fixed a dealing of which every batch was refused, and nothing else."""
    rows = signs(400).copy()
    rows[:, 3] = 1
    rows[:2, 3] = -1
    refused(ask(default(tmp_path, rows), method(1)), "rows of this batch apart")
    refused(ask(default(tmp_path, rows), method(2)), "dealt over 1 round(s)")
    mine = {"rounds": 2, "smallest_set": 1}
    assert not ask(default(tmp_path, rows, **mine), method(2)).fault
    refused(ask(default(tmp_path, rows, rounds=1), method(1)), "dealt over 2 round(s)")


# Noise that nobody agreed to.


@pytest.mark.parametrize("epsilon", [1e9, 1.0])
def test_a_server_does_not_set_the_terms_of_a_client_without_epsilon(tmp_path, epsilon):
    """Neither the first budget of its rows, nor a way around the check of rows that are apart."""
    rows = signs(400).copy()
    rows[:, 3] = 1
    rows[17, 3] = -1
    ledger = Ledger(tmp_path / "privacy")
    asked = PrivateFederation(Elsewhere(1), N, epsilon)
    refused(ask(default(tmp_path, rows, ledger=ledger), asked), "agreed to no epsilon")
    assert not (tmp_path / "privacy").exists()
    refused(ask(default(tmp_path, rows, ledger=ledger), method()), "rows of this batch apart")
    mine = default(tmp_path / "mine", rows, epsilon=1.0, ledger=ledger)
    reply = ask(mine, PrivateFederation(Elsewhere(1), N, 1.0))
    assert set(reply.up) == {"counts", "examples"}
    assert ledger.terms(as_examples(rows)) == Terms(1.0, 1e-5, 1)


# What a server is told of this machine.


def test_a_damaged_ledger_is_named_to_the_owner_alone(tmp_path):
    rows, told = as_examples(signs()), []
    folder = tmp_path / "privacy"
    Ledger(folder).charge(rows, Terms(1.0, 1e-5))
    damages = (
        lambda: (folder / "ledger").write_text("damaged"),
        lambda: (folder / "secret").write_text("5" * 64),
        lambda: ((folder / "ledger").unlink(), (folder / "ledger").mkdir()),
    )
    for damage in damages:
        damage()
        for epsilon, asked in ((1.0, PrivateFederation(Elsewhere(1), N, 1.0)), (None, method())):
            node = default(tmp_path / "site", epsilon=epsilon, ledger=Ledger(folder))
            node.watch = lambda _, reply: told.append(reply.reason)
            refused(ask(node, asked), "this client cannot answer, and has told its owner why")
            assert str(folder) in told[-1]
        if (folder / "ledger").is_file():
            (folder / "ledger").unlink()
            (folder / "secret").unlink()
            Ledger(folder).charge(rows, Terms(1.0, 1e-5))


def test_a_folder_that_cannot_be_written_is_named_to_the_owner_alone(tmp_path):
    node, told = default(tmp_path), []
    node.kept = KeptStates(tmp_path / "states")
    (tmp_path / "states").write_text("in the way")
    node.watch = lambda _, reply: told.append(reply.reason)
    refused(ask(node, method()), "this client cannot answer, and has told its owner why")
    assert str(tmp_path) in told[0]
    with pytest.raises(LocalError, match="must be writable"):
        node.kept.put("run", 0, 0, 0, {})


# The same request, and one that is almost the same.


def test_another_recipe_or_seed_is_another_request(tmp_path):
    """It was answered with the bits of the first, whatever it asked for and whoever agreed."""
    node = default(tmp_path)
    first = ask(node, method())
    sketch = replace(method(), encoding=Encoding(N, "sketch", 4))
    assert set(ask(node, sketch).up) == {"examples", "sketch", "columns", "weight"}
    refused(ask(node, method(rule=Agreement()), down={}), "by Fixed")
    assert digest(ask(node, method()).up) == digest(first.up)
    node = site(tmp_path / "asked")
    started = ask(node, method())
    basis = {"basis": np.eye(N, 2, dtype="f4")}
    assert not ask(node, method(), 0, 1, started.state, basis).fault
    other = ask(node, method(), 0, 1, started.state, basis, seed=1)
    refused(other, "answer 1 different question(s) by projections")


# A dry run.


def written(folder):
    return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.rglob("*") if p.is_file()}


def test_a_dry_run_says_what_left_before_and_writes_nothing(tmp_path, hopfed, monkeypatch):
    home, path = tmp_path / "home", tmp_path / "d.npy"
    monkeypatch.setenv("HOPFED_HOME", str(home))
    rows = signs(400)
    np.save(path, rows)
    asked = "join", "--data", path, "--dry-run", "--smallest-batch", 50

    def dry(*options):
        before = written(home)
        status, text, error = hopfed(*asked, *options)
        assert written(home) == before
        return status, " ".join((text + error).split())

    assert "nothing has left about exactly these rows" in dry()[1]
    assert not home.exists()
    node = site(tmp_path, rows, Released.of(home / "released", as_examples(rows)))
    started = ask(node, method(2))
    basis = {"basis": np.eye(N, 2, dtype="f4")}
    assert not ask(node, method(2), 0, 1, started.state, basis).fault
    text = dry("--questions", "1")[1]
    for words in (
        "dealt over 2 round(s): refused is whoever asks for another number",
        "round 0: 838 of 3,280 numbers have left; answers: 1 by operators, 1 by projections",
        "Their questions are spent in part",
        "exchange 1 is refused: these rows answer 1 different question(s) by projections",
        "in each of up to 2 round(s)",
    ):
        assert words in text, text
    assert "gets nothing: exchange 0 is refused: these rows are dealt" in dry("--rounds", "1")[1]
    assert "noise takes nothing of that back" in dry("--epsilon", "1")[1]
    Ledger(home / "privacy").charge(as_examples(rows), Terms(0.5, 1e-5, 2))
    text = dry("--epsilon", "1")[1]
    assert "they are released with epsilon 0.5, delta 1e-05, 2 round(s)" in text
    assert "epsilon 0.5, delta 1e-05" in text.partition("refused are any other terms")[2]
    text = dry("--epsilon", "1", "--set", "epsilon=0.4")[1]
    assert "exchange 0 is refused: these examples were released with epsilon 0.5" in text
    assert "refused is every request, join --epsilon" in dry()[1]
    np.save(path, rows[:300])
    status, text = dry("--epsilon", "1")
    assert status == 2
    assert "300 of these 300 rows, row 1 first, equal rows that were released before" in text
    (home / "privacy" / "ledger").write_text("damaged")
    assert str(home) in dry("--epsilon", "1")[1], "the owner is told which file"


def test_a_dry_run_opens_with_what_left_without_noise(tmp_path, hopfed, monkeypatch):
    """Its first lines promised what epsilon says, of rows that had left exactly."""
    home, path = tmp_path / "home", tmp_path / "d.npy"
    monkeypatch.setenv("HOPFED_HOME", str(home))
    np.save(path, rows := signs(400))

    def opening():
        status, text, error = hopfed("join", "--data", path, "--dry-run", "--epsilon", "4")
        assert status == 0, error
        return " ".join(text.partition("other clients only")[0].split())

    words = "but for what left without noise before"
    assert words not in opening()
    record = Released.of(home / "released", as_examples(rows))
    assert not ask(site(tmp_path, rows, record), method()).fault
    assert words in opening()
    ledger = Ledger(home / "privacy")
    noisy = site(tmp_path / "b", rows, record, epsilon=4.0, ledger=ledger)
    assert not ask(noisy, PrivateFederation(Elsewhere(1), N, 4.0)).fault
    assert words in opening(), "nor is it forgotten once noise was promised"


def test_a_dry_run_after_noise_alone_says_nothing_of_exact_answers(tmp_path, hopfed, monkeypatch):
    home, path = tmp_path / "home", tmp_path / "d.npy"
    monkeypatch.setenv("HOPFED_HOME", str(home))
    np.save(path, rows := signs(400))
    record = Released.of(home / "released", as_examples(rows))
    noisy = site(tmp_path, rows, record, epsilon=4.0, ledger=Ledger(home / "privacy"))
    assert not ask(noisy, PrivateFederation(Elsewhere(1), N, 4.0)).fault
    text = hopfed("join", "--data", path, "--dry-run", "--epsilon", "4")[1]
    assert "without noise before" not in " ".join(text.split())
