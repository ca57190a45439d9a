"""Bad input as a user meets it: each call in a process of its own, with little memory.

The first ones were tracebacks, waited for ever or took all memory.
"""

import os
import resource
import subprocess
import sys

import pytest
from calls import MEMORY, SECONDS

pytest.importorskip("torch", reason="torch is not installed: `hopfed fl` is one of the commands")
pytest.importorskip("grpc", reason="grpcio is not installed: `hopfed serve` is one of the commands")

LINES = (
    "recover pipe.npy",
    "recover device.csv",
    "recover rows.npy --seed ²",
    "recover hole0.npz",
    "run bbp --set N=99999999999",
    "run bbp --set N=900000000 --out made.h5",
    "run bbp --seeds 900000000",
    "fl run fedavg --data device.npz",
    "fl run fedavg --models mlp:99999999x99999999",
    "show pipe.h5",
    "join --data pipe.csv --dry-run",
    "theory plan --r inf --N 100",
    "report pipe.h5 --out made.html",
    "serve --keys keys --columns 9 --listen 127.0.0.1:² --out made.h5",
)


@pytest.mark.parametrize("words", LINES)
def test_as_a_user_runs_them(place, words):
    inputs, outputs = place
    arguments = [
        str(inputs / word) if (inputs / word).is_symlink() or (inputs / word).exists() else word
        for word in words.split()
    ]
    began = os.times()
    ended = subprocess.run(
        [sys.executable, "-m", "hopfed", *arguments],
        cwd=outputs,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY)),
    )
    spent = os.times()
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    assert ended.stderr.startswith("error: ")
    assert ended.stderr.count("\n") == 1
    assert list(outputs.iterdir()) == []
    assert spent.children_user - began.children_user < SECONDS
