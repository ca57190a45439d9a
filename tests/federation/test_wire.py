"""Calls and answers as Flower records, and what is no such record."""

import json

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hopfed.errors import DataError
from hopfed.federation.contract import Context
from hopfed.federation.machines.wire import (
    PACKED,
    Reply,
    Request,
    read_reply,
    read_request,
    write_reply,
    write_request,
)
from hopfed.federation.faults import REASON, Fault
from hopfed.federation.messages import digest
from hopfed.federation.packing import pack, unpack

ARRAYS = st.dictionaries(
    st.text(min_size=1, max_size=5),
    hnp.arrays(
        st.sampled_from(["<f4", ">f8", "<i2", "|u1", "|b1", "<u8"]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    ),
    max_size=3,
)


@given(ARRAYS, ARRAYS, st.integers(0, 2**70), st.binary(max_size=16))
def test_records_keep_every_bit_type_and_shape(down, parts, seed, base):
    request = Request("run", Context(seed, 3, 1, 5), base, "[]", parts, down, last=True)
    back = read_request(write_request(request))
    assert (back.run, back.base, back.recipe, back.last) == ("run", base, "[]", True)
    assert (back.context.seed, back.context.round, back.context.client) == (seed, 3, 5)
    reply = read_reply(write_reply(Reply(base, down, {"loss": 0.5}, Fault.RAISED, "why")))
    assert (reply.metrics, reply.fault, reply.reason) == ({"loss": 0.5}, Fault.RAISED, "why")
    for before, after in ((down, back.down), (parts, back.parts), (down, reply.up)):
        assert digest(before) == digest(after)
        assert all(after[name].flags.writeable for name in after if after[name].size)


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.pop("arrays"),
        lambda r: r["arrays"].pop("up"),
        lambda r: r["outcome"].pop("state"),
        lambda r: r["outcome"].update(fault=99),
        lambda r: r["outcome"].update(fault=int(Fault.LATE)),  # no fault in the log of a round
        lambda r: r["outcome"].update(reason=b"bytes"),
        lambda r: r["outcome"].update(state=b"x" * 17),
        lambda r: r["metrics"].update(loss="low"),
        lambda r: r["metrics"].update({f"m{i}": 1.0 for i in range(99)}),
        lambda r: r.update(metrics=ArrayRecord({"a": Array("u1", (1,), "x", b"x")})),
        lambda r: r["arrays"].update(up=Array("uint8", (1,), "numpy.ndarray", b"x")),
        lambda r: r["arrays"].update(up=packed([["x", "|O", [1]]])),
        lambda r: r["arrays"].update(up=packed([["x", "<f4", [-1]]])),
        lambda r: r["arrays"].update(up=packed([["x", "<f4", [10**12]]])),
        lambda r: r["arrays"].update(up=packed([["x", "<f8", [2**60]]])),
        lambda r: r["arrays"].update(up=packed([["x", "<f8", [2**60, 0]]])),
        lambda r: r["arrays"].update(up=packed([["x", "<f8", [2**31, 2**31, 2**31, 0]]])),
        lambda r: r["arrays"].update(up=packed([["x", "<f8", [True]]])),
        lambda r: r["arrays"].update(up=packed([["x", "<f8", [1.0]]])),
        lambda r: r["arrays"].update(up=packed([["x", "<f8", [0] * 40]])),
        lambda r: r["arrays"].update(up=packed([["x", "<f7", [0]]])),
        lambda r: r["arrays"].update(up=packed([["x", "|S0", [3]]])),
        lambda r: r["arrays"].update(up=packed([["x", "<f4", [0]], ["x", "<f4", [0]]])),
        lambda r: r["arrays"].update(up=packed([[f"{i}", "|u1", [0]] for i in range(60_000)])),
        lambda r: r["arrays"].update(up=packed(b"9" * 5000)),
        lambda r: r["arrays"].update(up=packed(b"[" * 900 + b"]" * 900)),
        lambda r: r["arrays"].update(up=packed([["x", "<U4", [0]]])),
        lambda r: r["arrays"].update(up=packed([[["x"], "<f4", [0]]])),
        lambda r: r["arrays"].update(up=packed("entries")),
        lambda r: r["arrays"].update(up=packed([["x", "f4,,(", [1]]])),
        lambda r: r["arrays"].update(up=packed(b"[" * 10**5)),
    ],
)
def test_replies_that_are_none_are_errors_in_words(change):
    records = write_reply(Reply(b"name", {"w": np.ones(2)}, {"loss": 1.0}))
    change(records)
    with pytest.raises(DataError):
        read_reply(records)


