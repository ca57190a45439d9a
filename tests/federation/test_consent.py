"""What an owner agrees to, and what servers that lie try all the same."""

import json
import stat
from dataclasses import fields, replace
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pytest

from hopfed import kernels
from hopfed.data.batches import Batches, Elsewhere
from hopfed.data.channel import draw_examples, rademacher
from hopfed.data.readers import as_examples
from hopfed.errors import ArgumentError, DataError
from hopfed.experiments import serve
from hopfed.federation.contract import Context
from hopfed.federation.engines.flower.node import Node, Shelf
from hopfed.federation.engines.flower.wire import Request, write_request
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.faults import Fault
from hopfed.federation.messages import digest
from hopfed.federation.recipes import describe
from hopfed.federation.rounds import play_round
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.allowed import ALLOWED
from hopfed.hopfield.client import pack_patterns, vote, withheld
from hopfed.hopfield.consent import Owner, Releases
from hopfed.hopfield.encoding import Encoding, symmetric
from hopfed.hopfield.inventory import inventory, worst
from hopfed.hopfield.limits import Limits
from hopfed.hopfield.private import PrivateFederation
from hopfed.hopfield.released import Released
from hopfed.plasticity import Agreement, Broadcast, Fixed, Smoothing
from hopfed.rng import stream

N, M = 40, 120


def signs(rows=M, columns=N, quality=0.7):
    rng = stream(0, "owners", rows, columns)
    return draw_examples(rademacher(3, columns, rng), rows, quality, rng)[0]


def site(folder, rows=None, released=None, **limits):
    """Return a node as `hopfed join` makes it."""
    rows = as_examples(signs() if rows is None else rows)
    record = Released.of(folder / "released", rows) if released is None else released
    owner = Owner(rows, 7, limits=Limits(**limits), released=record)
    adapt = lambda method, _: owner.adapt(method)  # noqa: E731
    return Node(Shelf(folder / "states"), adapt, trusted=ALLOWED, private=True)


def ask(node, method, t=0, exchange=0, base=b"", down=None, **where):
    """Ask a node as a server that says what it likes; `method` may be the text of a recipe."""
    text, parts = (method, {}) if isinstance(method, str) else describe(method)
    context = Context(where.get("seed", 0), t, exchange, where.get("client", 0))
    request = Request(where.get("run", "run"), context, base, text, parts, down or {})
    return node.answer(SimpleNamespace(content=write_request(request)))


def refused(reply, words):
    assert reply.fault == Fault.RAISED
    assert words in reply.reason
    assert "\n" not in reply.reason
    assert not reply.up
    return True


def method(rounds=1, columns=N, **settings):
    return HopfieldFederation(Elsewhere(rounds), Encoding(columns), **settings)


def known(patterns, quality=0.9):
    sure = np.ones(len(patterns), np.float32)
    return {
        "patterns": pack_patterns(np.asarray(patterns)),
        "sure": sure,
        "quality": np.float32(quality),
    }


def of_two_rows(message, columns):
    """Rebuild two rows from their column sums and products."""
    products = symmetric(message["counts"], columns, 2)
    sums = message["columns"]
    if (sums == 0).all():
        first = np.sign(products[0])
    else:
        at = int(np.flatnonzero(sums == 0)[0]) if (sums == 0).any() else 0
        first = np.where(sums == 0, np.sign(products[at]), np.sign(sums))
    return first, np.where(sums == 0, -first, first)


def rows_in(rows, guesses):
    """Number of rows that are among the guesses."""
    there = {tuple(np.asarray(g, int)) for g in guesses}
    return sum(tuple(r) in there for r in np.asarray(rows, int))


# Attacks. Each of them works on a client that does as it is told.


def test_a_server_cannot_deal_the_rows_out_in_pairs(tmp_path):
    rows, guesses = signs(60), []
    node = site(tmp_path, rows)
    asked = method(30, groups=0, votes=False)
    replies = [ask(node, asked, t) for t in range(30)]
    for reply in replies:
        if reply.up:
            guesses += of_two_rows(reply.up, N)
    assert rows_in(rows, guesses) == 0, "rows rebuilt from operators alone"
    assert all(refused(r, "batches of fewer than the 50 rows") for r in replies)


