"""The option `--device` of the commands that compute."""

from __future__ import annotations

import os
from typing import Any

import click

from hopfed.kernels.place import Place, place

VARIABLE = "HOPFED_DEVICE"


def asked(word: str | None) -> Place:
    """Return the place that a command is told: `word`, else HOPFED_DEVICE, else the processor."""
    if word is not None:
        return place(word, "--device")
    return place(os.environ.get(VARIABLE) or "cpu", VARIABLE)


def device_option(what: str, *, opens: bool = True) -> Any:
    """Return the option, whose value is "cpu" or "cuda:N"; what is not there is refused at once.

    CuPy `opens` the device; otherwise whoever uses it does, as `for_networks`.
    """

    def chosen(ctx: click.Context, param: click.Parameter, value: str | None) -> str:  # noqa: ARG001
        there = asked(value)
        if opens:
            there.open()
        return str(there)

    words = f"Where {what}. [default: HOPFED_DEVICE, else cpu]"
    return click.option("--device", metavar="cpu|cuda[:N]", callback=chosen, help=words)


def for_networks(device: str) -> str:
    """Return a device that PyTorch can use; BackendError where it cannot."""
    if device != str(Place()):
        from hopfed.neural.data.tensors import opened

        opened(device)
    return device
