"""Options of commands, of a kind each; and those that several commands have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from hopfed.cli.numbers import SHAPE

PATH = click.Path(path_type=Path)
MANY = click.Path(path_type=Path)  # a file, a folder or a pattern: a command gets the files
RUN = click.argument("run_file", metavar="RUN", type=PATH)
FILES = click.argument("files", metavar="FILE...", nargs=-1, required=True, type=MANY)


def option(flags: str, words: str, kind: Any = None, default: Any = None, **more: Any) -> Any:
    """An option of a kind, a tuple of words for a choice, whose default is shown.

    `flags` may name its argument after a space.
    """
    kind = click.Choice(kind) if isinstance(kind, tuple) else kind
    more |= {} if default is None else {"default": default, "show_default": True}
    return click.option(*flags.split(), type=kind, help=words, **more)


def flag(flags: str, words: str, **more: Any) -> Any:
    """An option without a value."""
    return click.option(*flags.split(), is_flag=True, help=words, **more)


def file_option(flags: str, words: str, **more: Any) -> Any:
    """An option that is a path."""
    return option(flags, words, PATH, **more)


json_option = flag("--json as_json", "Print as JSON.")
shape_option = option("--shape", "Of the patterns in the figure, such as 28x28.", SHAPE)
VARIABLE = "HOPFED_DEVICE"  # says where to compute where no option does


def asked(word: str | None) -> Any:
    """Return the place that a command is told: `word`, else HOPFED_DEVICE, else the processor."""
    from hopfed.kernels.place import place

    if word is not None:
        return place(word, "--device")
    return place(os.environ.get(VARIABLE) or "cpu", VARIABLE)


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
