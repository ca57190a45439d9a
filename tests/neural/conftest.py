"""What several neural tests need."""

from importlib.util import find_spec

import numpy as np
import pytest
from helpers import written

# Without PyTorch there is nothing to test but how data sets are read and divided.
NEED_TORCH = ("test_*", "readouts", "training", "data/test_given.py")
collect_ignore_glob = [] if find_spec("torch") else [*NEED_TORCH]
collect_ignore = [] if find_spec("dp_accounting") else ["test_private.py"]


@pytest.fixture
def table(tmp_path):
    """Path of a table of 150 plants: six numbers and a label each."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 150)
    rows = (3 * rng.normal(size=(3, 6)))[labels] + rng.normal(size=(150, 6))
    plants = np.column_stack([rows.round(3), np.array(["ash", "oak", "yew"])[labels]])
    return written(tmp_path / "plants.csv", [*"abcdef", "label"], plants)


@pytest.fixture(autouse=bool(find_spec("torch")))
def _one_thread():
    """Two threads on nets this small are many times slower than one."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
