"""A server and its clients over TLS on loopback, in threads of one process."""

import threading
import time

import numpy as np
import pytest
from flwr.supercore.inflatable.inflatable_utils import push_objects
from machines import COLUMNS, Machines

from hopfed import read_table
from hopfed.errors import HopfedError
from hopfed.experiments import serve
from hopfed.federation.contract import Context
from hopfed.federation.engines import Call
from hopfed.federation.engines.flower import client as flower_client
from hopfed.federation.engines.flower import server as flower_server
from hopfed.federation.engines.flower.client import ClientProcess
from hopfed.federation.engines.flower.kept_states import KeptStates
from hopfed.federation.engines.flower.keys import private_key, public_keys
from hopfed.federation.engines.flower.node import Node
from hopfed.federation.engines.flower.server import FlowerServer, Listening
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.faults import Fault
from hopfed.hopfield.allowed import ALLOWED
from hopfed.hopfield.batches import Batches
from hopfed.hopfield.site.consent import Owner
from hopfed.hopfield.site.limits import Limits

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
    listening = Listening("127.0.0.1", 0, keys / "server.pem", keys / "server.key")
    with FlowerServer(listening, public_keys(keys, CONFIG.clients), said.append) as listens:
        yield listens


def site(machines, server, c, **options):
    """Return a client that has not started yet."""
    folder = machines.folder / f"site-{c}"
    folder.mkdir()
    limits = Limits(smallest_batch=50)
    owner = Owner(read_table(machines.folder / f"{c}.npy").held, 1 + c, limits=limits)
    made = ClientProcess(
        f"127.0.0.1:{server.port}",
        (machines.folder / "keys" / "ca.pem").read_bytes(),
        private_key(machines.folder / "keys" / f"client-{options.pop('key', c)}.key"),
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
    link = server._link.state
    left = link.object_store, link.message_ins_store, link.message_res_store
    assert [len(each) for each in left] == [0, 0, 0], "what the server still keeps"


def test_a_stranger_is_refused_at_once(machines, server, said):
    keys = machines.folder / "keys"
    Machines(machines.folder / "others", 1)
    theirs = machines.folder / "others" / "keys"
    (theirs / "client-0.key").rename(keys / "client-9.key")
    with pytest.raises(HopfedError, match="refuses this client's key"):
        site(machines, server, 0, key=9).run()
    assert said == ["refused: a key that is not of this federation, from 127.0.0.1"]
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


def test_who_is_sending_is_not_asked_again_however_long_it_takes(machines, server, monkeypatch):
    """Were it, what it sent would be thrown away, and it would begin again, and so for ever."""
    monkeypatch.setattr(flower_server, "AGAIN", 1.0)
    turn, pushes = threading.Lock(), []

    def slow(objects, push, object_ids_to_push):
        def one(*part):
            with turn:
                time.sleep(0.5)
                return push(*part)

        pushes.append(len(object_ids_to_push))
        return push_objects(objects, one, object_ids_to_push=object_ids_to_push)

    monkeypatch.setattr(flower_client, "push_objects", slow)
    one = site(machines, server, 0)
    thread = threading.Thread(target=one.run)
    thread.start()
    server.wait(1, 30.0)
    engine = server.engine("run", 60.0)
    found = engine.step(CONFIG.make(), [Call({}, {}, Context(0, 0, 0, 0))])
    engine.tell(CONFIG.make(), [Call({}, {}, Context(0, 0, 0, 0))], 5.0)
    one.finished.set()
    thread.join(30.0)
    assert found[0].fault == Fault.NONE, found[0].reason
    assert pushes[0] > 4, "more than two seconds of sending"
    assert len(pushes) == 2, "the answer, and that to the last word"


def test_a_key_that_another_process_uses_is_said_to_be_in_use(machines, server):
    """As with another home, or on another machine, whose lock this one does not see."""
    first, second = site(machines, server, 0), site(machines, server, 1, key=0)
    told = []
    second.patience, second.say = 0.5, told.append
    thread = threading.Thread(target=first.run)
    thread.start()
    server.wait(1, 30.0)
    with pytest.raises(HopfedError, match="this key is in use by another process") as end:
        second.run()
    first.finished.set()
    thread.join()
    assert "412" not in str(end.value)
    assert "this key is in use by another process" in told[0]
