import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hopfed.theory import _solve


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


def test_the_modules_load_without_scipy():
    code = (
        "import sys, importlib, pkgutil, hopfed.theory as t\n"
        "for m in pkgutil.iter_modules(t.__path__, 'hopfed.theory.'):\n"
        "    importlib.import_module(m.name)\n"
        "print(any(n.startswith('scipy') for n in sys.modules), len(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False")
