"""Every example in a docstring runs, in the modules as they are installed."""

import doctest
import importlib
import pkgutil

import pytest

import hopfed
import hopfed.experiments
import hopfed.figures
import hopfed.kernels
import hopfed.theory

SKIPPED = "hopfed.kernels.cuda"  # its modules import CuPy


def names():
    for package in (hopfed, hopfed.kernels, hopfed.theory, hopfed.experiments, hopfed.figures):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not module.name.startswith(SKIPPED):
                yield module.name


SLOW = {
    "hopfed.federation.engines.workers",
    "hopfed.recovery.compare",
    "hopfed.theory.graded_planning",
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in sorted(set(names()))]
)
def test_examples_in_docstrings(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0
