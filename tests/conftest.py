"""Fixtures shared by all tests."""

import csv
import os

if "PYTEST_XDIST_WORKER" in os.environ:  # several workers that each take all cores are in each
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "HOPFED_NUM_THREADS"):  # other's way
        os.environ.setdefault(name, "1")

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # a test may load grpc before hopfed does

import numpy as np
import pytest
from helpers import data_file
from hypothesis import settings
from threadpoolctl import threadpool_limits

from hopfed._lib import guarded_reading
from hopfed.cli import main

if "PYTEST_XDIST_WORKER" in os.environ:
    # A plugin may have loaded NumPy before the lines above, which then come too late for it.
    threadpool_limits(1)

settings.register_profile("hopfed", deadline=None, max_examples=25, print_blob=True)
settings.load_profile("hopfed")


@pytest.fixture(scope="session", autouse=True)
def short_patience():
    """Readers that do not come to an end are given up after one second of the processor."""
    guarded_reading.SECONDS = 1


@pytest.fixture(scope="session")
def silhouettes():
    """First silhouette of each of the 101 classes, +-1, or a skip where the data are absent."""
    with np.load(data_file("caltech101_silhouettes_28.npz")) as archive:
        images, labels = archive["images"], archive["labels"]
    first = [np.flatnonzero(labels == c)[0] for c in range(101)]
    return np.where(images[first].reshape(101, -1) == 0, 1, -1).astype(np.int8)


@pytest.fixture(scope="session")
def mnist_digits():
    """2,000 raw MNIST digits cut at half grey, +-1, or a skip where the data are absent."""
    with np.load(data_file("mnist.npz")) as archive:
        return np.where(archive["images"][:2000].reshape(2000, -1) > 127, 1, -1).astype(np.int8)


@pytest.fixture
def votes():
    """Votes (435, 16) of +-1 with gaps as NaN, and who is a republican (435,)."""
    head, *body = csv.reader(data_file("tables/votes.csv").read_text().splitlines())
    x = [[{"y": 1.0, "n": -1.0, "": np.nan}[cell] for cell in row[2:]] for row in body]
    return np.array(x), np.array([row[1] == "republican" for row in body])


class Hopfed:
    """`hopfed ARGUMENTS` in this process: (exit status, stdout, stderr)."""

    def __init__(self, capsys):
        self.capsys = capsys

    def __call__(self, *arguments):
        status = 0
        try:
            main([str(a) for a in arguments])
        except SystemExit as stop:
            status = stop.code or 0
        captured = self.capsys.readouterr()
        return status, captured.out, captured.err

    def done(self, *arguments):
        """Stdout and stderr of a command that does its work."""
        status, out, err = self(*arguments)
        assert status == 0, err
        return out, err

    def refused(self, *arguments):
        """The line of a command that says why it does nothing."""
        status, out, err = self(*arguments)
        assert (status, out, err.count("\n")) == (2, "", 1), err
        assert err.startswith("error: ")
        return err


@pytest.fixture
def hopfed(capsys):
    """Run `hopfed ARGUMENTS`; answer (exit status, stdout, stderr)."""
    return Hopfed(capsys)
