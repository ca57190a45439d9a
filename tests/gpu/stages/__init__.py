"""Stages of `day.py`, each a module that runs in a process of its own; here is what they share."""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SKIPPED = 77  # exit status where there is nothing to measure
BROKEN = ("illegal", "unspecified launch", "misaligned", "device-side assert")  # for good


class NotHereError(Exception):
    """A part of the machine or a package that the stage needs is not there."""


class Rows:
    """Rows of a stage, each written to the file of all rows at once."""

    def __init__(self, args: argparse.Namespace):
        self.stage, self.out, self.emulate = args.stage, Path(args.out), args.emulate
        self.failed = False

    def add(self, name: str, **values: Any) -> None:
        """Write a row; `seconds`, `bytes` and `operations` by unit give it a share of the bound."""
        row = {"stage": self.stage, "name": name, **values}
        with open(self.out / "rows.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(row, default=str) + "\n")
        print(f"{name}: " + ", ".join(f"{k} {v}" for k, v in values.items()), flush=True)

    @contextmanager
    def attempt(self, name: str) -> Iterator[None]:
        """What fails becomes a row, and the stage goes on, unless the device is broken."""
        try:
            yield
        except NotHereError as missing:
            self.add(name, skipped=str(missing))
        except Exception as error:
            self.failed = True
            traceback.print_exc()
            self.add(name, error=f"{type(error).__name__}: {str(error)[:300]}")
            if any(word in str(error).lower() for word in BROKEN):
                sys.exit(1)


def run(work: Callable[[Rows], None]) -> None:
    """Run a stage; its exit status says whether it failed or had nothing to measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stage", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--emulate", action="store_true")
    rows = Rows(parser.parse_args())
    try:
        work(rows)
    except NotHereError as missing:
        print(f"not here: {missing}", flush=True)
        sys.exit(1 if os.environ.get("HOPFED_REQUIRE") == "cupy" else SKIPPED)
    sys.exit(int(rows.failed))


def the_device(rows: Rows) -> Any:
    """The first CUDA device, or the emulated one, which is then what `cuda` opens."""
    from hopfed.errors import BackendError
    from hopfed.kernels.cuda import device

    if rows.emulate:
        from emulator.device import Emulated

        emulated = Emulated()
        device.cuda = lambda ordinal=0: emulated  # type: ignore[assignment]
        return emulated
    try:
        return device.cuda(0)
    except BackendError as error:
        raise NotHereError(str(error)) from None


def torch_on(kind: str = "cuda") -> Any:
    """PyTorch, if it sees such a device."""
    try:
        import torch
    except ImportError as error:
        raise NotHereError(f"PyTorch cannot be imported: {error}") from None
    if kind == "cuda" and not torch.cuda.is_available():
        raise NotHereError(f"PyTorch {torch.__version__} sees no CUDA device")
    return torch
