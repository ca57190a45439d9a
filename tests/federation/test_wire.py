"""Questions and answers as bytes, and what is none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from rogue import packed, request, worded

from hopfed.errors import DataError
from hopfed.federation.contract import Context
from hopfed.federation.engines import Outcome
from hopfed.federation.faults import REASON, Fault
from hopfed.federation.machines.wire import (
    Gathered,
    Request,
    parts,
    read_reply,
    read_request,
    write_reply,
    write_request,
)
from hopfed.federation.messages import digest, pack, unpack

KINDS = ("<f4", "<f8", "<i8", "|u1", "|b1", "<c8", "|S7")
ANY = st.sampled_from(KINDS).flatmap(
    lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
)
ARRAYS = st.dictionaries(
    st.text(min_size=1, max_size=5),
    hnp.arrays(
        st.sampled_from(["<f4", ">f8", "<i2", "|u1", "|b1", "<u8"]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    ),
    max_size=3,
)


@given(st.dictionaries(st.text(max_size=5), ANY, max_size=4))
def test_packed_arrays_come_back_as_they_were(arrays):
    got = unpack(pack(arrays))
    assert list(got) == list(arrays)
    for name, array in arrays.items():
        assert got[name].tobytes() == array.tobytes()
        assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape)


def test_packed_arrays_that_are_cut_or_foreign_are_refused():
    data = pack({"w": np.zeros(64, np.float32), "x": np.zeros(16, np.float32)})
    for damaged in (data[::-1].copy(), *(data[:cut] for cut in (0, 7, 15, 40, 300, -1))):
        with pytest.raises(DataError):
            unpack(damaged)
    with pytest.raises(DataError, match="cannot be kept"):
        pack({"w": np.array([None])})


@given(ARRAYS, ARRAYS, st.integers(0, 2**70))
def test_messages_keep_every_bit_type_and_shape(down, state, seed):
    request = Request(Context(seed, 3, 1, 5), "[]", state, down, last=True)
    back = read_request(write_request(request))
    assert (back.recipe, back.last) == ("[]", True)
    assert (back.context.seed, back.context.round, back.context.client) == (seed, 3, 5)
    reply = read_reply(write_reply(Outcome(state, down, {}, Fault.RAISED, "why")))
    assert (reply.fault, reply.reason) == (Fault.RAISED, "why")
    both = (down, back.down), (state, back.state), (down, reply.message), (state, reply.state)
    for before, after in both:
        assert digest(before) == digest(after)
        assert all(after[name].flags.writeable for name in after if after[name].size)


def test_a_client_cannot_fill_the_server_with_its_state():
    for state in ({"x": np.zeros(600)}, {str(i): np.zeros(0) for i in range(5000)}):
        with pytest.raises(DataError, match="a state of more than"):
            read_reply(write_reply(Outcome(state)))


@pytest.mark.parametrize(
    "entries",
    [
        [["x", "|O", [1]]],
        [["x", "<f4", [-1]]],
        [["x", "<f4", [10**12]]],
        [["x", "<f8", [2**31, 2**31, 2**31, 0]]],
        [["x", "<f8", [0] * 40]],
        [["x", "<f7", [0]]],
        [["x", "<f4", [0]], ["x", "<f4", [0]]],
        [[f"{i}", "|u1", [0]] for i in range(60_000)],
        b"9" * 5000,
        [["x", "f4,,(", [1]]],
        "w",
    ],
    ids=str,
)
def test_arrays_that_are_none_are_errors_in_words(entries):
    for read in (read_reply, read_request):
        with pytest.raises(DataError):
            read(packed(entries, bytes(64)))


def test_what_a_client_says_cannot_steer_a_terminal():
    data = write_reply(Outcome(fault=Fault.RAISED, reason="gone\x1b[2J\nall well"))
    assert read_reply(data).reason == "gone\\x1b[2J\\nall well"
    long = worded(data, {"reason": "\u202e" + "x" * 10**5})
    assert read_reply(long).reason == "\\u202e" + "x" * (REASON - 9) + "..."


WORDS = [
    *(("client", -1), ("client", -(2**62)), ("seed", "\u00b2"), ("seed", "1" * 5000)),
    *(("round", 2**62), ("last", 1), ("columns", "w"), ("recipe", "x" * 10**5)),
    *(("reason", None), ("fault", int(Fault.LATE)), ("fault", True)),
]


@pytest.mark.parametrize(("name", "value"), WORDS)
def test_words_that_are_none_are_errors_in_words(name, value):
    reply = write_reply(Outcome({}, {"w": np.ones(2)}))
    assert read_reply(worded(reply, {})).message["w"].tolist() == [1.0, 1.0]
    data, read = (reply, read_reply) if name in ("reason", "fault") else (request(), read_request)
    with pytest.raises(DataError):
        read(worded(data, {name: value}))


@given(st.binary(max_size=500), st.integers(0, 500), st.integers(0, 255), st.booleans())
def test_whatever_comes_the_only_error_is_ours(noise, at, byte, reply):
    made, read = (write_reply(Outcome()), read_reply) if reply else (request(), read_request)
    data = bytearray(made)
    data[at % len(data)] = byte
    for damaged in (bytes(data), bytes(data[:at]), noise, b"hopfed-1" + noise, made + noise):
        assert raised(read, damaged).isprintable()


def raised(read, *arguments):
    """Words of the only error that there may be; none where there is none."""
    try:
        read(*arguments)
    except DataError as error:
        return str(error)
    return ""


@given(st.binary(min_size=1, max_size=50), st.integers(1, 60))
def test_a_message_comes_whole_or_not_at_all(message, limit):
    gathered = Gathered(limit)
    if len(message) > limit:
        with pytest.raises(DataError):
            [gathered.add(part) for part in parts(message)]
        return
    assert [gathered.add(part) for part in parts(message)][-1] == message
