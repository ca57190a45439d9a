"""Servers that send or ask without end fill neither memory, disk nor log of a client."""

import resource

import numpy as np
import pytest
from asking import N, ask, known, method, refused, site

from hopfed._lib.settings import to_plain
from hopfed.cli.machines.join import _finish
from hopfed.errors import DataError
from hopfed.experiments import serve
from hopfed.federation.machines.node import MOST, Sparing
from hopfed.runs import Run


def test_patterns_without_end_do_not_fill_the_memory(tmp_path):
    """Of 1.7 MB that a server tells, unpacking made 34."""
    node, K = site(tmp_path), 100_000
    down = known(np.ones((1, N))) | {"sure": np.ones(K, np.float32)}
    down["patterns"] = np.zeros((K, -(-N // 8)), np.uint8)
    refused(ask(node, method(), down=down), "100,000 patterns of 40 columns, which are too many")
    assert not ask(node, method(), down=known(np.ones((10, N)))).fault


def test_a_server_that_asks_without_end_fills_no_log():
    said = []
    sparing = Sparing(said.append)
    for t in range(100):
        sparing(f"round {t}: not answered: rows are few", "rows are few")
    assert said == ["round 0: not answered: rows are few"]
    for t in range(2 * MOST):
        sparing(f"a request that is none: {t}")
    assert len(said) == MOST
    assert said[-1].endswith("no more follow")


def test_a_last_word_without_end_fills_neither_memory_nor_disk(tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match="too many"):
        _finish({"patterns": np.zeros((2_000_000, 98), np.uint8)}, 784, tmp_path / "found.h5")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000
    assert not any(tmp_path.iterdir())


def test_rounds_without_end_are_refused_before_anyone_is_waited_for(tmp_path, hopfed):
    path = tmp_path / "run.h5"
    config = to_plain(serve.Config(columns=20)) | {"rounds": 10**12}
    Run("serve", config, {}, {}, {}, 0, 1).save(path)
    asked = "serve", "--keys", tmp_path / "none", "--out", path
    for words in (("--resume",), ("--resume", "--rounds", 10**12)):
        status, _, error = hopfed(*asked, *words)
        assert (status, error.count("\n")) == (2, 1)
        assert "rounds" in error
        assert "1000000000000" in error
