"""Questions and answers as bytes, and what is none."""

import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from rogue import question, worded

from hopfed.errors import DataError
from hopfed.federation.contract import REASON, Call, Context, Fault, Outcome
from hopfed.federation.machines.wire import (
    read_question,
    read_reply,
    write_question,
    write_reply,
)
from hopfed.federation.messages import digest, pack, unpack

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
    got, words = read_question(write_question(told, "r", columns=("tea",)))
    assert (got.context, words["recipe"], words["columns"]) == (told.context, "r", ["tea"])
    got.down["w"][:] = 0.0  # it is the client's own
    reply = read_reply(write_reply(Outcome(ARRAYS, ARRAYS)))
    for message in (got.state, got.down, reply.state, reply.message):
        assert digest(message) == digest(ARRAYS)


def packed(entries, body=bytes(64)):
    """Bytes whose header is as said."""
    header = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    header += b" " * (-(16 + len(header)) % 64)
    return b"hopfed-1" + len(header).to_bytes(8, "little") + header + body


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
        *(worded(write_reply(Outcome()), **word) for word in ANSWERED),
        write_reply(Outcome({"x": np.zeros(10**4)})),
        write_reply(Outcome({str(i): np.zeros(0) for i in range(5000)})),
    ],
    ids=lambda data: repr(data[16:60]),
)
def test_what_is_no_message_is_an_error_in_words(data):
    for read in (read_reply, read_question):
        with pytest.raises(DataError):
            read(data)


def test_what_is_no_plain_array_is_not_packed():
    with pytest.raises(DataError, match="x: arrays of object cannot"):
        pack({"x": np.array([object()])})


def test_what_a_client_says_cannot_steer_a_terminal():
    data = write_reply(Outcome(fault=Fault.RAISED, reason="gone\x1b[2J\nall well"))
    assert read_reply(data).reason == "gone\\x1b[2J\\nall well"
    long = worded(data, reason="\u202e" + "x" * 10**5)
    assert read_reply(long).reason == "\\u202e" + "x" * (REASON - 9) + "..."


@given(st.binary(max_size=500), st.integers(0, 500), st.integers(0, 255), st.booleans())
def test_whatever_comes_the_only_error_is_ours(noise, at, byte, reply):
    made, read = (write_reply(Outcome()), read_reply) if reply else (question(), read_question)
    data = bytearray(made)
    data[at % len(data)] = byte
    for damaged in (bytes(data), bytes(data[:at]), noise, b"hopfed-1" + noise, made + noise):
        with suppress(DataError):
            read(damaged)
