"""Attacks by somebody who wrote none of what they are aimed at; each succeeded once."""

import resource
import time
from dataclasses import replace

import numpy as np
import pytest
from asking import N, ask, known, method, refused, rows_in, signs, site
from liars import claiming, close, lying, own, owners

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.cli.join import _finish
from hopfed.data.batches import Batches, Elsewhere
from hopfed.data.channel import draw_examples, rademacher
from hopfed.data.readers import as_examples
from hopfed.errors import DataError
from hopfed.experiments.serve import Config, play
from hopfed.federation.engines.flower.kept_states import KeptStates
from hopfed.federation.engines.flower.node import Node
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.messages import digest
from hopfed.federation.recipes import describe
from hopfed.federation.rounds import FederationState
from hopfed.hopfield.allowed import ALLOWED
from hopfed.hopfield.client import on_grid, project, spread, unpack_patterns
from hopfed.hopfield.encoding import symmetric
from hopfed.hopfield.leaks.columns_apart import set_apart
from hopfed.hopfield.noisy import PrivateFederation
from hopfed.hopfield.site.budget import Ledger, Terms
from hopfed.hopfield.site.consent import Owner
from hopfed.hopfield.site.limits import Limits
from hopfed.hopfield.site.released import Released

# What an exact operator holds of few rows, however many rows it is of.


def lone(M=400):
    """Rows of which one alone has -1 in column 3."""
    rows = signs(M).copy()
    rows[:, 3] = 1
    rows[17, 3] = -1
    return rows


def test_a_row_with_a_value_of_its_own_is_in_the_operator_and_is_not_sent(tmp_path):
    """Ten times as many rows as columns: column sums less a row of the counts are that row."""
    rows = lone()
    sent = ask(site(tmp_path / "open", rows, smallest_set=1), method()).up
    S = symmetric(sent["counts"], N, len(rows))
    assert rows_in(rows[17:18], [(sent["columns"] - S[3]) / 2]) == 1
    for form in ("counts", "factors", "sketch"):
        asked = method()
        asked = replace(asked, encoding=replace(asked.encoding, form=form, width=N))
        reply = ask(site(tmp_path / form, rows), asked)
        refused(reply, "fewer than 3 rows of this batch")
        assert "column 4" not in reply.reason


def test_a_row_in_which_two_columns_differ_is_in_the_operator_and_is_not_sent(tmp_path):
    rows = signs(400).copy()
    rows[:, 5] = -rows[:, 3]
    rows[20, 5] = rows[20, 3]
    sent = ask(site(tmp_path / "open", rows, smallest_set=1), method()).up
    S = symmetric(sent["counts"], N, len(rows))
    half = (S[3] + S[5]) / 2
    assert rows_in(rows[20:21], [half, -half]) == 1
    refused(ask(site(tmp_path, rows), method()), "fewer than 3 rows of this batch")


def test_the_columns_are_named_to_the_owner_alone(tmp_path, hopfed):
    np.save(tmp_path / "d.npy", lone())
    arguments = ("join", "--data", tmp_path / "d.npy", "--dry-run")
    status, _, error = hopfed(*arguments)
    assert status == 2
    assert "column 4 set fewer than 3 rows apart" in error
    assert hopfed(*arguments, "--epsilon", 1)[0] == 0
    assert hopfed(*arguments, "--smallest-set", 1)[0] == 0


@pytest.mark.parametrize("least", [2, 3, 7])
def test_few_rows_are_found_by_brute_force(least):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.choice([-1, 1], (int(rng.integers(4, 40)), int(rng.integers(2, 300))))
        some = rng.integers(0, x.shape[1], 3)
        x[:, some] = np.where(rng.random((len(x), 3)) < 0.1, -1, 1)
        found = set_apart(kernels.pack(x), least)
        for columns in found:
            values = x[:, columns[0]] * (x[:, columns[1]] if len(columns) > 1 else 1)
            assert 0 < min((values > 0).sum(), (values < 0).sum()) < least
        alone = np.minimum((x > 0).sum(axis=0), (x < 0).sum(axis=0))
        assert {c for c, *more in found if not more} == set(
            np.flatnonzero((alone > 0) & (alone < least))
        )
        differ = (len(x) - np.abs(x.T @ x)) // 2
        pairs = np.triu((differ > 0) & (differ < least), 1).any(axis=1)
        assert {c for c, *more in found if more} == set(np.flatnonzero(pairs))


