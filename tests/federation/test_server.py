"""The door of `hopfed serve`, and its keys: which clients come in, how much they may send."""

import os
import socket
import stat
import threading
import time
from contextlib import contextmanager, suppress

import grpc
import numpy as np
import pytest
from asking import signs
from cryptography import x509
from rogue import client, leave

from hopfed.errors import ArgumentError, BackendError, DataError, LocalError
from hopfed.experiments.serve import Config
from hopfed.federation.contract import Call, Context, Fault, Outcome
from hopfed.federation.machines import server as server_module
from hopfed.federation.machines.client import ClientNode
from hopfed.federation.machines.keys import make_keys, own_key
from hopfed.federation.machines.server import Server
from hopfed.federation.machines.wire import OPTIONS, SERVICE, SESSION, write_reply
from hopfed.hopfield.privacy_ledger import Ledger, Terms
from hopfed.kernels.examples import as_examples
from hopfed.neural.training.loops import keep_compiled_at_home

LINES = []  # of a server's log
LIMIT, CALL = 10**5, f"/{SERVICE}/{SESSION}"
CALLS = [Call({}, {}, Context(0, 0, 0, c)) for c in range(3)]


class Answer:
    """Every client answers a thousand numbers."""

    recipe = ""
    client_start = staticmethod(lambda client, seed: {})

    def client_step(self, state, down, context):
        return state, {"w": np.full(1000, float(context.client))}, {}


@pytest.fixture
def server(keys, monkeypatch):
    monkeypatch.setattr(server_module, "GRACE", 1.0)
    with Server("127.0.0.1:0", keys, 3, LINES.append, 30.0, limit=LIMIT) as listens:
        yield listens
    LINES.clear()


@contextmanager
def joined(keys, server, c):
    """A client that answers, in a thread; and what it says."""
    lines = []
    node = ClientNode(lambda *_: Answer(), lines.append)
    made = client(keys, f"127.0.0.1:{server.port}", node, c)
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        leave(made)
        thread.join(20)


@contextmanager
def stream(keys, server, c, *up, authority=None):
    """A client that sends these messages, and is silent then."""
    over = threading.Event()

    def sent():
        yield from up
        over.wait(30)

    certificate, key = own_key((authority or keys) / f"client-{c}.key", "--key")
    trust = (keys / "ca.pem").read_bytes()
    credentials = grpc.ssl_channel_credentials(trust, key, certificate)
    with grpc.secure_channel(f"127.0.0.1:{server.port}", credentials, OPTIONS) as channel:
        call = channel.stream_stream(CALL)(sent(), timeout=60)  # which ends where nobody holds it
        yield call
        over.set()


def answers(engine, *clients):
    return dict(zip(clients, engine.step(Answer(), [CALLS[c] for c in clients]), strict=True))


def test_a_stranger_ends_in_the_handshake_before_a_byte_is_read(keys, server, tmp_path):
    make_keys(tmp_path, 1, ["127.0.0.1"])
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as plain, pytest.raises(grpc.RpcError):
        next(plain.stream_stream(CALL)(iter([b"x"]), timeout=10))
    for c, own, code in ((0, tmp_path, "UNAVAILABLE"), (3, None, "PERMISSION_DENIED")):
        with stream(keys, server, c, b"x", authority=own) as theirs:
            with pytest.raises(grpc.RpcError) as error:
                next(theirs)
            assert error.value.code().name == code
    assert LINES == []


WRONG = [
    ((bytes(LIMIT + 1),), Fault.TIMED_OUT, "it is not there"),
    ((b"\xff" * 50,), Fault.MALFORMED, "sent not packed arrays"),
    ((b"",), Fault.MALFORMED, "sent not packed arrays"),
    ((write_reply(Outcome(fault=Fault.LATE)),), Fault.MALFORMED, "a reply with fault"),
    ((), Fault.TIMED_OUT, "it is silent"),
]


@pytest.mark.parametrize(("sent", "fault", "words"), WRONG, ids=[words for _, _, words in WRONG])
def test_what_is_no_answer_costs_the_others_its_time_and_no_more(keys, server, sent, fault, words):
    server.timeout, began = 2.0, time.monotonic()
    with joined(keys, server, 0), joined(keys, server, 1), stream(keys, server, 2, *sent):
        server.wait(3, 20.0)
        found = answers(server, 0, 1, 2)
        assert time.monotonic() - began < 20.0
        if "there" in words:  # and is waited for once
            again = time.monotonic()
            assert answers(server, 0, 1, 2)[2].fault == fault
            assert time.monotonic() - again < 1.0
    assert [found[c].fault for c in range(3)] == [Fault.NONE, Fault.NONE, fault]
    assert words in found[2].reason
    assert found[1].message["w"][0] == 1.0


def test_a_client_that_comes_and_goes_fills_no_log(keys, server, monkeypatch):
    monkeypatch.setattr(server_module, "MOVES", 5)
    for _ in range(8):
        with stream(keys, server, 0) as theirs:
            theirs.initial_metadata()
        time.sleep(0.1)
    assert len(LINES) == 5
    assert "no more is reported" in LINES[-1]


def test_a_client_that_comes_back_is_asked_again(keys, server):
    found = {}
    asking = threading.Thread(target=lambda: found.update(answers(server, 0, 1)))
    with joined(keys, server, 0):
        with stream(keys, server, 1) as dying:
            server.wait(2, 20.0)
            asking.start()
            next(dying)  # it is asked, and dies
        with joined(keys, server, 1):
            asking.join(20)
    assert [found[c].fault for c in (0, 1)] == [Fault.NONE, Fault.NONE]