def test_a_number_that_is_an_array_is_refused(tmp_path):
    reply = ask(site(tmp_path), _array_as_rounds())
    assert reply.fault == Fault.RAISED
    assert not reply.up
    with pytest.raises(ArgumentError, match="rounds must be a whole number"):
        Elsewhere(np.array([1]))


def _array_as_rounds():
    """Return a method whose number of rounds is an array of one number, which divides at 1."""
    made = method(groups=0, votes=False)
    object.__setattr__(made.source, "rounds", np.array([1]))
    return made


@pytest.mark.parametrize("rounds", ["true", "1.0", "-1", "0", "NaN", "Infinity", '"2"', "null"])
def test_a_number_of_another_type_is_refused(tmp_path, rounds):
    text, _ = describe(method())
    text = text.replace('"rounds": 1', f'"rounds": {rounds}')
    assert rounds in text
    refused(ask(site(tmp_path), text), "Elsewhere.rounds is not a whole number from 1")


def test_the_weight_answers_no_questions(tmp_path):
    asked = method(rule=Agreement())
    where = {"down": known(rademacher(2, N, stream(0, "asked")))}
    reply = ask(site(tmp_path), asked, **where)
    refused(reply, "weighs its examples by Fixed, not by Agreement")
    agreed = ask(site(tmp_path / "agreed", weight=True), asked, **where)
    assert not agreed.fault, agreed.reason


def test_metrics_stay(tmp_path):
    for each in (method(), method(rule=Fixed(0.5))):
        reply = ask(site(tmp_path), each, down=known(rademacher(2, N, stream(0, "asked"))))
        assert not reply.fault
        assert reply.metrics == {}


def test_two_dealings_cannot_be_subtracted(tmp_path):
    """Nor under another name, by a new process, or under another number."""
    rows = signs(200)
    first = ask(site(tmp_path, rows), method(2))
    assert not first.fault
    for rounds in (1, 3, 4):
        node = site(tmp_path, rows)
        reply = ask(node, method(rounds), run="another", client=rounds)
        refused(reply, "dealt over 2 round(s)")
    again = ask(site(tmp_path, rows), method(2), run="another", client=5)
    assert digest(again.up) == digest(first.up)


def test_with_noise_there_is_one_dealing_too(tmp_path):
    rows = signs(200)
    assert not ask(site(tmp_path, rows), PrivateFederation(Elsewhere(2), N, 1.0)).fault
    other = ask(site(tmp_path, rows), PrivateFederation(Elsewhere(3), N, 1.0))
    refused(other, "dealt over 2 round(s)")


def test_a_group_of_one_row_is_not_answered(tmp_path):
    """Groups as many as rows: in each the products of a row with itself, from which it follows."""
    rows, node = signs(), site(tmp_path, most_numbers=10**6)
    asked = method(groups=M)
    started = ask(node, asked)
    basis = {"basis": np.eye(N, dtype=np.float32)}
    reply = ask(node, asked, 0, 1, started.state, basis)
    alone = reply.up["groups"][reply.up["sizes"] == 1] if reply.up else np.zeros((0, 0))
    lower = np.tri(N, dtype=bool)
    guesses = []
    for triangle in alone:
        matrix = np.zeros((N, N))
        matrix[lower] = triangle
        guesses += [np.sign(matrix[:, 0]), -np.sign(matrix[:, 0])]
    assert rows_in(rows, guesses) == 0, "rows rebuilt from projections"
    assert reply.up["sizes"].sum() == M
    assert reply.up["sizes"][reply.up["sizes"] > 0].min() >= 50


