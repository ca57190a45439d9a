"""A server and its clients over TLS on loopback, in threads of one process."""

import threading

import numpy as np
import pytest
from machines import COLUMNS, Machines

from hopfed import read_table
from hopfed.errors import HopfedError
from hopfed.experiments import serve
from hopfed.federation.contract import Context
from hopfed.federation.engines import Call
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.machines.client import ClientProcess
from hopfed.federation.machines.kept_states import KeptStates
from hopfed.federation.machines.keys import client_key
from hopfed.federation.machines.node import Node
from hopfed.federation.machines.server import Listening, Server
from hopfed.hopfield.allowed import ALLOWED
from hopfed.hopfield.batches import Batches
from hopfed.hopfield.site.owner import Owner

CONFIG = serve.Config(columns=COLUMNS, clients=3, rounds=2, minimum=3)


@pytest.fixture
def machines(tmp_path):
    return Machines(tmp_path, CONFIG.clients)


@pytest.fixture
def said():
    return []


@pytest.fixture
def server(machines, said):
    keys = machines.folder / "keys"
    with Server(Listening("127.0.0.1", 0, keys), CONFIG.clients, said.append) as listens:
        yield listens


def site(machines, server, c, **options):
    """Return a client that has not started yet."""
    folder = machines.folder / f"site-{c}"
    folder.mkdir()
    owner = Owner(read_table(machines.folder / f"{c}.npy").held, 1 + c)
    made = ClientProcess(
        f"127.0.0.1:{server.port}",
        (machines.folder / "keys" / "ca.pem").read_bytes(),
        client_key(machines.folder / "keys" / f"client-{options.pop('key', c)}.key"),
        Node(
            KeptStates(folder / "states"),
            lambda m, _: owner.adapt(m),
            trusted=ALLOWED,
            private=True,
        ),
        folder,
        patience=20.0,
        say=lambda words: None,
    )
    made.node.watch = lambda request, _: made.finished.set() if request.last else None
    return made


def test_a_federation_is_that_of_one_process_to_the_bit(machines, server, said):
    sites = [site(machines, server, c) for c in range(CONFIG.clients)]
    threads = [threading.Thread(target=s.run) for s in sites]
    for thread in threads:
        thread.start()
    server.wait(CONFIG.clients, 30.0)
    engine, method = server.engine("run", 30.0), CONFIG.make()
    owners = tuple(read_table(machines.folder / f"{c}.npy").held for c in range(CONFIG.clients))
    alone = CONFIG.make(Batches(owners, CONFIG.rounds))
    state = held = None
    for t in range(CONFIG.rounds):
        arrays, state = serve.play(CONFIG, method, 0, t, state, engine)
        expected, held = serve.play(CONFIG, alone, 0, t, held, LocalEngine())
        for name in expected:
            np.testing.assert_array_equal(arrays[name], expected[name], err_msg=name)
    assert int(arrays["archetypes/number"]) == 3
    engine.tell(method, [Call({}, {}, Context(0, 1, 0, c)) for c in range(CONFIG.clients)], 10.0)
    for thread in threads:
        thread.join(10.0)
        assert not thread.is_alive()
    assert sorted(said) == sorted(f"client {c} {w}" for c in range(3) for w in ("joined", "left"))


def test_a_stranger_is_refused_at_once(machines, server, said):
    keys = machines.folder / "keys"
    Machines(machines.folder / "others", 1)
    theirs = machines.folder / "others" / "keys"
    (theirs / "client-0.key").rename(keys / "client-9.key")
    stranger = site(machines, server, 0, key=9)
    stranger.patience = 0.5
    with pytest.raises(HopfedError, match="is this client's key of that federation"):
        stranger.run()
    assert said == []
    fooled = site(machines, server, 1)
    fooled.authority = (theirs / "ca.pem").read_bytes()
    with pytest.raises(HopfedError, match="not signed by the authority"):
        fooled.run()
    fooled.authority = b"no certificate"
    with pytest.raises(HopfedError, match="--ca: not a certificate"):
        fooled.run()


def test_a_client_gives_up_on_a_server_that_is_not_there(machines, server):
    alone = site(machines, server, 0)
    alone.server, alone.patience = "127.0.0.1:9", 0.3
    with pytest.raises(HopfedError, match=r"127\.0\.0\.1:9: .*, for"):
        alone.run()