def test_a_key_or_an_address_in_use_is_said_to_be(keys, server):
    with pytest.raises(ArgumentError, match="--listen must be an address of this machine"):
        Server(f"127.0.0.1:{server.port}", keys, 3, print, 30.0).__enter__()
    with joined(keys, server, 0):
        server.wait(1, 20.0)
        with joined(keys, server, 0) as lines:
            while not lines:
                time.sleep(0.02)
    assert "this key is in use by another process" in lines[0]


def test_connections_of_strangers_leave_descriptors_for_the_run_file(keys, server):
    with joined(keys, server, 0):
        server.wait(1, 20.0)
        where = ("127.0.0.1", server.port)
        held = [socket.create_connection(where, 20) for _ in range(server_module.STRANGERS + 80)]
        for each in held[-20:]:  # these are let go at once; a handshake may take 20 seconds
            each.settimeout(10)
            with suppress(ConnectionError):
                assert each.recv(1) == b""
        assert answers(server, 0)[0].fault == Fault.NONE
        for each in held:
            each.close()


def test_more_than_half_must_answer_unless_said_otherwise(tmp_path, keys, hopfed):
    assert [Config(clients=L).least for L in (1, 2, 3, 4, 9, 10)] == [1, 2, 2, 3, 5, 6]
    assert Config(clients=10, minimum=1).least == 1
    serve = ["serve", "--keys", keys, "--columns", 40, "--out", tmp_path / "run.h5"]
    serve += ["--wait", 0.2, "--listen", "127.0.0.1:0", "--clients", 10]
    said = hopfed(*serve)[2]
    assert "0 of at least 6 clients joined within 0.2 s; start the others" in said
    assert not (tmp_path / "run.h5").exists()


def test_who_gets_which_file_whatever_the_umask(tmp_path):
    before = os.umask(0)
    files = make_keys(tmp_path / "keys", 2, ["127.0.0.1", "::1", "host.example", "a_b-c"])
    os.umask(before)
    assert [path.name for path in files] == ["ca.pem", "server.key", "client-0.key", "client-1.key"]
    modes = [stat.S_IMODE(path.stat().st_mode) for path in files]
    assert modes == [0o644, 0o600, 0o600, 0o600]
    server, first, second = (own_key(path, "--key") for path in files[1:])
    assert first != second
    for (certificate, _), use in ((first, "clientAuth"), (server, "serverAuth")):  # not both
        held = x509.load_pem_x509_certificate(certificate).extensions
        (used,) = held.get_extension_for_class(x509.ExtendedKeyUsage).value
        addresses = [e for e in held if isinstance(e.value, x509.SubjectAlternativeName)]
        assert (used._name, len(addresses)) == (use, int(use == "serverAuth"))
    mixed = tmp_path / "keys" / "mixed.key"
    for data in (first[0] + second[1], first[0], first[1], b"\xff\x00"):
        mixed.write_bytes(data)
        with pytest.raises(DataError, match="not a key with its certificate"):
            own_key(mixed, "--key")


OPTIONS_OF_CERTS = [
    (("--clients", "99999999"), "clients must be 1 to 10000"),
    (("--clients", "1", "--days", "0"), "days must be 1 to 36500"),
    (("--clients", "1", "--host", "\x1b[2J"), r"got '\x1b[2J'"),
]


@pytest.mark.parametrize(("options", "words"), OPTIONS_OF_CERTS)
def test_bad_settings_are_one_line_and_no_folder(tmp_path, hopfed, options, words):
    assert words in hopfed.refused("certs", tmp_path / "keys", *options)
    assert not (tmp_path / "keys").exists()


def test_a_key_that_others_can_read_is_refused_but_where_it_is_lent(tmp_path, monkeypatch):
    key = make_keys(tmp_path, 1, ["127.0.0.1"])[-1]
    for generous in (0o644, 0o640, 0o604):
        key.chmod(generous)
        with pytest.raises(DataError, match=rf"others can read this key \(mode {generous:o}\)"):
            own_key(key, "--key")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    own_key(key, "--key")


def charge(folder):
    return Ledger(folder).charge(as_examples(signs(60)), Terms(1.0, 1e-5))


def test_nothing_is_kept_where_others_can_write_or_a_link_leads_away(tmp_path, monkeypatch):
    place, linked, lost = (tmp_path / name for name in ("place", "linked", "lost"))
    place.mkdir()
    place.chmod(0o777)
    linked.symlink_to(place)
    lost.symlink_to(tmp_path / "gone")  # a disk that is not there
    for folder, words in ((place, "others own it"), (linked, "others own it"), (lost, "a link to")):
        with pytest.raises(LocalError, match=words):
            charge(folder)
    monkeypatch.setenv("HOPFED_HOME", str(place))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    with pytest.raises(BackendError, match="others own it or can write to it"):
        keep_compiled_at_home()
    assert not list(place.iterdir())
    place.chmod(0o700)  # one's own links are followed to one's own folders
    charge(linked)
    assert {path.stat().st_mode & 0o77 for path in place.iterdir()} == {0}
    for name, words in (("lock", "cannot be used"), ("ledger", "a link to")):
        (place / name).unlink()
        (place / name).symlink_to(tmp_path / "away")
        with pytest.raises(LocalError, match=words):
            charge(place)
    assert not {"gone", "away"} & {path.name for path in tmp_path.iterdir()}