def test_groups_cannot_be_drawn_again(tmp_path):
    """Other groups of the same rows, and other directions, would be further equations."""
    node, asked = site(tmp_path), method()
    bases, sums = (np.eye(N, dtype=np.float32)[:, i : i + 3] for i in (0, 3)), []
    first, other = bases
    asks = [(first, 0, 0), (first, 1, 0), (first, 0, 1), (other, 0, 0), (first, 0, 0)]
    for i, (basis, seed, client) in enumerate(asks):
        where = {"run": f"run{i}", "seed": seed, "client": client}
        started = ask(node, asked, **where)
        assert not started.fault
        reply = ask(node, asked, 0, 1, started.state, {"basis": basis}, **where)
        if i in (0, 4):
            sums.append(reply.up["groups"])
        else:
            refused(reply, "answer 1 different question(s) by projections")
    np.testing.assert_array_equal(*sums)


def test_huge_groups_and_bases_are_refused_before_they_are_made(tmp_path):
    node = site(tmp_path)
    for groups, width in ((2**20, 4), (4, 4000)):
        asked = method(groups=groups)
        started = ask(node, asked)
        down = {"basis": np.zeros((N, width), np.float32)}
        refused(ask(node, asked, 0, 1, started.state, down), "numbers more")
    text, _ = describe(method())
    huge = text.replace('"groups": 4', '"groups": 1000000000')
    refused(ask(node, huge, run="another"), "groups is not")


def test_a_pattern_of_one_row_gets_no_vote(tmp_path):
    """The server names a pattern that a single row resembles, and one for all the others."""
    rows = signs(quality=0.9)
    rows[5] = rademacher(1, N, stream(0, "a person"))[0]
    node, asked = site(tmp_path, rows), method()
    started = ask(node, asked)
    down = known(rows[5:6] * np.where(np.arange(N) < 3, -1, 1))
    reply = ask(node, asked, 0, 2, started.state, down)
    assert rows_in(rows[5:6], np.sign(reply.up["votes"])) == 0
    assert reply.up["voters"].tolist() == [0]
    assert not reply.up["votes"].any()


def test_the_one_who_did_not_vote_does_not_follow_from_the_sums(tmp_path):
    """All rows but one vote, all of them for: column sums less the votes are that row."""
    rng = stream(0, "all but one")
    rows = draw_examples(rademacher(1, N, rng), M, 0.9, rng)[0]
    rows[5] = rademacher(1, N, stream(0, "a person"))[0]
    node, asked = site(tmp_path, rows), method()
    started = ask(node, asked)
    reply = ask(node, asked, 0, 2, started.state, known(np.sign(rows.sum(axis=0))[None]))
    left = started.up["columns"] - reply.up["votes"].sum(axis=0)
    assert rows_in(rows[5:6], [left]) == 0
    assert not reply.up["votes"].any()


def test_votes_on_two_sets_of_patterns_cannot_be_subtracted(tmp_path):
    """A little more quality, and one row fewer votes: the difference is that row."""
    rows, found = signs(quality=0.9), []
    pattern = np.sign(rows.sum(axis=0))[None] + 0
    pattern[pattern == 0] = 1
    node, asked, sums = site(tmp_path, rows), method(), []
    for i, quality in enumerate(np.linspace(0.2, 1.0, 30)):
        started = ask(node, asked, run=f"run{i}")
        reply = ask(node, asked, 0, 2, started.state, known(pattern, quality), run=f"run{i}")
        if not reply.fault:
            sums.append(reply.up["votes"][0])
    for a, b in pairwise(sums):
        found += [a - b, b - a]
    assert rows_in(rows, found) == 0
    assert len(sums) == 1
    refused(reply, "answer 1 different question(s) by votes")


def test_rows_of_one_round_are_not_grouped_as_those_of_another(tmp_path):
    """The state that a request names is that of its round."""
    node, asked = site(tmp_path, signs(200)), method(2)
    started = ask(node, asked, 0)
    basis = {"basis": np.eye(N, dtype=np.float32)[:, :2]}
    refused(ask(node, asked, 1, 1, started.state, basis), "not that of this round")
    refused(ask(node, asked, 0, 1, b"", basis), "not that of this round")
    refused(ask(node, asked, 2, 0), "round must be in 0 .. 1")
    refused(ask(node, asked, 0, 3, started.state, basis), "exchange must be one of the round")


