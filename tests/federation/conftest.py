"""Keys of a federation of three clients, and of one more."""

import pytest

from hopfed.federation.machines.keys import make_keys


@pytest.fixture(scope="session")
def keys(tmp_path_factory):
    make_keys(folder := tmp_path_factory.mktemp("keys"), 4, ["127.0.0.1"])
    return folder
