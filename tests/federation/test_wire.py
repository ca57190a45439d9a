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
from hopfed.federation.engines.flower.wire import (
    PACKED,
    Reply,
    Request,
    read_reply,
    read_request,
    write_reply,
    write_request,
)
from hopfed.federation.faults import Fault
from hopfed.federation.messages import digest

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
        lambda r: r["outcome"].update(reason=b"bytes"),
        lambda r: r["metrics"].update(loss="low"),
        lambda r: r["arrays"].update(up=Array("uint8", (1,), "numpy.ndarray", b"x")),
        lambda r: r["arrays"].update(up=packed([["x", "|O", [1]]])),
        lambda r: r["arrays"].update(up=packed([["x", "<f4", [-1]]])),
        lambda r: r["arrays"].update(up=packed([["x", "<f4", [10**12]]])),
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
    assert read_reply(records).reason == "gone?[2J?all well"


def packed(entries):
    header = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    data = b"hopfed-1" + len(header).to_bytes(8, "little") + header + bytes(64)
    return Array("uint8", (len(data),), PACKED, data)


def test_requests_that_are_none_are_errors_in_words():
    request = Request("run", Context(0, 0, 0, 0), b"", "[]", {}, {})
    for name, value in (("client", -1), ("seed", "-3"), ("round", "1"), ("last", 1)):
        records = write_request(request)
        records["call"][name] = value
        with pytest.raises(DataError):
            read_request(records)
    with pytest.raises(DataError):
        read_request(RecordDict({"arrays": ArrayRecord(), "other": ConfigRecord()}))