def test_only_so_many_numbers_leave(tmp_path):
    """Forms, widths and seeds without end; the same question is free."""
    node, sent, free = site(tmp_path), 0, 0
    for seed in range(200):
        encoding = Encoding(N, "sketch", 20, seed=seed)
        reply = ask(node, replace(method(), encoding=encoding), run=f"r{seed}")
        sent += sum(a.size for a in reply.up.values())
    refused(reply, "may leave about a row")
    assert 0 < sent <= Limits().numbers(N)
    for _ in range(3):
        again = ask(site(tmp_path), replace(method(), encoding=Encoding(N, "sketch", 20)))
        free += not again.fault
    assert free == 3


def test_the_name_of_a_state_does_not_confirm_a_guess(tmp_path):
    rows = as_examples(signs())
    reply = ask(site(tmp_path), method())
    state, _, _ = replace(method(), source=Batches((rows,))).client_step({}, {}, Context(0, 0, 0))
    assert digest(state) != reply.state


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[" * 50_000 + "]" * 50_000,
        '["list", [' * 400 + "]]" * 400,
        "{",
        "",
        "null",
        "[]",
        "9" * 90_000,
        '["made", ["made"], {}]',
        '["made", "hopfed.__main__:cli", {}]',
        '["made", "hopfed.recovery:Settings", {}]',
        '["made", "hopfed.data.batches:Batches", {"owners": ["tuple", []]}]',
        '["made", "hopfed.data.batches:Elsewhere", []]',
        '["made", "hopfed.data.batches:Elsewhere", {"rounds": 1}]',
        '["made", "hopfed.data.batches:Elsewhere", {"\\u001b[2J": 1}]',
        '["array", "x"]',
        "x" * 10_000_000,
    ],
)
def test_a_damaged_recipe_is_one_line_and_the_client_goes_on(tmp_path, text):
    node = site(tmp_path)
    reply = ask(node, text)
    refused(reply, "")
    assert reply.reason.isprintable()
    assert len(reply.reason) < 400
    assert not ask(node, method()).fault


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"carry": 0.5', '"carry": NaN', "carry"),
        ('"carry": 0.5', '"carry": -0.1', "carry"),
        ('"alpha": 0.001', '"alpha": "x"', "alpha"),
        ('"votes": true', '"votes": 1', "votes"),
        ('"votes": true', '"votes": true, "secret": 1', "secret"),
        ('"search": null', '"search": ["list", []]', "search"),
        ('"n_sites": 40', '"n_sites": 40.0', "n_sites"),
        ('"form": "counts"', '"form": "rows"', "form"),
        ('"seed": 0', '"seed": true', "seed"),
        ('"ema": 1.0', '"ema": ["number", "x"]', "x"),
    ],
)
def test_every_field_has_a_type_and_a_range(tmp_path, old, new, words):
    text, _ = describe(method())
    assert old in text
    refused(ask(site(tmp_path), text.replace(old, new)), words)


def test_arrays_in_a_recipe_are_refused(tmp_path):
    text, _ = describe(method())
    request = Request("run", Context(0, 0, 0, 0), b"", text, {"x": np.zeros(3)}, {})
    node = site(tmp_path)
    refused(node.answer(SimpleNamespace(content=write_request(request))), "or with arrays")


@pytest.mark.parametrize("cls", ALLOWED.classes, ids=lambda cls: cls.__name__)
def test_the_list_names_every_field_of_its_classes(cls):
    """A field that is new needs somebody to say what a server may put into it."""
    assert set(ALLOWED.classes[cls]) == {f.name for f in fields(cls) if f.init}


@pytest.mark.parametrize(
    "down",
    [
        {"basis": np.zeros((N, 2), np.int32)},
        {"basis": np.full((N, 2), np.nan, np.float32)},
        {"basis": np.zeros((N + 1, 2), np.float32)},
        {"basis": np.zeros(N, np.float32)},
        {},
        {"basis": np.zeros((N, 2), np.float32), "more": np.zeros(2)},
    ],
)
def test_a_malformed_question_is_one_line(tmp_path, down):
    node, asked = site(tmp_path), method()
    started = ask(node, asked)
    refused(ask(node, asked, 0, 1, started.state, down), "malformed message from the server")


