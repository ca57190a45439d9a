"""A method as plain data, made again on another machine."""

import numpy as np
import pytest
from federations import of_patterns
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError, DataError
from hopfed.federation.recipes import describe, rebuild
from hopfed.hopfield.batches import Elsewhere
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.plasticity import Structure

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(PLAIN)
def test_plain_values_come_back_as_they_were(value):
    assert rebuild(*describe(value), None) == value


def test_a_method_comes_back_equal_arrays_and_all():
    method = of_patterns(Elsewhere(3), Encoding(50, "factors", 7), rule=Structure(), groups=0)
    assert rebuild(*describe(method), None) == method
    array = np.arange(6, dtype=np.int8).reshape(2, 3)
    held = rebuild(*describe({"xi": array, "r": np.float32(0.5)}), None)
    assert held["xi"].dtype == np.int8
    assert np.array_equal(held["xi"], array)
    assert type(held["r"]) is np.float32


def test_what_is_not_plain_has_no_recipe():
    for value in (len, {"rule": lambda x: x}, object()):
        with pytest.raises(DataError, match="cannot be sent to another machine"):
            describe(value)


def test_classes_check_their_settings_when_they_are_made_again():
    text, arrays = describe(Encoding(50))
    with pytest.raises((ArgumentError, DataError), match="between 1 and"):
        rebuild(text.replace('"counts"', '"factors"').replace("64", "99"), arrays, None)


@pytest.mark.parametrize(
    "text",
    [
        '["made", "os:system", {}]',
        '["made", "hopfed._lib.random:stream", {"seed": 0}]',
        '["made", "hopfed.nothing:Nothing", {}]',
        '["array", "missing"]',
    ],
)
def test_damaged_and_hostile_recipes_are_errors_in_words(text):
    with pytest.raises(DataError):
        rebuild(text, {}, None)
