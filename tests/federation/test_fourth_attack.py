"""What a fourth attack on the defaults found, as tests."""

import socket
import ssl
import threading
import time
from contextlib import suppress

import httpx
import numpy as np
import pytest
from asking import N, ask, known, method, refused, rows_in, site
from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.proto.node_pb2 import Node
from liars import claiming, lying, owners

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.archetypes.overlap import retrieval
from hopfed.data.channel import draw_examples, rademacher
from hopfed.experiments.serve import Config, play
from hopfed.federation.engines.flower import fleet_client
from hopfed.federation.engines.flower.keys import make_keys, private_key
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.rounds import FederationState
from hopfed.hopfield.client import unpack_patterns
from hopfed.hopfield.encoding import symmetric
from hopfed.hopfield.leaks.broken_relations import broken_by
from hopfed.hopfield.leaks.columns_apart import set_apart
from hopfed.hopfield.leaks.known_rows import told_member, told_value
from hopfed.hopfield.leaks.rare_values import given_away
from hopfed.hopfield.site.limits import Limits


def sent(up):
    """Inverse of the operator in a message."""
    S = symmetric(up["counts"], len(up["columns"]), int(up["examples"]))
    return np.linalg.inv(S)


def completed(inverse, row, unknown):
    """The row that is shortest by the inverse operator, of those that have the known values."""
    known = np.setdiff1d(np.arange(len(row)), unknown)
    guess = row.astype(float)
    within = inverse[np.ix_(unknown, unknown)]
    guess[unknown] = -np.linalg.solve(within, inverse[np.ix_(unknown, known)] @ guess[known])
    guess[unknown] = np.where(guess[unknown] < 0, -1, 1)
    while True:
        change = np.diag(inverse)[unknown] - guess[unknown] * (inverse @ guess)[unknown]
        if change.min() >= -1e-12:
            return guess
        guess[unknown[change.argmin()]] *= -1


def test_the_rest_of_a_row_that_is_known_in_part_is_found_and_is_not_sent(tmp_path):
    """From a few rows more than columns; of twice as many none is found whole."""
    rng, columns = stream(0, "insider"), 300
    exact = {}
    for M in (330, 600):
        rows = draw_examples(rademacher(3, columns, rng), M, 0.6, rng)[0]
        up = ask(site(tmp_path / f"{M}", rows, smallest_batch=M), method(columns=columns)).up
        inverse = sent(up)
        found = []
        for row in rows[:10]:
            unknown = rng.choice(columns, 60, replace=False)
            found.append((completed(inverse, row, unknown) == row).all())
        exact[M] = sum(found)
    assert exact[330] == 10
    assert exact[600] == 0
    few = draw_examples(rademacher(3, 500, rng), 900, 0.6, rng)[0]
    default = site(tmp_path / "default", few, questions=0, smallest_batch=0)
    refused(ask(default, method(columns=500)), "fewer than the 1000 rows")
    assert Limits().batch(784) == 2 * 784


@pytest.mark.parametrize(("M", "columns"), [(220, 200), (400, 200), (1200, 300)])
def test_what_who_knows_a_row_learns_is_as_it_is_said(M, columns):
    """The numbers that a dry run prints, of tables whose columns have nothing in common."""
    values, members = [], []
    for seed in range(4):
        x = stream(seed, "told", M, columns).choice([-1.0, 1.0], (2 * M, columns))
        inverse = np.linalg.inv(x[:M].T @ x[:M])
        said = x[:M] @ inverse
        values.append((np.diag(inverse) > x[:M] * said).mean())
        short = np.einsum("mn,mn->m", x @ inverse, x)
        middle = (short[:M].mean() * short[M:].std() + short[M:].mean() * short[:M].std()) / (
            short[:M].std() + short[M:].std()
        )
        members.append(((short[:M] < middle).mean() + (short[M:] > middle).mean()) / 2)
    assert np.mean(values) == pytest.approx(told_value(M, columns), abs=0.01)
    assert np.mean(members) == pytest.approx(told_member(M, columns), abs=0.02)