def test_malformed_patterns_are_one_line(tmp_path):
    node, asked = site(tmp_path), method()
    started = ask(node, asked)
    good = known(rademacher(3, N, stream(0, "asked")))
    for change in (
        {"patterns": np.zeros((3, 4), np.uint8)},
        {"patterns": np.zeros((3, 5), np.uint16)},
        {"sure": np.ones(2, np.float32)},
        {"sure": np.full(3, np.inf, np.float32)},
        {"quality": np.float32("nan")},
        {"quality": np.ones(3, np.float32)},
    ):
        refused(ask(node, asked, 0, 2, started.state, good | change), "malformed message")
    assert not ask(node, asked, 0, 2, started.state, good).fault


# How few rows of how many columns an operator does not hide, and that no such batch is made.


def rebuilt(operator, rows):
    """Rows of +-1 that lie in the range of an operator, as independent components of it."""
    values, vectors = np.linalg.eigh(operator)
    U = vectors[:, values > 1e-3].astype(np.float32)
    found, rng = set(), np.random.default_rng(0)
    for _ in range(20):
        Y = U @ rng.standard_normal((U.shape[1], 1000)).astype(np.float32)
        for _ in range(10):
            Y /= np.sqrt((Y * Y).mean(axis=0))
            Y = U @ (U.T @ (Y * np.clip(3 - Y * Y, -3, 3)))
        for _ in range(30):
            Y = U @ (U.T @ np.sign(Y))
        Z = np.where(Y < 0, -1, 1)
        inside = np.abs(Z - U @ (U.T @ Z)).max(axis=0) < 0.1
        found |= {tuple(z * z[0]) for z in Z.T[inside]}
        if len(found) >= rows:
            break
    return found


def test_an_operator_of_few_rows_gives_them_away_and_is_not_sent(tmp_path):
    columns = 784
    rows = signs(600, columns, 0.6)
    few = kernels.unpack(Batches((as_examples(rows),), 12).examples(3, 0))
    found = rebuilt((few.T.astype(float) @ few), len(few))
    assert {tuple(r * r[0]) for r in few.astype(int)} == found
    reply = ask(site(tmp_path, rows), method(12, columns, groups=0, votes=False))
    refused(reply, "batches of fewer than the 140 rows")
    assert not ask(site(tmp_path, rows), method(4, columns, groups=0, votes=False)).fault


def test_limits_are_those_of_the_owner(tmp_path):
    rows = signs(200)
    for limits, asked, words in (
        ({"rounds": 2}, method(1), "over 2 round(s), not over 1"),
        ({"smallest_batch": 101}, method(2), "fewer than the 101 rows"),
        ({"questions": 0}, method(), "answers no questions"),
        ({"most_numbers": 700}, method(), "may leave about a row"),
    ):
        refused(ask(site(tmp_path, rows, Released(), **limits), asked), words)
    assert not ask(site(tmp_path, rows, Released(), rounds=2), method(2)).fault
    open_ = site(tmp_path / "open", rows, Released(), smallest_batch=2, smallest_vote=2)
    started = ask(open_, method(100))
    assert not started.fault
    groups = ask(open_, method(100), 0, 1, started.state, {"basis": np.eye(N, 1, dtype="f4")})
    assert groups.up["sizes"].tolist() == [2, 0, 0, 0]
    for wrong in ({"rounds": -1}, {"smallest_batch": 1}, {"smallest_vote": 1}, {"questions": 1.5}):
        with pytest.raises(ArgumentError):
            Limits(**wrong)


def test_two_sets_are_answered_where_the_owner_says_so(tmp_path):
    node, asked = site(tmp_path, questions=2), method()
    started = ask(node, asked)
    faults = []
    for i in range(3):
        patterns = rademacher(2, N, stream(i, "asked"))
        faults.append(bool(ask(node, asked, 0, 2, started.state, known(patterns)).fault))
    assert faults == [False, False, True]


# The record.


