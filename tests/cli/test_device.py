"""`--device` and HOPFED_DEVICE: what runs where, and what is not there, in one line."""

import shutil
from inspect import signature
from unittest.mock import Mock

import numpy as np
import pytest
from emulator.device import Emulated
from helpers import sample

from hopfed.errors import BackendError
from hopfed.experiments import NAMES, ON_DEVICE, find_experiment
from hopfed.experiments.machinery.runner import execute
from hopfed.kernels.cuda import device as devices
from hopfed.runs import Run


@pytest.fixture
def emulated(monkeypatch):
    """`cuda` opens an emulated device; kernels that ran are in its `launches`."""
    if not (shutil.which("g++") or shutil.which("c++")):
        pytest.skip("no C++ compiler to emulate a device with")
    device = Emulated()
    monkeypatch.setattr(devices, "cuda", lambda ordinal=0: device)
    return device


COMMANDS = ("recover gone.npy", "run load", "bench gram", "demo", "fl run fedavg", "run sohip")


@pytest.mark.parametrize("line", COMMANDS)
def test_a_device_that_is_not_there_is_one_line(hopfed, line, monkeypatch):
    missing = Mock(side_effect=RuntimeError("no CUDA here\nand more lines"))  # as PyTorch has it
    words, said = line.split(), "error: CuPy finds no usable CUDA device 2\n"
    if line in COMMANDS[4:]:
        torch = pytest.importorskip("torch", reason="torch is not installed")
        monkeypatch.setattr(torch, "empty", missing)
        said = "error: device cuda:2: no CUDA here\n"
    else:
        error = BackendError("CuPy finds no usable CUDA device 2")
        monkeypatch.setattr(devices, "cuda", Mock(side_effect=error))
    assert hopfed(*words, "--device", "cuda:2") == (2, "", said)
    monkeypatch.setenv("HOPFED_DEVICE", "cuda:2")
    assert hopfed(*words) == (2, "", said)
    monkeypatch.setenv("HOPFED_DEVICE", "gpu")
    assert hopfed.refused(*words).startswith("error: HOPFED_DEVICE must be cpu, cuda or cuda:N")
    assert hopfed.refused(*words, "--device", "tpu").startswith("error: --device must be cpu")


def test_recover_gives_the_same_archetypes_on_the_device(hopfed, emulated, tmp_path):
    np.save(tmp_path / "a.npy", sample(3, 120, 400, 0.9, 1)[1])
    found = {}
    for place in ("cpu", "cuda"):
        assert not emulated.launches
        hopfed.done("recover", tmp_path / "a.npy", "--device", place, "--out", tmp_path / "r.h5")
        run = Run.load(tmp_path / "r.h5")
        found[run.config["device"]] = run.arrays["archetypes/patterns"]
        (tmp_path / "r.h5").unlink()
    assert emulated.launches
    np.testing.assert_array_equal(found["cuda:0"], found["cpu"])


def test_experiments_that_take_a_device_are_those_listed():
    measures = {name: getattr(find_experiment(name), "measure", len) for name in NAMES}
    assert {n for n, m in measures.items() if "device" in signature(m).parameters} == set(ON_DEVICE)


def test_a_run_remembers_its_device(emulated, tmp_path):
    plan = find_experiment("plan")
    config = plan.Config(N=(50,), K=(1,), qualities=(0.6,), seeds=1)
    here = execute(plan, config)
    path = tmp_path / "p.h5"
    there = execute(plan, config, device="cuda:0", out=path)
    np.testing.assert_array_equal(there.arrays["shown"], here.arrays["shown"])
    assert emulated.launches
    assert there.config == here.config | {"device": "cuda:0"}
    with pytest.raises(Exception, match="made with device = cuda:0, not cpu"):
        execute(plan, config, out=path, resume=True)
    assert execute(plan, config, device="cuda:0", out=path, resume=True).complete


def test_doctor_says_what_works_where(hopfed, emulated, monkeypatch):
    monkeypatch.setenv("HOPFED_DEVICE", "cuda")
    text = " ".join(hopfed.done("doctor")[0].split())
    assert "--device cpu everything" in text
    assert "on emulated device: recover, demo, run load|plan|scale, bench" in text
    assert "HOPFED_DEVICE cuda" in text
