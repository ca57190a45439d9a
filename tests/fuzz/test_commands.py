"""Every command with arguments of every kind: what it promises, or one line and exit status 2.

What would compute for long, wait for others or measure the machine stops where that would begin.
"""

import json
import os
import re
import shutil

import numpy as np
import pytest
from calls import calls, run
from helpers import sample
from hypothesis import HealthCheck, given, settings
from mutants import SOUND

from hopfed.errors import HopfedError

pytest.importorskip("torch", reason="torch is not installed: `hopfed fl` is one of the commands")
pytest.importorskip("grpc", reason="grpcio is not installed: `hopfed serve` is one of the commands")

LONG = (
    "experiments.machinery.runner.compute_unit",
    "experiments.machinery.runner.Pool", "experiments.machinery.runner.cluster",
    "cli.recover.cluster", "_lib.dask_cluster.cluster", "bench.measure", "memory.basins.basins",
    "federation.engines.workers.DaskEngine.__enter__",
    "federation.engines.workers.PoolEngine.__enter__",
    "federation.engines.flower.FlowerEngine.step",
    "federation.machines.server.Server.__enter__", "federation.machines.client.ClientProcess.run",
    "experiments.shared.silhouettes.letters_over_clients",
)  # fmt: skip
HELD = ("a.csv", "a.jsonl", "a.parquet", "a.feather", "signs.npy", "images.npz", "pictures")
RUNS = (
    "run bbp --set N=24 --set M=40,80 --seeds 2 --out bbp.h5",
    "recover rows.csv --out run.h5",
    "store rows.npy --out memory.h5",
    "certs keys --clients 3",
)

pytestmark = pytest.mark.usefixtures("little_memory")


class ReachedError(HopfedError):
    """A case came through to its computation."""


def stop(*_, **__):
    raise ReachedError("reached")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folders with inputs and for outputs, the second one being the current one."""
    root = tmp_path_factory.mktemp("commands")
    inputs, outputs = root / "in", root / "out"
    inputs.mkdir()
    outputs.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPFED_HOME", str(root / "home"))
        patch.setenv("HOPFED_DATA", str(inputs))
        patch.chdir(inputs)
        fill(inputs)
        patch.chdir(outputs)
        yield inputs, outputs


@pytest.fixture
def stubs(monkeypatch):
    """Stop what would take long."""
    for name in LONG:
        monkeypatch.setattr(f"hopfed.{name}", stop)


def fill(inputs):
    """Sound files, cut ones, and what is no file."""
    for name in HELD:
        SOUND[name](inputs / name)
    rows = (sample(2, 12, 60, 0.8, seed=7)[1] > 0).astype(int)
    np.save(inputs / "rows.npy", rows)
    np.savetxt(inputs / "rows.csv", rows, "%d", ",")
    (inputs / "a.toml").write_text('data = "digits"\nclients = 3\nlr = 0.1\n[options]\nmu = 0.1\n')
    for line in RUNS:
        assert run(line.split())[0] == 0
    for path in [path for path in inputs.iterdir() if path.suffix]:
        data = path.read_bytes()
        (inputs / f"cut{path.suffix}").write_bytes(data[: len(data) // 2])
        (inputs / f"hole{path.suffix}").write_bytes(data[: len(data) // 3] + bytes(9) + data[-99:])
    for suffix in (".npy", ".npz", ".csv", ".h5", ".parquet", ".toml", ".pem"):
        (inputs / f"empty{suffix}").touch()
        (inputs / f"folder{suffix}").mkdir()
        os.mkfifo(inputs / f"pipe{suffix}")
        (inputs / f"device{suffix}").symlink_to("/dev/zero")


def contents(folder):
    """Bytes of all files of a folder, by path."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {path: path.read_bytes() for path in paths}


def judge(place, arguments):
    """Hold one call to the promise; its exit status."""
    inputs, outputs = place
    before = contents(inputs)
    try:
        status, out, err = run(arguments)
        after = contents(inputs)
        made = {path.name: path.is_dir() or path.stat().st_size for path in outputs.iterdir()}
    finally:
        shutil.rmtree(outputs)
        outputs.mkdir()
        os.chdir(outputs)
    changed = {path for path, _ in before.items() ^ after.items()}
    for path in changed:
        path.unlink(missing_ok=True)
    for path in changed & before.keys():
        path.write_bytes(before[path])
    if status == 0 or (status == 1 and arguments[0] == "sweep"):
        assert {"--overwrite", "--resume"} & {*arguments} or not changed & before.keys()
        assert all(made.values())
        assert json.loads(out) if "--json" in arguments else out.strip()
    else:
        # A line for each column.
        listed = re.search("cannot be read as they are:\n|words that are not known:\n", err)
        assert listed or err.count("\n") == 1
        assert (status, out, err[:7], changed, made) == (2, "", "error: ", set(), {})
    return status


@pytest.mark.parametrize("cases", [
    # Beside other tests a call now and then finds the capture of pytest closed.
    pytest.param(300, marks=pytest.mark.alone), pytest.param(12_000, marks=pytest.mark.slow),
])  # fmt: skip
@pytest.mark.usefixtures("stubs")
def test_commands(place, cases):
    @settings(max_examples=cases, derandomize=cases < 1000, suppress_health_check=list(HealthCheck))
    @given(calls(place))
    def call(arguments):
        judge(place, arguments)

    call()


@pytest.mark.parametrize(
    "line",
    [
        "recover pipe.npy",
        "recover device.csv",
        "recover rows.npy --seed ²",
        "recover hole.npz",
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
    ],
)
def test_calls_that_were_wrong(place, line):
    """The first ones were tracebacks, waited for ever or took all memory."""
    inputs, _ = place
    words = [
        str(inputs / word) if os.path.lexists(inputs / word) else word for word in line.split()
    ]
    assert judge(place, words) == 2
