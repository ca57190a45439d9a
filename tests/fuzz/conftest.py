"""What the fuzz tests share: files to read, room for outputs, and little memory."""

import os
import resource
from pathlib import Path
from random import Random

import numpy as np
import pytest
from calls import MEMORY, run
from mutants import FILES, FOLDERS, damaged

from hopfed.errors import HopfedError

SMALL = ("bbp", "concentration")  # experiments that are really run, if their settings are small
LARGEST = 128  # whole number of a small setting
LONG = (
    "experiments.runner.Pool", "experiments.runner.cluster", "cli.recover.cluster",
    "_lib.cluster.cluster", "federation.engines.workers.DaskEngine.__enter__",
    "federation.engines.workers.PoolEngine.__enter__", "bench.measure", "memory.basins.basins",
    "federation.engines.flower.FlowerEngine.step",
    "federation.machines.server.Server.__enter__", "federation.machines.client.ClientProcess.run",
    "experiments.shared.silhouettes.letters_over_clients",
)  # fmt: skip


@pytest.fixture(scope="module")
def little_memory():
    """More memory than the limit cannot be had, so that taking it would be an error."""
    lines = Path("/proc/self/status").read_text().splitlines()
    used = next(int(line.split()[1]) for line in lines if line.startswith("VmData:")) * 1024
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folders with inputs and for outputs, the second one being the current one."""
    root = tmp_path_factory.mktemp("commands")
    inputs, outputs = root / "in", root / "out"
    inputs.mkdir()
    outputs.mkdir()
    _fill(inputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(outputs)
        patch.setenv("HOPFED_HOME", str(root / "home"))
        patch.setenv("HOPFED_DATA", str(inputs))
        yield inputs, outputs


def _fill(inputs):
    """Valid files, damaged ones, and what is no file, of every suffix."""
    for suffix, seeds in FILES.items():
        for k, data in enumerate(seeds):
            (inputs / f"good{k}{suffix}").write_bytes(data)
            (inputs / f"cut{k}{suffix}").write_bytes(data[: len(data) // 2])
            middle = data[: len(data) // 3] + bytes(8) + data[len(data) // 3 + 8 :]
            (inputs / f"hole{k}{suffix}").write_bytes(middle)
        (inputs / f"empty{suffix}").touch()
        (inputs / f"folder{suffix}").mkdir()
        os.mkfifo(inputs / f"pipe{suffix}")
        (inputs / f"device{suffix}").symlink_to("/dev/zero")
        (inputs / f"[{suffix}").write_bytes(seeds[0])
    for at, held in FOLDERS["pets"].items():
        (inputs / "pets" / at).parent.mkdir(parents=True, exist_ok=True)
        (inputs / "pets" / at).write_bytes(held)
    for name in ("rows.npy", "rows.csv", "rows.npz", "settings.toml"):
        (inputs / name).write_bytes(FILES[Path(name).suffix][0])
    made = ["run", "bbp", "--set", "N=24", "--set", "M=40,80", "--seeds", "2", "--out"]
    assert run([*made, str(inputs / "run.h5")])[0] == 0
    assert run(["certs", str(inputs / "keys"), "--clients", "3"])[0] == 0
    found = ["recover", str(inputs / "rows.csv"), "--out", str(inputs / "recovered.h5")]
    assert run(found)[0] == 0
    for k in range(30):
        whole = (inputs / ("recovered.h5" if k < 10 else "run.h5")).read_bytes()
        (inputs / f"damaged{k}.h5").write_bytes(damaged(Random(k), [whole]))


class ReachedError(HopfedError):
    """A case came through to its computation."""


def stop(*_, **__):
    raise ReachedError("reached")


@pytest.fixture(scope="module")
def stubs():
    """Stop what would take long."""
    from hopfed.experiments import runner

    unit = runner.unit

    def small_unit(job, *rest, **more):
        module, config, _ = job
        counts = [v for name in ("N", "M", "seeds") for v in np.ravel(getattr(config, name, 0))]
        if module.rpartition(".")[2] in SMALL and max(counts) <= LARGEST:
            return unit(job, *rest, **more)
        return stop()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "unit", small_unit)
        for name in LONG:
            patch.setattr(f"hopfed.{name}", stop)
        yield
