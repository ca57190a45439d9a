"""Warnings of `hopfed fl`: hopfed's own are a line each, those of libraries are for nobody."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed")

# As the installed command is: a file that a worker process imports once more.
COMMAND = "from hopfed.__main__ import main\nif __name__ == '__main__':\n    main()\n"
NETWORK = """
import warnings
from torch import nn

class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        warnings.warn("of no use to users", RuntimeWarning)
        return self.head(x.flatten(1) if x.sum() > -1e9 else x)  # not to be batched by vmap
"""
SMALL = ("--rounds", "2", "--clients", "3", "--set", "examples=150")


def said(folder, *arguments):
    (folder / "command.py").write_text(COMMAND)
    (folder / "nets.py").write_text(NETWORK)
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONWARNINGS"}
    done = subprocess.run(
        [sys.executable, "command.py", "fl", "run", *arguments],
        cwd=folder, env=clean, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


@pytest.mark.parametrize(
    "more",
    [
        ("--seeds", "2"),
        pytest.param(("--engine", "pool", "--workers", "2"), marks=pytest.mark.slow),
    ],
    ids=["here", "in workers"],
)
def test_a_store_with_fewer_examples_than_k_is_said_once(tmp_path, more):
    lines = said(tmp_path, "knn-per", *SMALL, "--models", "mlp:8", "--set", "k=9999", *more)
    assert set(lines) == {
        "warning: k = 9999 is more than the examples of a store: all of a store are used"
    }
    assert len(lines) <= (1 if "--seeds" in more else 2)  # once for each process


def test_clients_that_are_trained_one_by_one_are_said_and_a_networks_own_warnings_are_not(tmp_path):
    (line,) = said(tmp_path, "fedavg", *SMALL, "--models", "nets.py:Net", "--set", "way=stacked")
    assert line.startswith("warning: clients are trained one by one (")
