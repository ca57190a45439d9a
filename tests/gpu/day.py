"""Everything that wants a GPU, in one command on a bare machine that has one.

    python tests/gpu/day.py --out DIR [--stages versions,ceilings,...] [--seconds 1500]

Each stage is a process of its own with a time limit. A row is written to DIR/rows.jsonl as soon as
it is measured, and after every stage DIR/results.json and DIR/results.md hold all rows so far, each
with its share of the bound that the ceilings set. A stage that fails or hangs loses nothing but
itself, and a later call with the same folder keeps what other stages found. Without a device a
stage is skipped and says so; with HOPFED_REQUIRE=cupy it fails.

Needed: hopfed and its dependencies (`pip install -e '.[cuda13,test]'`, or `cuda12`): numpy, scipy,
numba, h5py, click, rich, matplotlib, scikit-learn, pyarrow, array-api-compat, threadpoolctl,
cupy-cuda13x with CUDA's libraries; pytest and hypothesis for the stage `tests`. Where torch is
installed too, the stage `neural` and the copies of `recovery` are measured, and where
compute-sanitizer is, the stage `sanitizer`. A C++ compiler is for `--emulate` alone.

`--emulate` rehearses every stage on the device of tests/emulator with small sizes, where times mean
nothing: `tests` are collected, `neural` and `bench` run on the processor, and `sanitizer` touches
every kernel without its tools. A stage may also be the path of a script.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIMITS = {
    "versions": 90,
    "ceilings": 150,
    "tests": 420,
    "kernels": 240,
    "recovery": 300,
    "neural": 150,
    "bench": 540,
    "sanitizer": 420,
}  # seconds
OTHER_LIMIT = 120  # of a script
LEAST = 5  # seconds that are worth starting a stage for
SKIPPED = 77  # exit status of a stage that has nothing to measure here, as in stages/__init__.py
Done = dict[str, dict[str, Any]]


def main() -> int:
    """Run the stages one after the other; 0 if none of them failed."""
    args = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the stage ends too
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    stages = args.stages.split(",")
    done = resumed(out, stages, args.emulate)
    end = time.monotonic() + args.seconds
    for stage in stages:
        limit = min(args.limit or LIMITS.get(stage, OTHER_LIMIT), end - time.monotonic())
        print(f"{stage}: at most {max(limit, 0):.0f} s", flush=True)
        if limit < min(LEAST, args.limit or LEAST):
            done[stage] = {"status": "not started", "seconds": 0.0, "said": "no time is left"}
        else:
            done[stage] = {"status": "cut off", "seconds": 0.0, "said": "the command was ended"}
            try:
                done[stage] = run_stage(stage, out, limit, args.emulate)
            finally:
                write(out, done, args)
        said = done[stage]["said"] if done[stage]["status"] != "ok" else ""
        print(f"  {done[stage]['status']}, {done[stage]['seconds']:.0f} s  {said}", flush=True)
    write(out, done, args)
    print((out / "results.md").read_text())
    return int(any(done[stage]["status"] not in ("ok", "skipped") for stage in stages))


def resumed(out: Path, stages: list[str], emulate: bool) -> Done:
    """Other stages of an earlier call with this folder, whose rows and log are kept."""
    path, again = out / "results.json", {Path(stage).stem for stage in stages}
    held = json.loads(path.read_text()) if path.is_file() else {"emulated": None}
    if held["emulated"] is not emulate:  # of another kind
        held = {"stages": {}, "rows": []}
        (out / "log.txt").write_text("")
    rows = [json.dumps(row) + "\n" for row in held["rows"] if row["stage"] not in again]
    (out / "rows.jsonl").write_text("".join(rows))
    return {stage: d for stage, d in held["stages"].items() if Path(stage).stem not in again}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True, help="folder of the results")
    parser.add_argument("--stages", default=",".join(LIMITS), help="which, separated by commas")
    parser.add_argument("--seconds", type=float, default=3600, help="for all stages together")
    parser.add_argument("--limit", type=float, help="seconds for each stage, in place of its own")
    parser.add_argument("--emulate", action="store_true", help="rehearse without a GPU")
    args = parser.parse_args()
    for stage in args.stages.split(","):
        if stage not in LIMITS and not Path(stage).is_file():
            parser.error(f"--stages: {stage} is none of {', '.join(LIMITS)}, nor a script")
    return args


def run_stage(stage: str, out: Path, limit: float, emulate: bool) -> dict[str, Any]:
    """Run one stage to its end or its limit; its output goes to log.txt."""
    what = [stage] if stage not in LIMITS else ["-m", f"stages.{stage}"]
    command = [sys.executable, *what, "--stage", Path(stage).stem, "--out", str(out)]
    command += ["--emulate"] * emulate
    paths = [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    # Safe: in a bare checkout its folder hopfed would hide the package that is installed.
    env |= {"PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"}
    start = time.monotonic()
    with open(out / "log.txt", "ab") as log:
        log.write(f"== {stage}\n".encode())
        log.flush()
        first = log.tell()
        child = subprocess.Popen(command, stdout=log, stderr=log, env=env, start_new_session=True)
        try:
            status = {0: "ok", SKIPPED: "skipped"}.get(child.wait(limit), "failed")
        except subprocess.TimeoutExpired:
            status = "out of time"
        finally:
            _end(child)
    said = _last_line(out / "log.txt", first)
    if status == "out of time":
        said = f"stopped after {limit:.0f} s; last words: {said or 'none'}"
    return {"status": status, "seconds": time.monotonic() - start, "said": said}


def _end(child: subprocess.Popen) -> None:
    """End a stage with all that it started: what lives on would hold the device."""
    with suppress(ProcessLookupError, PermissionError):  # all of them have ended
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _last_line(log: Path, first: int) -> str:
    with open(log, "rb") as file:
        file.seek(first)
        lines = file.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[:300] if lines else ""


def write(out: Path, done: Done, args: argparse.Namespace) -> None:
    """Write all rows so far as JSON and as a page."""
    rows = read_rows(out / "rows.jsonl")
    rates = {r["name"]: r["rate"] for r in rows if r["stage"] == "ceilings" and "rate" in r}
    for row in rows:
        row["share"], row["bound"] = share(row, rates)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    held = {"date": date, "emulated": args.emulate, "stages": done, "rows": rows}
    (out / "results.json").write_text(json.dumps(held, indent=1))
    (out / "results.md").write_text(page(held))


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of all stages; the last line may be half written where a stage was stopped."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def share(row: dict[str, Any], rates: dict[str, float]) -> tuple[float | None, str | None]:
    """Part of a row's time that the ceilings explain, and the ceiling that limits it.

    Memory traffic and arithmetic overlap, so the longer of the two counts.
    """
    seconds, work = row.get("seconds"), dict(row.get("operations", {}))
    if row.get("bytes"):
        work["copy"] = row["bytes"]
    if not seconds or not work or not set(work) <= set(rates):
        return None, None
    times = {unit: amount / rates[unit] for unit, amount in work.items()}
    bound = max(times, key=lambda unit: times[unit])
    return times[bound] / seconds, bound


def page(held: dict[str, Any]) -> str:
    """The results as a page of Markdown."""
    made = " on an emulated device: its times mean nothing" if held["emulated"] else ""
    lines = [f"Measured {held['date']}{made}.", "", "| stage | status | seconds | said |"]
    lines += ["| --- | --- | --- | --- |"]
    for stage, d in held["stages"].items():
        said = "" if d["status"] == "ok" else d["said"]
        lines.append(_line(Path(stage).stem, d["status"], f"{d['seconds']:.0f}", said))
    lines += [
        "",
        "| stage | what | ms | share of the bound | more |",
        "| --- | --- | --- | --- | --- |",
    ]
    shown = ("stage", "name", "seconds", "share", "bound", "bytes", "operations")
    for row in held["rows"]:
        ms = f"{1e3 * row['seconds']:.4g}" if row.get("seconds") else ""
        part = "" if row["share"] is None else f"{row['share']:.0%} of {row['bound']}"
        more = ", ".join(f"{k} {_short(v)}" for k, v in row.items() if k not in shown)
        lines.append(_line(row["stage"], row["name"], ms, part, more))
    return "\n".join(lines) + "\n"


def _line(*cells: str) -> str:
    return "| " + " | ".join(" ".join(c.replace("|", "\\|").split()) for c in cells) + " |"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:200]


if __name__ == "__main__":
    sys.exit(main())