def test_a_record_is_the_owners_alone_and_survives(tmp_path):
    assert not ask(site(tmp_path), method()).fault
    (path,) = (tmp_path / "released").glob("*.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    held = json.loads(path.read_text())
    assert held["rounds"] == 1
    assert held["batches"]["0"]["numbers"] == N * (N - 1) // 2 + N + 2
    for damaged in ("", "{}", '{"rounds": 1, "batches": {"0": {}}}', "[1]", "nonsense"):
        path.write_text(damaged)
        refused(ask(site(tmp_path), method()), "is damaged")
    path.unlink()
    assert not ask(site(tmp_path), method()).fault


def test_nothing_is_sent_that_could_not_be_recorded(tmp_path, monkeypatch):
    node = site(tmp_path)
    (tmp_path / "released").rmdir()
    reply = ask(node, method())
    assert reply.fault == Fault.RAISED
    assert not reply.up


def test_other_rows_have_another_record(tmp_path):
    rows = signs()
    assert not ask(site(tmp_path, rows), method()).fault
    assert not ask(site(tmp_path, rows[:-1]), method(2)).fault
    assert len(list((tmp_path / "released").glob("*.json"))) == 2


# Votes.


def test_what_is_withheld_leaves_no_few():
    """By brute force: no combination of the sums with their signs is over a few rows only."""
    least = 4
    for seed in range(100):
        rng = np.random.default_rng(seed)
        K = int(rng.integers(1, 4))
        chosen = np.zeros((int(rng.integers(4, 25)), K))
        at = rng.integers(0, K, len(chosen))
        chosen[np.arange(len(chosen)), at] = rng.choice([-1, 0, 1], len(chosen), p=[0.1, 0.1, 0.8])
        out = withheld(chosen, least)
        kept = chosen[:, ~out]
        assert (np.abs(kept).sum(axis=0) >= least).all()
        for combination in product((-1, 0, 1), repeat=kept.shape[1]):
            behind = np.count_nonzero(1 + kept @ np.array(combination))
            assert behind == 0 or behind >= least


def test_votes_with_many_behind_them_are_as_they_were():
    rng = stream(0, "votes")
    xi = rademacher(3, 200, rng)
    rows = kernels.pack(draw_examples(xi, 150, 0.8, rng)[0])
    free, held = (vote(rows, Broadcast(xi, 0.8), np.ones(3), least) for least in (1, 10))
    assert digest(free) == digest(held)


# What an owner agrees to.


def examples(n=40, columns=30):
    rng = stream(0, "owners")
    return as_examples(draw_examples(rademacher(2, columns, rng), n, 0.8, rng)[0])


def owner_of(rows, *given, **more):
    return Owner(rows, *given, limits=Limits(smallest_batch=5), **more)


def test_an_owner_agrees_to_what_was_agreed_and_no_more():
    rows = examples()
    plain = serve.Config(columns=30, rounds=2).make()
    private = serve.Config(columns=30, rounds=2, epsilon=1.0).make()
    open_, careful = owner_of(rows, 7), owner_of(rows, 7, epsilon=1.0)
    assert open_.adapt(plain).batches.examples(0, 2).shape == (20, 30)
    few = serve.Config(columns=30, rounds=2, groups=0, votes=False).make()
    quiet = Owner(rows, 7, limits=Limits(smallest_batch=5, questions=0))
    assert quiet.adapt(few).batches.rounds == 2
    assert open_.adapt(private).method.secret == careful.adapt(private).method.secret == 7
    for owner, asked, words in (
        (careful, plain, "with noise only"),
        (owner_of(rows, 7, epsilon=0.5), private, "more than this client's epsilon"),
        (owner_of(rows, 7, epsilon=1.0, delta=1e-7), private, "more than this client's epsilon"),
        (quiet, plain, "answers no questions"),
        (open_, serve.Config(columns=31).make(), "31 columns"),
        (open_, open_.adapt(plain).method, "does not leave the examples where they are"),
        (open_, LocalEngine(), "does not take part in LocalEngine"),
    ):
        with pytest.raises(DataError, match=words):
            owner.adapt(asked)


def test_the_same_examples_are_not_released_on_other_terms(tmp_path):
    """Nor by a new process; on the same terms there is nothing against it."""
    owner = owner_of(examples(), 7, epsilon=2.0, releases=Releases(tmp_path / "releases.json"))
    first = serve.Config(columns=30, epsilon=1.0)
    for _ in range(2):
        owner.adapt(first.make())
    for change in ({"epsilon": 0.5}, {"rounds": 2}, {"delta": 1e-6}):
        with pytest.raises(DataError, match="released with epsilon 1, delta 1e-05, 1 round"):
            owner.adapt(replace(first, **change).make())
    other = owner_of(examples(41), 7, epsilon=2.0, releases=owner.releases)
    other.adapt(replace(first, epsilon=0.5).make())


def test_a_release_that_is_repeated_has_the_same_noise_and_another_owner_has_other():
    rows = examples()
    asked = serve.Config(columns=30, epsilon=1.0).make()

    def released(secret):
        agreed = owner_of(rows, secret).adapt(asked)
        _, message, metrics = agreed.client_step(agreed.client_start(0, 0), {}, Context(0, 0, 0, 0))
        assert metrics == {}
        return message

    assert digest(released(7)) == digest(released(7)) != digest(released(8))
    noise = released(7)["counts"] - released(8)["counts"]
    assert np.std(noise) == pytest.approx(np.sqrt(2) * asked.mechanism.scale(30), rel=0.1)


def test_what_a_message_reveals_is_said_of_every_array():
    rows = examples()
    for config in (serve.Config(columns=30), serve.Config(columns=30, form="factors", width=3)):
        made = config.make(Batches((rows,)))
        _, message, _ = made.client_step({}, {}, Context(0, 0, 0, 0))
        found = inventory(made, message)
        assert {name for name, *_ in found} == set(message)
        assert all(reveals for *_, reveals in found)
    made = serve.Config(columns=30, epsilon=2.0).make(Batches((rows,)))
    assert isinstance(made, PrivateFederation)
    _, message, _ = made.client_step({}, {}, Context(0, 0, 0, 0))
    assert set(message) == {"counts", "examples"}, "column sums and weights are releases too"
    assert "epsilon 2" in inventory(made, message)[0][-1]


def test_the_worst_is_no_better_than_what_can_be_had(tmp_path):
    """A server that takes all it can stays within what the dry run says."""
    limits = Limits()
    lines = {line.exchange: line for line in worst((M, N), limits)}
    node, sent = site(tmp_path), {0: 0, 1: 0, 2: 0}
    asked = replace(method(2), encoding=Encoding(N, "factors", 1))
    started = ask(node, asked)
    for width in range(N + 20, 0, -1):
        reply = ask(node, asked, 0, 1, started.state, {"basis": np.ones((N, width), np.float32)})
        sent[1] += sum(a.size for a in reply.up.values())
        if reply.up:
            assert reply.up["sizes"][reply.up["sizes"] > 0].min() >= lines[1].rows
    assert 0 < sent[1] <= lines[1].numbers
    assert sum(a.size for a in started.up.values()) + sent[1] <= limits.numbers(N)
    assert lines[0].rows == M // 2


def test_a_client_plays_the_rounds_that_a_simulation_plays():
    """With the same limits, whoever asks: to the bit."""
    rows, config = as_examples(signs(300)), serve.Config(columns=N, rounds=2)
    agreed, alone = Owner(rows, 1).adapt(config.make()), config.make(Batches((rows,), 2))
    found, expected = (
        play_round(made, None, 0, seed=0, clients=1, engine=LocalEngine())
        for made in (agreed.method, alone)
    )
    assert digest(found.state.server) == digest(expected.state.server)


def test_smoothing_tells_nothing_of_the_rows(tmp_path):
    """A fixed weight is the server's own number, however it is smoothed."""
    asked = method(2, rule=Fixed(0.3), smoothing=Smoothing(ema=0.5, momentum=0.5))
    weights = []
    for i, quality in enumerate((0.2, 0.9)):
        node = site(tmp_path / str(i), signs(200, quality=quality))
        started = ask(node, asked)
        after = ask(node, asked, 1, 0, started.state, known(rademacher(2, N, stream(0, "x"))))
        weights.append((float(started.up["weight"]), float(after.up["weight"])))
    assert weights[0] == weights[1]
