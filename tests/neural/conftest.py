"""What several neural tests need."""

import pytest


@pytest.fixture
def one_thread():
    """Two threads on nets this small are many times slower than one."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
