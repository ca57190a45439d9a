"""Messages taken apart into objects: what is one message, of bounded size, and what is not."""

import json

import numpy as np
import pytest
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from rogue import part, request

from hopfed.errors import DataError
from hopfed.federation.engines.flower.objects import OBJECTS, assembled
from hopfed.federation.machines.wire import read_request


@pytest.fixture
def parts():
    """Name of a message, and contents by name."""
    made = request(down={"w": np.arange(10**6, dtype=np.uint8)})
    return made.object_id, {n: o.deflate() for n, o in get_all_nested_objects(made).items()}


def test_a_message_is_what_it_was(parts):
    name, contents = parts
    found = assembled(name, contents.get, 10**7)
    assert found.metadata.message_id == name
    assert read_request(found.content).down["w"].tolist() == [i % 256 for i in range(10**6)]


def test_a_message_with_a_part_on_its_way_is_none_yet(parts):
    name, contents = parts
    for missing in contents:
        assert assembled(name, (contents | {missing: b""}).get, 10**7) is None


def test_parts_that_are_missing_cut_or_noise_are_errors_in_words(parts):
    name, contents = parts
    rng = np.random.default_rng(0)
    for each, content in contents.items():
        others = {k: v for k, v in contents.items() if k != each}
        with pytest.raises(DataError, match="what was not sent"):
            assembled(name, others.get, 10**7)
        for damaged in (content[:9], content[::-1], b"\0", b"Array  \0", b"Message x y\0"):
            with pytest.raises(DataError):
                assembled(name, (others | {each: damaged}).get, 10**7)
        for _ in range(20):
            noisy = bytearray(content)
            noisy[int(rng.integers(min(len(noisy), 300)))] = int(rng.integers(256))
            try:
                assembled(name, (others | {each: bytes(noisy)}).get, 10**7)
            except DataError as error:
                assert str(error).isprintable()  # noqa: PT017 - most damage is no error at all


def test_what_is_too_large_is_refused_before_it_is_put_together(parts):
    name, contents = parts
    with pytest.raises(DataError, match=r"more than 0\.5 MB"):
        assembled(name, contents.get, 5 * 10**5)
    for each in [n for n, c in contents.items() if c.startswith(b"Array ")]:
        head, _, body = contents[each].partition(b"\0")
        (piece,) = head.decode().split(" ")[1].split(",")
        order = {"arraychunk_ids": [0] * (10**7 // len(contents[piece]) + 1)}
        changed = part("Array", [piece], json.dumps(json.loads(body) | order).encode())
        with pytest.raises(DataError, match="more than 10 MB"):
            assembled(name, (contents | {each: changed}).get, 10**7)


@pytest.mark.parametrize(
    "contents",
    [
        {"m": part("Message", ["m"])},
        {"m": part("RecordDict")},
        {"m": part("Message", ["a"]), "a": part("Message", ["b"]), "b": part("RecordDict")},
        {"m": part("Message", ["a"]), "a": part("RecordDict", ["a"])},
        {"m": part("Message", [str(i) for i in range(OBJECTS + 1)])},
        {"m": part("os.system", body=b"x")},
        {"m": part("Message", body=b"\xff")},
        {"m": part("Message")},
    ],
)
def test_a_message_has_the_parts_of_a_message(contents):
    with pytest.raises(DataError):
        assembled("m", contents.get, 10**6)


def test_parts_that_double_at_every_step_cost_no_time():
    """A hundred levels, each of which names the one below twice."""
    contents = {f"{i}": part("ArrayRecord", [f"{i + 1}"] * 2) for i in range(100)}
    contents["m"] = part("Message", ["r"])
    contents["r"] = part("RecordDict", ["0"])
    with pytest.raises(DataError, match="other parts"):
        assembled("m", contents.get, 10**6)
