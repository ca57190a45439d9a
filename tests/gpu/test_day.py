"""`tests/gpu/day.py`: a stage that fails, hangs or has nothing to do loses nothing but itself."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hopfed
from hopfed.kernels.cuda.device import FOLDER

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # as day.py does for its stages

from day import LIMITS  # noqa: E402
from stages.versions import KERNEL  # noqa: E402

START = "from stages import NotHereError, run\n"
FAILS = "def work(rows):\n    rows.add('first', seconds=2.0)\n    raise ValueError('it broke')\n"
HANGS = """
import subprocess, sys, time
def work(rows):
    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
    rows.add('started', child=child.pid)
    print('waiting for the device', flush=True)
    time.sleep(600)
"""
ABSENT = "def work(rows):\n    raise NotHereError('there is no device')\n"
CEILINGS = """
def work(rows):
    rows.add('copy', rate=1e9)
    rows.add('float32', rate=1e12)
"""
MEASURES = """
def work(rows):
    rows.add('moving', seconds=2.0, bytes=1e9, operations={'float32': 1e11})
    rows.add('computing', seconds=2.0, bytes=1e8, operations={'float32': 1e12})
    rows.add('unbounded', seconds=2.0, bytes=1e8, operations={'int8': 1e12})
"""


def results_of(out, stages, *options, environment=()):
    """Run the command; answer its status, its stages, its rows and its page."""
    command = [sys.executable, HERE / "day.py", "--out", out, "--stages", stages, *options]
    env = {k: v for k, v in os.environ.items() if k != "HOPFED_REQUIRE"} | dict(environment)
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert "Traceback" not in done.stderr
    results = json.loads((out / "results.json").read_text())
    held = {Path(k).stem: v for k, v in results["stages"].items()}
    return done.returncode, held, results["rows"], (out / "results.md").read_text()


@pytest.fixture
def day(tmp_path):
    """Run the command with stages of a name and code."""

    def call(stages, *more, **environment):
        for name, code in stages.items():
            (tmp_path / f"{name}.py").write_text(START + code + "run(work)\n")
        names = ",".join([*(str(tmp_path / f"{name}.py") for name in stages), *more])
        return results_of(tmp_path / "out", names, "--limit=12", environment=environment)

    return call


def ended(pid):
    """Whether a process has ended, within some seconds; a zombie has."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
            os.kill(pid, 0)
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
def test_stages_that_fail_and_hang_lose_nothing(day):
    status, held, rows, page = day({"fails": FAILS, "hangs": HANGS}, "versions")
    assert status == 1
    assert [h["status"] for h in held.values()] == ["failed", "out of time", "ok"]
    assert held["fails"]["said"] == "ValueError: it broke"
    assert held["hangs"]["said"] == "stopped after 12 s; last words: waiting for the device"
    by_stage = {stage: [r for r in rows if r["stage"] == stage] for stage in held}
    assert [r["name"] for r in by_stage["fails"]] == ["first"]
    (started,) = by_stage["hangs"]
    assert ended(started["child"])  # what a stage started is gone with it
    versions = {r["name"]: r for r in by_stage["versions"]}
    assert hopfed.__version__ in versions["doctor"]["said"]
    assert {"python", "device"} <= set(versions)
    assert "| fails | first | 2000 |" in page


def test_without_a_device_a_stage_is_skipped_unless_one_is_required(day):
    status, held, rows, page = day({"absent": ABSENT})
    assert (status, rows) == (0, [])
    assert held["absent"]["status"] == "skipped"
    assert "| absent | skipped | 0 | not here: there is no device |" in page
    status, held, *_ = day({"absent": ABSENT}, HOPFED_REQUIRE="cupy")
    assert status == 1
    assert held["absent"]["status"] == "failed"


def test_every_row_has_its_share_of_the_bound(day):
    day({"ceilings": CEILINGS, "measures": FAILS})
    status, held, rows, page = day({"measures": MEASURES})  # ceilings are those of the first call
    assert status == 0
    assert {stage: h["status"] for stage, h in held.items()} == {"ceilings": "ok", "measures": "ok"}
    assert not [r for r in rows if r["name"] == "first"]
    found = {r["name"]: (r["share"], r["bound"]) for r in rows}
    assert found["moving"] == (0.5, "copy")
    assert found["computing"] == (0.5, "float32")
    assert found["unbounded"] == found["copy"] == (None, None)
    assert "| measures | moving | 2000 | 50% of copy |" in page


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_the_day_is_rehearsed_on_the_emulated_device(tmp_path):
    """All stages as on a device; see `day.py` for what each of them does without one."""
    pytest.importorskip("torch", reason="torch is not installed")
    status, held, rows, page = results_of(tmp_path, ",".join(LIMITS), "--emulate")
    assert status == 0
    assert {stage: h["status"] for stage, h in held.items()} == dict.fromkeys(LIMITS, "ok")
    made = {r["name"]: r for r in rows}
    assert "tests collected" in made["pytest"]["said"]
    assert made["transfers of recover M = 300, N = 100, K = 3, auto"]["down"] == 4
    for path in sorted(FOLDER.glob("*.cu")):
        names = set(KERNEL.findall(path.read_text(encoding="utf-8")))
        assert names <= set(made["touched all"]["kernels"]), path.name
    assert "on an emulated device: its times mean nothing" in page
    assert all("seconds" in r for r in rows if r["stage"] in ("ceilings", "kernels"))
    assert all(r["share"] for r in rows if r.get("operations"))
    (recovered,) = [r for r in rows if r["name"].startswith("recover M")]
    assert recovered["same"]
    (graded,) = [r for r in rows if r["name"].startswith("graded")]
    assert graded["gap"] <= 1e-3
