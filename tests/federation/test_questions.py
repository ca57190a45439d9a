"""What a client is to do as plain text, and questions that are damaged or hostile: one line."""

from dataclasses import fields

import numpy as np
import pytest
from asking import N, ask, method, refused, site
from federations import of_patterns, private_classes

from hopfed.errors import ArgumentError, DataError
from hopfed.federation.recipes import describe, rebuild
from hopfed.hopfield.batches import Elsewhere
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.owner import ALLOWED


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{",
        "9" * 90_000,
        '[["Elsewhere"], {}]',
        '["hopfed.__main__:cli", {}]',
        '["Batches", {"owners": []}]',
        '["Elsewhere", {"\\u001b[2J": 1}]',
        "x" * 10_000_000,
    ],
)
def test_a_damaged_recipe_is_one_line_and_the_client_goes_on(tmp_path, text):
    node = site(tmp_path)
    reply = ask(node, text)
    refused(reply, "")
    assert reply.reason.isprintable()
    assert len(reply.reason) < 400
    assert not ask(node, method()).fault


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"weight": 1.0', '"weight": NaN', "weight"),
        ('"votes": true', '"votes": true, "secret": 1', "secret"),
        ('"n_sites": 40', '"n_sites": 40.0', "n_sites"),
        ('"width": 64', '"width": true', "width"),
    ],
)
def test_every_field_has_a_type_and_a_range(tmp_path, old, new, words):
    text = describe(method().client)
    assert old in text
    refused(ask(site(tmp_path), text.replace(old, new)), words)


@pytest.mark.parametrize("cls", ALLOWED, ids=lambda cls: cls.__name__)
def test_the_list_names_every_field_of_its_classes(cls):
    """A field that is new needs somebody to say what a server may put into it."""
    assert set(ALLOWED[cls]) == {f.name for f in fields(cls) if f.init}


@pytest.mark.parametrize(
    "down",
    [
        {"basis": np.zeros((N, 2), np.int32)},
        {"basis": np.full((N, 2), np.nan, np.float32)},
        {"basis": np.zeros((N + 1, 2), np.float32)},
    ],
)
def test_a_malformed_question_is_one_line(tmp_path, down):
    node, asked = site(tmp_path), method()
    started = ask(node, asked)
    refused(ask(node, asked, 0, 1, started.state, down), "malformed message from the server")


def test_a_client_comes_back_equal():
    for made in (
        of_patterns(Elsewhere(3), Encoding(50, "factors", 7), groups=0),
        private_classes(Elsewhere(2), 9, 1.5),
    ):
        assert rebuild(describe(made.client), ALLOWED) == made.client


def test_what_is_not_plain_has_no_recipe():
    with pytest.raises(DataError, match="cannot be sent to another machine"):
        describe(of_patterns(object(), Encoding(50)).client)


def test_classes_check_their_settings_when_they_are_made_again():
    text = describe(Encoding(50))
    with pytest.raises((ArgumentError, DataError), match="between 1 and"):
        rebuild(text.replace('"counts"', '"factors"').replace("64", "99"), ALLOWED)