def test_a_dry_run_says_what_who_knows_a_row_learns(hopfed, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    rng = stream(1, "dry")
    np.save(tmp_path / "d.npy", draw_examples(rademacher(3, 200, rng), 800, 0.6, rng)[0])
    status, text, _ = hopfed("join", "--data", tmp_path / "d.npy", "--dry-run")
    assert status == 0
    words = " ".join(text.split())
    assert "of 100 in 100 whether it is in a batch of 400 rows" in words
    assert "guesses that right of 84 in 100" in words
    _, text, _ = hopfed("join", "--data", tmp_path / "d.npy", "--dry-run", "--epsilon", 1)
    assert "Who knows" not in text


def answered(rows, questions, kinds, rng):
    """Rows that give one of so many answers to each question, a column for every answer."""
    given = rng.integers(0, kinds, (rows, questions))
    x = given[:, :, None] == np.arange(kinds)
    return np.where(x.reshape(rows, -1), 1, -1).astype(np.int8)


def unanswered(up, columns):
    """The rows without any of these answers, added up: all rows but those that have one."""
    S = symmetric(up["counts"], len(up["columns"]), int(up["examples"]))
    own = up["columns"].astype(float)
    return own - ((own + S[columns]) / 2).sum(axis=0)


def test_the_row_that_breaks_a_relation_is_in_the_operator_and_is_not_sent(tmp_path):
    """One row of 3,000 without an answer; no column and no two set fewer than three apart."""
    rows = answered(3000, 40, 5, stream(2, "answers"))
    rows[17, :5] = -1
    assert not set_apart(kernels.pack(rows), 3)
    assert not given_away(kernels.pack(rows), 3)
    asked = method(columns=200)
    up = ask(site(tmp_path / "open", rows, questions=0, smallest_set=1), asked).up
    assert rows_in(rows[17:18], [unanswered(up, np.arange(5))]) == 1
    default = site(tmp_path / "default", rows, questions=0, smallest_batch=0)
    refused(ask(default, asked), "rows of this batch break relations of its columns")


def any_of(rows, rng):
    """Four columns: any kind, and three kinds, of which one row alone has another."""
    x = draw_examples(rademacher(3, 100, rng), rows, 0.3, rng)[0]
    kind = rng.integers(0, 8, rows)
    x[:, 0] = np.where(kind < 3, 1, -1)
    x[:, 1:4] = np.where(kind[:, None] == np.arange(3), 1, -1)
    x[66, :4] = [1, -1, -1, -1]
    return x, [66]


def two_of(rows, rng):
    """Two rows without an answer, of different questions."""
    x = answered(rows, 20, 5, rng)
    x[17, :5] = x[30, 5:10] = -1
    return x, [17, 30]


def both_of(rows, rng):
    """Two rows without an answer, of one question."""
    x = answered(rows, 20, 5, rng)
    x[[17, 30], :5] = -1
    return x, [17, 30]


@pytest.mark.parametrize("make", [any_of, two_of, both_of])
def test_rows_that_break_relations_are_found(make, hopfed, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    rows, alone = make(1200, stream(3, make.__name__))
    assert not set_apart(kernels.pack(rows), 3)
    assert broken_by(kernels.pack(rows), 3).tolist() == alone
    assert set(broken_by(kernels.pack(rows), 2)) <= set(alone)
    assert broken_by(kernels.pack(rows), 1).tolist() == []
    np.save(tmp_path / "d.npy", rows)
    status, _, error = hopfed("join", "--data", tmp_path / "d.npy", "--dry-run")
    assert status == 2
    assert f"row {', '.join(str(m + 1) for m in alone)} break relations" in " ".join(error.split())
    assert hopfed("join", "--data", tmp_path / "d.npy", "--dry-run", "--epsilon", 1)[0] == 0
    assert len(broken_by(kernels.pack(np.delete(rows, alone, axis=0)), 3)) == 0


@pytest.mark.parametrize(
    ("M", "columns", "r"), [(400, 100, 0.7), (1568, 784, 0.8), (809, 800, 0.6)]
)
def test_rows_that_share_no_relation_are_sent(M, columns, r):
    rng = stream(4, "sent", M)
    rows = draw_examples(rademacher(3, columns, rng), M, r, rng)[0]
    assert len(broken_by(kernels.pack(rows), 3)) == 0
    whole = answered(900, 20, 5, rng)
    assert len(broken_by(kernels.pack(whole), 3)) == 0
    whole[[17, 30, 31], :5] = -1
    assert len(broken_by(kernels.pack(whole), 3)) == 0, "three rows are not a few"


def test_patterns_without_end_do_not_fill_the_memory(tmp_path):
    """Of 1.7 MB that a server tells, unpacking made 34."""
    node, K = site(tmp_path, questions=0), 100_000
    down = known(np.ones((1, N))) | {"sure": np.ones(K, np.float32)}
    down["patterns"] = np.zeros((K, -(-N // 8)), np.uint8)
    refused(ask(node, method(), down=down), "100,000 patterns of 40 columns, which are too many")
    assert not ask(node, method(), down=known(np.ones((10, N)))).fault


# One client that lies, where archetypes are faint: half of the rows' columns are noise.


def of_each(patterns, M=300):
    return np.asarray(patterns)[np.arange(M) % len(patterns)].astype(np.int8)


def mixed(xi, rng):
    """The product, the majority, and one archetype."""
    return of_each([xi.prod(axis=0), np.sign(xi.sum(axis=0)), xi[0]])


def with_own(xi, rng):
    """Products of archetypes and of a pattern of one's own."""
    u = rademacher(1, xi.shape[1], np.random.default_rng(99))[0]
    return of_each([xi[0] * xi[1] * u, xi.prod(axis=0), u * xi[2] * xi[0], u])


def turned_alike(xi, rng):
    """The archetypes with the same tenth of their columns turned."""
    return of_each(np.where(rng.random(xi.shape[1]) < 0.1, -xi, xi))


def of_factors(xi, rng):
    """Signs of three factors, which lift directions of the others' noise."""
    factors = rng.standard_normal((300, 3)) @ rng.standard_normal((3, xi.shape[1]))
    return np.where(factors > 0, 1, -1).astype(np.int8)


def repeated_columns(xi, rng):
    """Columns in tens that are alike."""
    return np.repeat(rademacher(300, xi.shape[1] // 10, rng), 10, axis=1)


def majorities(xi, rng):
    """Two majorities, whose difference is that of two archetypes: no direction is their own."""
    signs = np.array([[-1, 1, -1], [1, -1, -1]])
    return of_each(np.sign(signs @ xi[:3].astype(int)))


def leaning(xi, rng):
    """A pattern nearer to one archetype than to any other, in most rows."""
    near = np.where(rng.random(xi.shape[1]) < 0.05, -xi[0], xi[0])
    u = rademacher(1, xi.shape[1], np.random.default_rng(99))[0]
    rows = of_each([near, near, near, near, np.sign(xi[0] + xi[1] + u)])
    return np.where(rng.random(rows.shape) < 0.95, rows, -rows).astype(np.int8)


def told(make, honest, times, liars=1, seed=0, **settings):
    """What a server tells at its defaults where the first clients lie, and the archetypes."""
    xi, source = owners([make] * liars, honest, N=200, M=200, r=0.5, seed=seed)
    config = Config(columns=200, clients=honest + liars, **settings)
    method = lying(config.make(source), claiming(times), liars)
    start = FederationState(method.server_start(0))
    arrays, _ = play(config, method, 0, 0, start, LocalEngine())
    number = int(arrays["archetypes/number"])
    return retrieval(unpack_patterns(arrays["archetypes/packed"][:number], 200), xi)


LIES = [mixed, with_own, turned_alike, of_factors, repeated_columns, majorities, leaning]


@pytest.mark.parametrize("make", LIES)
@pytest.mark.parametrize("honest", [2, 4, 9])
@pytest.mark.parametrize("times", [1, 3])
def test_one_client_changes_nothing_where_archetypes_are_faint(make, honest, times):
    for seed in (0, 1):
        found = told(make, honest, times, seed=seed)
        assert found.magnetisation.min() > 0.95
        assert found.false_discoveries == 0


@pytest.mark.parametrize("make", [mixed, with_own, majorities])
def test_nor_do_three_of_thirty_together(make):
    found = told(make, 27, 3, liars=3)
    assert found.magnetisation.min() > 0.95
    assert found.false_discoveries == 0


def of_sixty(xi, rng):
    """Sixty patterns of one's own, which lift directions of the others' noise."""
    return of_each(rademacher(60, xi.shape[1], rng))


@pytest.mark.parametrize("make", [mixed, with_own, turned_alike, of_sixty])
@pytest.mark.parametrize(("honest", "size"), [(2, 1), (2, 3), (4, 3), (9, 3)])
def test_nor_does_one_with_noise(make, honest, size):
    rows = 2000 if honest == 4 else 3000

    def many(xi, rng):
        few = make(xi, rng)
        return few[rng.integers(0, len(few), size * rows)]

    xi, source = owners([many], honest, N=100, M=rows)
    config = Config(columns=100, clients=honest + 1, epsilon=4.0)
    arrays, _ = play(config, config.make(source), 0, 0, FederationState({}), LocalEngine())
    number = int(arrays["archetypes/number"])
    found = retrieval(unpack_patterns(arrays["archetypes/packed"][:number], 100), xi)
    assert found.magnetisation.min() > 0.95
    assert found.false_discoveries == 0


def test_a_server_that_says_to_wait_without_end_does_not_keep_a_client(tmp_path, monkeypatch):
    """Every line of it is another answer, after which the time that an answer has began anew."""
    monkeypatch.setattr(fleet_client, "LONGEST", 1.0)
    make_keys(tmp_path / "keys", 1, ["127.0.0.1"])
    keys, over = tmp_path / "keys", threading.Event()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "server.pem", keys / "server.key")

    def serve(listener):
        with suppress(OSError), context.wrap_socket(listener.accept()[0], server_side=True) as peer:
            peer.recv(1 << 16)
            while not over.is_set():
                peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        where = f"127.0.0.1:{listener.getsockname()[1]}"
        mine = private_key(keys / "client-0.key")
        client = fleet_client.fleet_client(where, (keys / "ca.pem").read_bytes(), mine)
        try:
            began = time.monotonic()
            with pytest.raises(httpx.TimeoutException, match="takes more than 1 s"):
                client.PullMessages(PullMessagesRequest(node=Node(node_id=1)))
            assert time.monotonic() - began < 10
        finally:
            over.set()
            client.close()
            thread.join(10)
