"""What several neural tests need."""

from importlib.util import find_spec

import pytest

# Without PyTorch there is nothing to test but how data sets are read and divided.
NEED_TORCH = ("test_*", "readouts", "training", "data/test_given.py", "data/test_tensors.py")
collect_ignore_glob = [] if find_spec("torch") else [*NEED_TORCH]
collect_ignore = [] if find_spec("dp_accounting") else ["test_private.py"]


@pytest.fixture
def one_thread():
    """Two threads on nets this small are many times slower than one."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
