"""Settings: parsed by annotation, checked, and back from JSON unchanged."""

import json
import math
from dataclasses import dataclass, make_dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed._lib.settings import (
    MOST,
    check_types,
    describe,
    from_plain,
    require,
    to_plain,
    with_settings,
)
from hopfed.errors import ArgumentError


@dataclass(frozen=True)
class Config:
    N: int = 400
    quality: float = 0.9
    name: str = "tw"
    shuffle: bool = True
    M: tuple[int, ...] = (400, 1600)
    degrees: tuple[float, ...] = (3.0, math.inf)
    seeds: int = 5

    def __post_init__(self):
        check_types(self)
        require(0 < self.quality <= 1, "quality", "in (0, 1]", self.quality)


def test_settings_are_parsed_by_the_annotation_of_their_field():
    text = ["N=100", "quality=.5", "name=mp", "shuffle=no", "M=1,2,3", "degrees=5, inf"]
    got = with_settings(Config(), text)
    assert got == Config(100, 0.5, "mp", False, (1, 2, 3), (5.0, math.inf))
    assert type(got.M[0]) is int


BAD = """
N : --set must be of the form key=value, got 'N'
N=1.5 : N must be a whole number, got '1.5'
N= : N must be a whole number, got ''
quality=nan : quality must be a number, got 'nan'
quality=2 : quality must be in (0, 1], got 2.0
shuffle=maybe : shuffle must be true or false, got 'maybe'
M=1,,2 : M must be a whole number or several separated by commas, got ''
qualty=1 : did you mean quality?
=3 : --set must be one of N, quality
N=² : N must be a whole number, got '²'
N=1_000 : N must be a whole number, got '1_000'
N=99999999999 : N must be a whole number of at most 1,000,000,000, got 99999999999
quality=1e400 : quality must be a number, got '1e400'
quality=inf : quality must be finite, got inf
degrees=5,nan : degrees must be a number or several separated by commas, got 'nan'
name= : name must be a word, got ''
"""


@pytest.mark.parametrize("line", [*BAD.strip().splitlines(), f"N={'9' * 5000} : got '999"])
def test_a_bad_setting_is_named(line):
    setting, _, message = line.partition(" : ")
    with pytest.raises(ArgumentError) as error:
        with_settings(Config(), [setting])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


WRONG = {
    "N": (1.0, True, "1", 2**63), "quality": ("0.5", math.nan, math.inf), "shuffle": (1,),
    "name": (3,), "M": ((1.5,), [1], ()),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_field_of_another_type_is_named_on_construction(name):
    for value in WRONG[name]:
        with pytest.raises(ArgumentError, match=f"^{name} must be"):
            Config(**{name: value})


@given(
    N=st.integers(-MOST, MOST),
    quality=st.floats(min_value=0, max_value=1, exclude_min=True),
    M=st.lists(st.integers(-MOST, MOST), min_size=1).map(tuple),
    degrees=st.lists(st.floats(allow_nan=False), min_size=1).map(tuple),
)
def test_a_config_survives_json_and_its_own_text(N, quality, M, degrees):
    config = Config(N=N, quality=quality, M=M, degrees=degrees)
    text = json.dumps(to_plain(config), allow_nan=False)
    assert from_plain(Config, json.loads(text)) == config
    settings = [f"{k}={describe(getattr(config, k))}" for k in to_plain(config)]
    assert with_settings(Config(), settings) == config


def test_what_does_not_fit_a_config_is_refused():
    with pytest.raises(ArgumentError, match="given once"):
        with_settings(Config(), ["N=1", "N=2"])
    with pytest.raises(ArgumentError, match="config must be of the fields N, quality"):
        from_plain(Config, to_plain(Config()) | {"extra": 1})
    due = make_dataclass("Due", [("N", int)])
    with pytest.raises(ArgumentError, match="config must be of the fields N, got none"):
        from_plain(due, {})
