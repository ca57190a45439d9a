"""The option `--device` of the commands that compute."""

from __future__ import annotations

from typing import Any

import click

from hopfed.kernels.place import Place, asked


def device_option(what: str, *, opens: bool = True) -> Any:
    """Return the option, whose value is "cpu" or "cuda:N", a device that is there.

    A device that is not there is refused before anything is read.

    Parameters
    ----------
    what : is done there, in the words of its help.
    opens : whether CuPy opens the device; otherwise whoever uses it does, as `for_networks`.
    """
    return click.option(
        "--device",
        metavar="cpu|cuda[:N]",
        callback=_opened if opens else _named,
        help=f"Where {what}. [default: HOPFED_DEVICE, else cpu]",
    )


def _opened(ctx: click.Context, param: click.Parameter, value: str | None) -> str:  # noqa: ARG001
    place = asked(value)
    place.open()
    return str(place)


def _named(ctx: click.Context, param: click.Parameter, value: str | None) -> str:  # noqa: ARG001
    return str(asked(value))


def for_networks(device: str) -> str:
    """Return a device that PyTorch can use.

    Raises
    ------
    BackendError : there is no such device, or PyTorch was built without CUDA.

    Examples
    --------
    >>> for_networks("cpu")
    'cpu'
    """
    if device != str(Place()):
        from hopfed.neural.data.tensors import opened

        opened(device)
    return device
