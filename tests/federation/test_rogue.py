"""Messages that are none, and a malicious server: a client says a line, and goes on."""

import json
import resource
import threading
import time
from contextlib import nullcontext, suppress
from unittest.mock import Mock

import grpc
import numpy as np
import pytest
from asking import ask
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from rogue import Rogue, client, leave, question, worded

from hopfed.errors import DataError, HopfedError, OtherColumnsError
from hopfed.federation.contract import REASON, Call, Context, Fault, Outcome
from hopfed.federation.machines import wire
from hopfed.federation.machines.client import MOST, ClientNode
from hopfed.federation.messages import digest, pack, unpack
from hopfed.hopfield import announcement
from hopfed.hopfield.clients import client_from_recipe

KINDS = ("<f4", ">f8", "<i8", "|u1", "|b1", "<c8", "|S7")
ANY = hnp.arrays(st.sampled_from(KINDS), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
ARRAYS = {"w": np.ones((2, 0, 3), ">f8"), "": np.array(True), "ü/x": np.arange(4, dtype="<i2")}


@given(st.dictionaries(st.text(max_size=5), ANY, max_size=3))
def test_packed_arrays_come_back_as_they_were(arrays):
    got = unpack(pack(arrays))
    assert list(got) == list(arrays)
    assert digest(got) == digest(arrays)


@pytest.mark.parametrize("seed", [0, 2**255])
def test_questions_and_replies_come_back_as_they_were(seed):
    told = Call(ARRAYS, ARRAYS, Context(seed, 3, 1, 9))
    got, words = wire.read_question(wire.write_question(told, "r", columns=("tea",)))
    assert (got.context, words["recipe"], words["columns"]) == (told.context, "r", ["tea"])
    got.down["w"][:] = 0.0  # it is the client's own
    reply = wire.read_reply(wire.write_reply(Outcome(ARRAYS, ARRAYS)))
    for message in (got.state, got.down, reply.state, reply.message):
        assert digest(message) == digest(ARRAYS)


def packed(entries):
    """Bytes whose header is as said."""
    header = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return b"hopfed-1" + len(header).to_bytes(8, "little") + header + bytes(64)


HEADERS = [
    *([["x", "|O", [1]]], [["x", "<f4", [-1]]], [["x", "<f4", [10**12]]], [["x", "|S0", [2**40]]]),
    *([["x", "<f8", [2**31] * 3 + [0]]], [["x", "<f8", [0] * 70]], [["x", "f4,,(", [1]]]),
    *([["x", "<f4", [0]], ["x", "<f4", [0]]], [[f"{i}", "|u1", [0]] for i in range(60_000)]),
    b"9" * 5000,
]
ASKED = {"client": -1}, {"seed": "1"}, {"round": True}, {"last": 1}, {"columns": "w"}
ANSWERED = {"reason": None}, {"fault": int(Fault.LATE)}, {"fault": True}


@pytest.mark.parametrize(
    "data",
    [
        *map(packed, HEADERS),
        *(worded(question(), **word) for word in ASKED),
        *(worded(wire.write_reply(Outcome()), **word) for word in ANSWERED),
        wire.write_reply(Outcome({"x": np.zeros(10**4)})),
        wire.write_reply(Outcome({str(i): np.zeros(0) for i in range(5000)})),
    ],
    ids=lambda data: repr(data[16:60]),
)
def test_what_is_no_message_is_an_error_in_words(data):
    for read in (wire.read_reply, wire.read_question):
        with pytest.raises(DataError):
            read(data)


def test_what_is_no_plain_array_is_not_packed():
    with pytest.raises(DataError, match="x: arrays of object cannot"):
        pack({"x": np.array([object()])})


def test_what_a_client_says_cannot_steer_a_terminal():
    data = wire.write_reply(Outcome(fault=Fault.RAISED, reason="gone\x1b[2J\nall well"))
    assert wire.read_reply(data).reason == "gone\\x1b[2J\\nall well"
    long = worded(data, reason="\u202e" + "x" * 10**5)
    assert wire.read_reply(long).reason == "\\u202e" + "x" * (REASON - 9) + "..."


@given(st.binary(max_size=500), st.integers(0, 500), st.integers(0, 255), st.booleans())
def test_whatever_comes_the_only_error_is_ours(noise, at, byte, reply):
    made = wire.write_reply(Outcome()) if reply else question()
    read = wire.read_reply if reply else wire.read_question
    data = bytearray(made)
    data[at % len(data)] = byte
    for damaged in (bytes(data), bytes(data[:at]), noise, b"hopfed-1" + noise, made + noise):
        with suppress(DataError):
            read(damaged)


TRICKS = [
    *(b"", bytes(2 * 10**6), b"\xff" * 100, question(recipe='["\x1b]0;owned\x07\x1b[2J", {}]')),
    *(grpc.StatusCode.INTERNAL, grpc.StatusCode.UNIMPLEMENTED),
]
GOODBYE = question(last=True, down={"patterns": np.zeros((2, 2), np.uint8)})


def reading(said):
    """A node that reads recipes."""
    return ClientNode(lambda text, *_: client_from_recipe(text), said.append)


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: repr(trick)[:20])
def test_whatever_a_server_does_the_client_goes_on(keys, tmp_path, trick, capfd, monkeypatch):
    said = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wire, "LIMIT", 10**6)
    with Rogue(keys, [trick, GOODBYE]) as server:
        client(keys, server.address, reading(said)).run()
    assert all(line.isprintable() and len(line) < 400 for line in said), said
    assert len(said) < 8
    told = capfd.readouterr()
    assert "Traceback" not in told.err + told.out
    assert not list(tmp_path.iterdir())


