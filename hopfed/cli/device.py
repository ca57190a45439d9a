"""The option `--device` of the commands that compute."""

from __future__ import annotations

from typing import Any

import click

from hopfed.kernels.place import Place, asked


def device_option(what: str, *, opens: bool = True) -> Any:
    """Return the option, whose value is "cpu" or "cuda:N"; what is not there is refused at once.

    CuPy `opens` the device; otherwise whoever uses it does, as `for_networks`.
    """

    def chosen(ctx: click.Context, param: click.Parameter, value: str | None) -> str:  # noqa: ARG001
        place = asked(value)
        if opens:
            place.open()
        return str(place)

    words = f"Where {what}. [default: HOPFED_DEVICE, else cpu]"
    return click.option("--device", metavar="cpu|cuda[:N]", callback=chosen, help=words)


def for_networks(device: str) -> str:
    """Return a device that PyTorch can use; BackendError where it cannot."""
    if device != str(Place()):
        from hopfed.neural.data.tensors import opened

        opened(device)
    return device
