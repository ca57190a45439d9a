"""A malicious server, over TLS on loopback: a client says a line, waits, and stays what it was."""

import time

import grpc
import numpy as np
import pytest
from rogue import Raw, Rogue, packed, request

from hopfed.errors import HopfedError
from hopfed.federation.machines.client import ClientProcess
from hopfed.federation.machines.keys import client_key, make_keys
from hopfed.federation.machines.node import Node
from hopfed.federation.machines.wire import LIMIT
from hopfed.hopfield.encoding import unpack_patterns
from hopfed.hopfield.owner import ALLOWED

ESC = "\x1b]0;owned\x07\x1b[2J"

TRICKS = {
    "a part of nothing": Raw([b""]),
    "a length that is none": Raw([b"xyz"]),
    "a length without end": Raw([(2**63).to_bytes(8, "little")]),
    "a length above the limit": Raw([(LIMIT + 9).to_bytes(8, "little")]),
    "more than was said": Raw([(4).to_bytes(8, "little"), b"x" * 100]),
    "an end with colours": grpc.StatusCode.INTERNAL,
    "no such thing": grpc.StatusCode.UNIMPLEMENTED,
    "noise": b"\xff" * 100,
    "nothing": b"",
    "another format": b"\x0a\x05hello",
    "words that are none": packed([["", "|u1", [3]]], b"[[[" + bytes(61)),
    "words of somebody else": packed([["", "|u1", [2]]], b"{}" + bytes(62)),
    "a superscript seed": request(seed="\u00b2"),
    "a seed of ten thousand digits": request(seed="1" * 10**4),
    "a client of another world": request(client=-(2**62)),
    "a round without end": request(round=2**62),
    "a recipe that is none": request(recipe="[" * 10**5),
    "a recipe in colour": request(recipe=f'["{ESC}", {{}}]'),
    "a recipe that runs": request(recipe='["os:system", {"command": "x"}]'),
    "an array of an exabyte": packed([["down/w", "<f8", [2**57]]]),
    "an array of objects": packed([["down/w", "|O", [1]]], bytes(8)),
    "arrays without end": packed([[f"down/{i}", "|u1", [0]] for i in range(10**5)]),
    "a header of a word": packed("w"),
    "a state that is none": request(state={"plasticity": np.array(b"x")}),
    "a last word that is none": request(last=True, down={"patterns": np.ones(3)}),
    "a last word of text": request(last=True, down={"patterns": np.array(b"x")}),
    "a last word in another shape": request(
        last=True, down={"patterns": np.zeros((3, 99), np.uint8)}
    ),
    "a last word of nothing": request(last=True),
}
GOODBYE = request(last=True, down={"patterns": np.zeros((2, 2), np.uint8)})


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    make_keys(folder := tmp_path_factory.mktemp("keys"), 1, ["127.0.0.1"])
    return folder


def client(keys, server, said, patience=20.0):
    """A client that ends with a last word that it can use."""

    class Patient(Node):
        def answer(self, data):
            reply = super().answer(data)
            self.finished.clear()
            try:
                patterns = self.last.down["patterns"]
                unpack_patterns(patterns, 2 if patterns.shape == (2, 2) else -1)
            except Exception:
                return reply
            self.finished.set()
            return reply

    node = Patient(lambda made, _: made, ALLOWED, lambda *words: said.append(words[0]))
    own, authority = client_key(keys / "client-0.key"), (keys / "ca.pem").read_bytes()
    return ClientProcess(server.address, authority, own, node, patience, said.append)


@pytest.mark.parametrize("trick", TRICKS)
def test_whatever_a_server_does_the_client_goes_on(keys, tmp_path, trick, capfd, monkeypatch):
    said = []
    monkeypatch.chdir(tmp_path)
    with Rogue(keys, [TRICKS[trick], GOODBYE]) as server:
        client(keys, server, said).run()
    assert all(line.isprintable() and len(line) < 400 for line in said), said
    assert len(said) < 8
    told = capfd.readouterr()
    assert "Traceback" not in told.err + told.out
    assert not list(tmp_path.iterdir())


def test_a_client_gives_up_on_a_server_that_makes_no_sense(keys):
    said, began = [], time.monotonic()
    with Rogue(keys, [Raw([b"x"])] * 1000) as server:
        mine = client(keys, server, said, patience=1.0)
        with pytest.raises(HopfedError, match=r"no message of 1 byte .*, for"):
            mine.run()
    assert time.monotonic() - began < 60
    assert len(said) <= 3, "once, however often"