def test_a_client_gives_up_on_a_server_that_makes_no_sense(keys):
    said = []
    with Rogue(keys, [grpc.StatusCode.INTERNAL] * 1000) as server:  # noqa: SIM117
        with pytest.raises(HopfedError, match="gone, for"):
            client(keys, server.address, reading(said), patience=1.0).run()
    assert len(said) <= 3, "once, however often"


class Storm(Rogue):
    """Asks without end, and reads no answer; with a trick it goes after each question."""

    def session(self, answers, context):
        context.send_initial_metadata((wire.WELCOME,))
        while True:
            yield b"a question"
            if self.tricks:
                context.abort(self.tricks[0], "gone")


@pytest.mark.parametrize("tricks", [[], [grpc.StatusCode.INTERNAL]])
def test_answers_that_a_server_does_not_read_do_not_heap_up(keys, monkeypatch, tricks):
    asked, large = [], Outcome(message={"w": np.zeros(10**6, np.uint8)})
    slow = len(tricks)
    monkeypatch.setattr(
        ClientNode, "answer", lambda *_: asked.append(1) or time.sleep(slow) or large
    )
    with Storm(keys, tricks) as server:
        mine = client(keys, server.address, ClientNode(None))
        thread = threading.Thread(target=mine.run, daemon=True)
        thread.start()
        time.sleep(2)
        leave(mine)
        thread.join(20)
    assert not thread.is_alive()
    assert 1 < len(asked) < (5 if tricks else 50)


def test_a_server_that_asks_without_end_fills_no_log():
    node = reading(said := [])
    for t in range(2 * MOST):
        node.tell("rows are few" if t < 100 else f"a malformed request: {t}")
    assert said[1].endswith("request: 100")
    assert len(said) == MOST
    assert said[-1].endswith("no more follow")


def test_a_last_word_without_end_fills_no_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match="too many"):
        announcement.read({"patterns": np.zeros((2_000_000, 98), np.uint8)}, 784)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


ENDS = [
    (ValueError("bad example 1 0"), {"patterns": np.zeros(1)}, "ValueError", ""),
    (HopfedError("few rows"), None, "few rows", "enough; its last .* not answered: few rows"),
    (HopfedError("few rows"), {"stopped": np.ones(())}, "few rows", "without a result"),
    (OtherColumnsError("lacks 'tea'"), None, "its owner was told which", "tea"),
]


@pytest.mark.parametrize(("error", "last", "reason", "ended"), ENDS)
def test_how_a_federation_ends_and_what_a_server_learns_of_it(error, last, reason, ended):
    """Words that may quote rows stay here."""
    node, over = ClientNode(Mock(side_effect=error)), Mock(side_effect=HopfedError("enough"))
    said = ask(node, "").reason
    assert reason in said
    assert not {"tea", "example"} & set(said.split())
    if last:
        node.answer(question(last=True, down=last))
    with pytest.raises(HopfedError, match=ended) if ended else nullcontext():
        assert node.through(over).keys() == last.keys()


def test_words_of_a_message_are_bounded_before_they_are_read():
    words = b'{"fault":0,"reason":"","x":[' + b"{}," * (1 << 22) + b"0]}"
    with pytest.raises(DataError, match="words are damaged"):
        wire.read_reply(pack({"": np.frombuffer(words, np.uint8)}).tobytes())
