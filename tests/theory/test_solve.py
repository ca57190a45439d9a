import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.theory import _check, _solve


@given(
    roots=st.lists(st.floats(-250, 250).map(lambda e: 10.0**e), min_size=1, max_size=20),
    power=st.sampled_from([1, 3, 0.5]),
)
def test_small_roots_keep_their_relative_accuracy(roots, power):
    roots = np.array(roots)
    # Poles at the ends, which must not be evaluated.
    calls = []

    def function(x):
        calls.append(x)
        return np.sign(x - roots) * np.abs(np.log(x / roots)) ** power

    found = _solve.increasing_root(function, roots * 1e-30, roots * 1e20)
    np.testing.assert_allclose(found, roots, rtol=2e-15)
    assert len(calls) < 400


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=10))
def test_maxima_with_a_plateau_behind(places):
    places = np.array(places)

    def function(x):
        hill = 1 - (x - places[:, None]) ** 2
        return np.where(x > places[:, None] + 0.5, -1e3, hill)

    found = _solve.maximise(function, np.full(places.shape, -6.0), np.full(places.shape, 7.0))
    np.testing.assert_allclose(found, places, atol=2e-8)


def test_the_first_offender_is_shown():
    with pytest.raises(ArgumentError, match=r"^q must be a finite number above 0, got -2.0$"):
        _check.positive("q", [1.0, -2.0, np.nan])
    with pytest.raises(ArgumentError, match="p must be a number in \\(0, 1\\), got nan"):
        _check.probability("p", np.nan)
    with pytest.raises(ArgumentError, match=r"M must be a whole number of at least 1, got 2\.5"):
        _check.count("M", 2.5)
    with pytest.raises(ArgumentError, match="q must be a single number"):
        _check.scalar("q", [1.0], _check.positive)
    with pytest.raises(ArgumentError, match="x must be a finite number, got 'text'"):
        _check.real("x", "text")
    assert _check.share("s", [0, 1]).dtype == np.float64


def test_the_modules_load_without_scipy():
    code = (
        "import sys, importlib, pkgutil, hopfed.theory as t\n"
        "for m in pkgutil.iter_modules(t.__path__, 'hopfed.theory.'):\n"
        "    importlib.import_module(m.name)\n"
        "print(any(n.startswith('scipy') for n in sys.modules), len(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False")