# Rounding as a question.


SITES, HALF = 60, 29


def gate(row, scale, size=1.0):
    """Directions of which the first, when rounded, is 0 in all rows but those near to one."""
    V = np.zeros((SITES, HALF + 1), np.float32)
    V[SITES - 2, 0], V[SITES - 1, 0] = 2.0**24, -(2.0**24)
    V[:HALF, 0] = row[:HALF] * np.float32(scale)
    V[np.arange(HALF, SITES - 2), np.arange(1, HALF + 1)] = 1
    V[:, 0] *= np.float32(size)
    return V


def test_a_sum_over_a_group_is_not_one_over_a_row_by_rounding(tmp_path):
    """Two equal columns of large weight cancel; what is beside them is rounded to a threshold.

    Who knows the first half of a row learnt the second, of 200 rows in one group.
    """
    rows = signs(200, SITES, 0.5).copy()
    rows[:, SITES - 2 :] = 1
    packed = kernels.pack(rows)
    opened = [kernels.matmat(packed, gate(rows[7], s))[:, 0] for s in (0.05, 0.06)]
    assert [np.flatnonzero(values).tolist() for values in opened] == [[7], [7]]
    beside = [k * (k + 1) // 2 for k in range(1, HALF + 1)]
    column = project(packed, gate(rows[7], 0.05), 1, 0, 0)["groups"][0][beside]
    assert rows_in([rows[7, HALF : SITES - 2]], [np.sign(column)]) == 1

    node, asked = site(tmp_path, rows), method(columns=SITES, groups=1)
    started = ask(node, asked)
    down = {"basis": gate(rows[7], 0.05)}
    refused(ask(node, asked, 0, 1, started.state, down), "longer than 1")
    down = {"basis": gate(rows[7], 0.05, 2.0**-25)}
    assert not ask(node, asked, 0, 1, started.state, down).up["groups"][0][beside].any()


@pytest.mark.parametrize(("M", "columns"), [(50, 40), (400, 784), (1000, 3000)])
def test_on_a_grid_sums_are_those_of_whole_numbers(M, columns):
    rng = np.random.default_rng(M)
    rows = rng.choice([-1, 1], (M, columns))
    V = np.linalg.qr(rng.standard_normal((columns, 6)))[0].astype(np.float32)
    rounded = on_grid(V)
    assert np.abs(rounded - V).max() <= 2.0**-12
    scaled = [[int(v) for v in row] for row in (rounded * 2.0**30).astype(np.int64)]
    X = rows.astype(object) @ np.array(scaled, dtype=object)
    exact = X.T @ X
    found = project(kernels.pack(rows), V, 1, 0, 0, 50)["groups"][0]
    want = [np.float32(float(exact[i, j]) / 2.0**60) for i in range(6) for j in range(i + 1)]
    assert found.tolist() == want


def test_groups_along_single_columns_do_not_show_single_rows(tmp_path):
    """Of 50 columns that are most alike, two differ in one row of 50, and give away its others."""
    rng = stream(0, "fragments")
    rows = draw_examples(rademacher(3, 200, rng), 500, 0.9, rng)[0]
    alike = np.argsort(-np.abs(rows[:, 0] @ rows.astype(int)))[:50]
    V = np.zeros((200, 50), np.float32)
    V[alike, np.arange(50)] = 1
    packed = kernels.pack(rows)
    once = project(packed, V, 10, 0, 0)
    assert shown(once, rows[:, alike]) > 50
    node, asked = site(tmp_path, rows, smallest_set=1), method(columns=200, groups=8)
    started = ask(node, asked)
    assert not started.fault
    assert shown(ask(node, asked, 0, 1, started.state, {"basis": V}).up, rows[:, alike]) == 0


def shown(answer, rows):
    """Number of rows that are among differences of two lines of a group's table."""
    guesses = []
    for triangle, size in zip(answer["groups"], answer["sizes"], strict=True):
        S = symmetric_of(triangle, rows.shape[1])
        for a, b in zip(*np.nonzero(np.triu((size - np.abs(S)) // 2 == 1, 1)), strict=True):
            row = (S[a] - np.sign(S[a, b]) * S[b]) // 2
            guesses += [row, -row]
    return rows_in(rows, guesses)


def test_a_row_that_two_columns_set_apart_in_a_group_is_not_read_off_as_digits(tmp_path):
    """Of the 3 rows of a batch in which two columns differ, a random group often has one alone.

    Beside that direction, others with powers of 2 as entries gave 198 values of 200 of the row.
    """
    rng, bits, columns = np.random.default_rng(5), 12, 200
    rows = draw_examples(rademacher(3, columns, rng), 400, 0.8, rng)[0]
    apart = [11, 222, 333]
    rows[:, 1] = rows[:, 0]
    rows[apart, 1] *= -1
    V = np.zeros((columns, 1 + -(-(columns - 2) // bits)), np.float32)
    V[0, 0], V[1, 0] = 0.5, -0.5
    for i in range(columns - 2):
        V[2 + i, 1 + i // bits] = 2.0 ** -(1 + i % bits)

    def read(answer):
        found = []
        for triangle in answer["groups"]:
            line = [triangle[k * (k + 1) // 2] for k in range(V.shape[1])]
            row = []
            for rest in line[1:] if line[0] == 1 else ():
                for bit in range(bits):
                    row.append(np.sign(rest))
                    rest -= row[-1] * 2.0 ** -(1 + bit)
            found += [row[: columns - 2], [-value for value in row[: columns - 2]]]
        return rows_in(rows[apart, 2:], found)

    assert read(project(kernels.pack(rows), V, 2, 3, 0)) == 1
    node, asked = site(tmp_path, rows), method(columns=columns, groups=8)
    started = ask(node, asked)
    reply = ask(node, asked, 0, 1, started.state, {"basis": V})
    assert reply.up["sizes"].tolist() == [400] + 7 * [0]
    assert read(reply.up) == 0
    mixed = np.linalg.qr(np.random.default_rng(0).standard_normal(2 * V.shape[1:]))[0]
    assert not spread(kernels.pack(rows), on_grid(V) @ mixed, 2, 3, 0)


@pytest.mark.parametrize("seed", [15, 32, 34, 36])
def test_votes_less_a_line_of_the_operator_do_not_leave_a_row(tmp_path, seed):
    """Patterns in pairs that differ in one column sort all voters by it, as the operator does.

    For these 4 of 40 seeds one row alone voted for nothing, and the difference was that row.
    """
    rng, columns, M = np.random.default_rng(seed), 120, 150
    rows = draw_examples(rademacher(3, columns, rng), M, 0.7, rng)[0]
    node, asked = site(tmp_path, rows), method(columns=columns)
    started = ask(node, asked)
    first = rademacher(2, columns, rng)
    patterns = np.repeat(first, 2, axis=0)
    patterns[1::2, 0] *= -1
    down = known(patterns, 1.0) | {"sure": np.full(4, 0.035, np.float32)}
    up = ask(node, asked, 0, 2, started.state, down).up
    away = M - int(up["voters"].sum())
    assert away == 0 or away >= 10
    line = symmetric(started.up["counts"], columns, M)[0]
    left = line - patterns[:, 0] @ up["votes"]
    assert rows_in(rows, [left, -left]) == 0


def test_votes_that_agree_in_a_column_but_for_one_row_do_not_leave_it(tmp_path):
    """An honest question about rows of much quality left such a row, too."""
    rng, columns, M = np.random.default_rng(1), 60, 300
    rows = draw_examples(rademacher(3, columns, rng), M, 0.6, rng)[0]
    pattern = rademacher(1, columns, rng)[0]
    overlap = rows[:, 1:] @ pattern[1:].astype(int)
    rows[:, 0] = np.sign(overlap) * pattern[0]
    rows[np.abs(overlap).argmax(), 0] *= -1
    node, asked = site(tmp_path, rows), method(columns=columns)
    started = ask(node, asked)
    assert not started.fault
    down = known(pattern[None], 1.0) | {"sure": np.full(1, 1e-3, np.float32)}
    up = ask(node, asked, 0, 2, started.state, down).up
    line = symmetric(started.up["counts"], columns, M)[0]
    half = (line - pattern[0] * up["votes"][0]) / 2
    assert rows_in(rows, [half, -half]) == 0
    assert up["voters"].sum() <= M - 10


def symmetric_of(triangle, K):
    full = np.zeros((K, K))
    full[np.tri(K, dtype=bool)] = np.rint(triangle)
    return (full + full.T - np.diag(np.diag(full))).astype(int)


# What is left with noise.


def test_with_epsilon_one_noisy_table_leaves_and_nothing_else(tmp_path):
    """Whatever is asked, in whatever order: counts with noise, and how many rows these are of."""
    rows = signs(300)
    node = private_site(tmp_path, rows)
    asked = [private(2), *(method(r, groups=g) for r in (1, 2) for g in (0, 4)), private(2, 0.5)]
    asked += [private(1), private(2, 1.0, 1e-6), private(2, 2.0), private(2)]
    basis, patterns = {"basis": np.eye(N, 2, dtype="f4")}, known(rows[:3])
    replies = []
    for i, each in enumerate(asked):
        for t in range(2):
            for exchange, down in enumerate(({}, basis, patterns)):
                replies.append(ask(node, each, t, exchange, b"", down, run=f"r{i}", client=i))
    sent = [reply.up for reply in replies if reply.up]
    assert all(set(up) == {"counts", "examples"} for up in sent)
    assert not any(reply.metrics for reply in replies)
    assert len(sent) == 4
    assert len({digest(up) for up in sent}) == 2
    order = Ledger(tmp_path / "privacy").charge(as_examples(rows), Terms(1.0, 1e-5, 2))[0]
    x = kernels.unpack(Batches((order,), 2).examples(0, 0)).astype(int)
    noise = sent[0]["counts"] - (x.T @ x)[np.tri(N, k=-1, dtype=bool)]
    scale = private(2).mechanism.scale
    assert 0.8 * scale < noise.std() < 1.2 * scale


def private(rounds, epsilon=1.0, delta=1e-5):
    return PrivateFederation(Elsewhere(rounds), N, epsilon, delta)


def private_site(folder, rows):
    rows, ledger = as_examples(rows), Ledger(folder / "privacy")
    limits, released = Limits(smallest_batch=50), Released.of(folder / "released", rows)
    owner = Owner(rows, 7, 1.0, 1e-5, ledger, limits, released)
    adapt = lambda method, _: owner.adapt(method)  # noqa: E731
    return Node(KeptStates(folder / "states"), adapt, trusted=ALLOWED, private=True)


# What a reason tells, and what a server can make a client do.


def test_a_disk_that_takes_nothing_does_not_tell_the_server_a_digest_of_the_rows(tmp_path):
    node = site(tmp_path)
    assert not ask(node, method()).fault
    (path,) = (tmp_path / "released").glob("*.json")
    path.write_text("damaged")
    told = [ask(site(tmp_path), method()).reason]
    path.unlink()
    path.mkdir()
    (path / "in the way").touch()
    told.append(ask(site(tmp_path), method()).reason)
    assert all(told)
    assert not any(word in reason for reason in told for word in (path.stem, str(tmp_path)))


def test_a_recipe_does_not_keep_a_client_busy(tmp_path):
    text, _ = describe(PrivateFederation(Elsewhere(1), N, 1.0))
    text = text.replace('"epsilon": 1.0', '"epsilon": 1e-300').replace("1e-05", "1e-300")
    began = time.monotonic()
    refused(ask(site(tmp_path), text.replace(f'"n_sites": {N}', f'"n_sites": {2**24}')), "n_sites")
    assert time.monotonic() - began < 5


def test_a_last_word_without_end_fills_neither_memory_nor_disk(tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match="too many"):
        _finish({"patterns": np.zeros((2_000_000, 98), np.uint8)}, 784, tmp_path / "found.npy")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["d.npy", "ca.npy", "key.npy"])
def test_what_was_found_does_not_replace_the_examples_or_a_key(tmp_path, hopfed, name):
    np.save(tmp_path / "d.npy", signs(240))
    for other in ("ca.npy", "key.npy"):
        (tmp_path / other).write_text("of value")
    before = (tmp_path / name).read_bytes()
    files = {"--data": "d.npy", "--ca": "ca.npy", "--key": "key.npy", "--out": name}
    named = [word for option, file in files.items() for word in (option, tmp_path / file)]
    status, _, error = hopfed("join", *named, "--server", "127.0.0.1:9", "--patience", 1)
    assert status == 2
    assert "--out must be another file than the input" in error
    assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize(
    ("option", "value"), [("--patience", "nan"), ("--patience", "-1"), ("--delta", "2")]
)
def test_options_that_promise_nothing_are_refused(tmp_path, hopfed, option, value):
    np.save(tmp_path / "d.npy", signs(240))
    status, _, error = hopfed("join", "--data", tmp_path / "d.npy", "--dry-run", option, value)
    assert (status, option in error) == (2, True)


def test_patterns_surer_than_sure_are_no_numbers_that_are_none(tmp_path):
    node, asked = site(tmp_path), method()
    started = ask(node, asked)
    down = known(signs(3))
    down["sure"] = np.array([1e30, -5, 2], np.float32)  # a warning would be an error here
    assert not ask(node, asked, 0, 2, started.state, down).fault


# Clients.


@pytest.mark.parametrize("weight", [5e-324, 1e-300, 1e-40])
def test_clients_of_next_to_no_weight_do_not_stop_a_server_that_hears_only_them(weight):
    change = lambda message, down, step, rng: (  # noqa: E731
        {"weight": np.array(weight)} if "weight" in message else {}
    )
    _, source = owners([close(120, 0.0)] * 2, 0, N=60, M=120, K=2)
    method_ = lying(Config(columns=60, clients=2).make(source), change, 2)
    start = FederationState(method_.server_start(0))
    arrays, _ = play(Config(columns=60, clients=2), method_, 0, 0, start, LocalEngine())
    assert int(arrays["archetypes/number"]) == 0


@pytest.mark.parametrize(
    ("liars", "clients", "told"),
    [(1, 3, 3), (1, 10, 3), (3, 30, 3), (1, 2, 0), (2, 4, 4), (2, 10, 4), (4, 30, 4)],
)
def test_how_many_liars_the_page_for_owners_speaks_of(liars, clients, told):
    """Archetypes of which three are true; where there are four, one is that of the liars."""
    M = 60 if clients == 30 else 300
    xi, source = owners([own(M)] * liars, clients - liars, N=200, M=M)
    config = Config(columns=200, clients=clients)
    lies = lying(config.make(source), claiming(3_000_000), liars)
    start = FederationState(lies.server_start(0))
    arrays, _ = play(config, lies, 0, 0, start, LocalEngine())
    number = int(arrays["archetypes/number"])
    found = unpack_patterns(arrays["archetypes/packed"][:number], 200).astype(int) @ xi.T
    assert number == told
    assert (np.abs(found) == 200).sum() == min(told, 3)
