"""What a client is to do as plain text, and questions that are damaged or hostile: one line."""

import numpy as np
import pytest
from asking import N, ask, method, refused, site
from federations import of_patterns, private_classes

from hopfed.errors import DataError
from hopfed.hopfield.clients import client_of
from hopfed.hopfield.stream import Elsewhere


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{",
        "9" * 90_000,
        '[["Elsewhere"], {}]',
        '{"n_sites": 40, "\\u001b[2J": 1}',
        '{"n_sites": [[40]]}',
        '["hopfed.__main__:cli", {}]',
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


def test_every_field_has_a_type_and_a_range(tmp_path):
    text, node = method().client.recipe, site(tmp_path)
    for old, new, words in (
        ('"weight": 1.0', '"weight": NaN', "weight"),
        ('"votes": true', '"votes": true, "secret": 1', "of the fields"),
        ('"n_sites": 40', '"n_sites": 40.0', "n_sites"),
        ('"rounds": 1', '"rounds": 0', "rounds"),
        ('"groups": 4', '"groups": true', "groups"),
    ):
        assert old in text
        refused(ask(node, text.replace(old, new)), words)


def test_a_malformed_question_is_one_line(tmp_path):
    node, asked = site(tmp_path), method()
    state = ask(node, asked).state
    for basis in (np.zeros((N, 2), np.int32), np.full((N, 2), np.nan, "f4"), np.zeros((N + 1, 2))):
        reply = ask(node, asked, 0, 1, state, {"basis": basis})
        refused(reply, "malformed message from the server")


def test_a_client_comes_back_equal():
    for made in (
        of_patterns(Elsewhere(3), 50, factors=7, groups=0),
        private_classes(Elsewhere(2), 9, 1.5),
    ):
        assert client_of(made.client.recipe) == made.client


def test_what_is_not_plain_has_no_recipe():
    with pytest.raises(DataError, match="cannot be sent to another machine"):
        of_patterns(object(), 50).client.recipe  # noqa: B018
