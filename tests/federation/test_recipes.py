"""What a client is to do as plain text, made again on another machine."""

import pytest
from federations import of_patterns, private_classes

from hopfed.errors import ArgumentError, DataError
from hopfed.federation.recipes import describe, rebuild
from hopfed.hopfield.batches import Elsewhere
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.owner import ALLOWED


def test_a_client_comes_back_equal():
    for method in (
        of_patterns(Elsewhere(3), Encoding(50, "factors", 7), groups=0),
        private_classes(Elsewhere(2), 9, 1.5),
    ):
        assert rebuild(describe(method.client), ALLOWED) == method.client


def test_what_is_not_plain_has_no_recipe():
    with pytest.raises(DataError, match="cannot be sent to another machine"):
        describe(of_patterns(object(), Encoding(50)).client)


def test_classes_check_their_settings_when_they_are_made_again():
    text = describe(Encoding(50))
    with pytest.raises((ArgumentError, DataError), match="between 1 and"):
        rebuild(text.replace('"counts"', '"factors"').replace("64", "99"), ALLOWED)


@pytest.mark.parametrize("text", ['["os:system", {}]', '["Batches", {}]', '["Fixed"]', "[1, 2]"])
def test_damaged_and_hostile_recipes_are_errors_in_words(text):
    with pytest.raises(DataError):
        rebuild(text, ALLOWED)
