"""`tests/gpu/day.py`: a stage that fails or hangs loses nothing but itself."""

import re
import shutil
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from emulator.device import Emulated
from gpu import sanitizer

from hopfed.kernels.cuda import layered
from hopfed.kernels.cuda.device import FOLDER

HERE = Path(__file__).parent
KERNEL = re.compile(r"__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(")


def test_stages_that_fail_and_hang_lose_nothing(tmp_path, monkeypatch, capsys):
    spec = spec_from_file_location("day", HERE / "day.py")
    day = module_from_spec(spec)
    spec.loader.exec_module(day)
    monkeypatch.setattr(sys, "argv", ["day.py", "--out", str(tmp_path)])
    stages = {
        "fails": (9, ["-c", "raise ValueError('it broke')"]),
        "hangs": (0.5, ["-c", "print('waiting', flush=True); import time; time.sleep(60)"]),
        "good": (9, ["-c", "print('here')"]),
    }
    assert day.main(stages) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("fails: failed, see")
    assert said[1:] == ["hangs: stopped after 0 s", "good: ok"]
    assert "it broke" in (tmp_path / "fails.txt").read_text()
    assert (tmp_path / "good.txt").read_text() == "here\n"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_the_sanitizer_touches_every_kernel(monkeypatch):
    monkeypatch.setattr(layered, "PIECE_BYTES", layered.PIECE_BYTES)  # put back afterwards
    device = Emulated()
    sanitizer.touch(device)
    for path in sorted(FOLDER.glob("*.cu")):
        names = set(KERNEL.findall(path.read_text(encoding="utf-8")))
        assert names <= set(device.launches), path.name