def test_what_a_client_says_cannot_steer_a_terminal():
    records = write_reply(Reply(fault=Fault.RAISED, reason="gone\x1b[2J\nall well"))
    assert read_reply(records).reason == "gone\\x1b[2J\\nall well"
    records["outcome"]["reason"] = "\u202e" + "x" * 10**6
    assert read_reply(records).reason == "\\u202e" + "x" * (REASON - 9) + "..."


def packed(entries):
    header = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    data = b"hopfed-1" + len(header).to_bytes(8, "little") + header + bytes(64)
    return Array("uint8", (len(data),), PACKED, data)


def test_requests_that_are_none_are_errors_in_words():
    for name, value in (
        ("client", -1),
        ("client", 2**40),
        ("seed", "-3"),
        ("seed", "\u00b2"),  # isdigit() is true of a superscript 2
        ("seed", "\u0663"),
        ("seed", "1" * 5000),
        ("round", "1"),
        ("round", 2**62),
        ("exchange", 1e3),
        ("exchange", 1000),
        ("base", b"x" * 17),
        ("run", "x" * 81),
        ("recipe", "x" * (2**20 + 1)),
        ("last", 1),
    ):
        records = a_request()
        records["call"][name] = value
        with pytest.raises(DataError):
            read_request(records)
    with pytest.raises(DataError):
        read_request(RecordDict({"arrays": ArrayRecord(), "other": ConfigRecord()}))


def a_request():
    return write_request(Request("run", Context(0, 0, 0, 0), b"", "[]", {}, {"w": np.ones(2)}))


VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(),
    st.binary(),
    st.booleans(),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
)
ENTRIES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=8,
)
BODIES = st.one_of(
    st.binary(max_size=200),
    ENTRIES.map(lambda entries: packed(entries).data),
    st.tuples(
        st.sampled_from(["x", "", "\x1b[2J"]),
        st.sampled_from(["<f8", "|b1", "|O", "<U3", "|V8", "<i16", ">f2", "|S0", "f8", "(9,)f4"]),
        st.lists(st.integers(-2, 2**64), max_size=4),
    ).map(lambda entry: packed([list(entry)]).data),
)


@given(
    st.sampled_from([(a_request, read_request), (lambda: write_reply(Reply()), read_reply)]),
    st.dictionaries(
        st.sampled_from([*a_request()["call"], *write_reply(Reply())["outcome"], "more"]), VALUES
    ),
    st.dictionaries(st.sampled_from(["down", "parts", "up"]), BODIES, max_size=2),
    st.sampled_from([None, "arrays", "call", "outcome", "metrics"]),
)
def test_whatever_records_hold_the_only_error_is_ours(kind, changes, bodies, gone):
    make, read = kind
    records = make()
    for name in {"call", "outcome"} & set(records):
        records[name].update(changes)
    for name, body in bodies.items():
        records["arrays"][name] = Array("uint8", (len(body),), PACKED, body)
    records.pop(gone, None)
    assert raised(read, records).isprintable()


def raised(read, *arguments):
    """Words of the only error that there may be; none where there is none."""
    try:
        read(*arguments)
    except DataError as error:
        return str(error)
    return ""


@given(st.binary(max_size=3000), st.integers(0, 3000), st.integers(0, 255))
def test_a_damaged_pack_is_an_error_in_words_or_arrays(noise, at, byte):
    data = bytearray(pack({"w": np.arange(200.0), "n": np.array(3)}).tobytes())
    data[at % len(data)] = byte
    for damaged in (bytes(data), bytes(data[:at]), noise, b"hopfed-1" + noise):
        packed = np.frombuffer(damaged, np.uint8)
        words = raised(unpack, packed, 1 << 20)
        assert len(words) < 300
        if not words:
            assert sum(a.nbytes for a in unpack(packed).values()) <= len(damaged)
