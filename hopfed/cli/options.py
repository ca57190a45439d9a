"""Options of commands: types of values, output files, and options that commands share.

Numbers have ASCII digits, are never NaN, and infinite only where it has a meaning: click's types
take ``nan``, ``1_000`` and digits of any script. Before any work, a command refuses output files
that could not be written, or would replace others.
"""

from __future__ import annotations

import math
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import click
from click.core import ParameterSource

from hopfed._lib.outputs import (
    RUN,
    check_run,
    check_suffix,
    check_writable,
    follow_links,
    is_filled,
)
from hopfed._lib.settings import MOST, parse_real, parse_whole, require
from hopfed.errors import ArgumentError

FIGURE = (".png", ".pdf", ".svg")
PAGE = (".html", ".htm")
VARIABLE = "HOPFED_DEVICE"  # device of computations without an option
DASK = "Scheduler of the engine dask, such as tcp://host:8786.  [default: local]"
PLACES = {"local": "this process", "pool": "worker processes", "dask": "workers of Dask"}
ENGINES = PLACES | {"flower": "nodes of Flower"}

# Types of values


class ParsedText(click.ParamType):
    """Value of the text of an option; a default that is no text stays as it is."""

    def __init__(self, name: str, parse: Callable[[str], Any]):
        self.name, self.parse = name, parse

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Parse `value`."""
        if not isinstance(value, str):
            return value
        try:
            return self.parse(value)
        except ArgumentError as error:
            self.fail(f"{str(error.got)[:300]} is not {error.rule}", param, ctx)


def whole_number(least: int = -MOST, most: int = MOST) -> ParsedText:
    """Type of an option: a whole number from `least` to `most`."""

    def parse(text: str) -> int:
        number = parse_whole("", text)
        require(least <= number <= most, "", f"a whole number from {least:,} to {most:,}", text)
        return number

    return ParsedText("integer", parse)


def number_list(kind: ParsedText) -> ParsedText:
    """Type of an option: a value or several of a kind, separated by commas: float64 (n,)."""

    def parse(text: str) -> Any:
        import numpy as np

        return np.array([kind.parse(part.strip()) for part in text.split(",")])

    return ParsedText("numbers", parse)


def parse_pair(text: str, kind: ParsedText, rule: str) -> tuple[Any, Any]:
    """Parse an option's FIRST:LAST, or one value for both; the last must not be below the first."""
    first, colon, last = text.partition(":")
    ends = kind.parse(first), kind.parse(last if colon else first)
    require(ends[0] <= ends[1], "", rule, text)
    return ends


def _finite(text: str) -> float:
    number = parse_real("", text)
    require(math.isfinite(number), "", "a finite number", repr(text))
    return number


def _size(text: str) -> int:
    parts = re.fullmatch(r"(?ai)([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([kmgt])?b?", text.strip())
    if parts is None or float(parts[1]) <= 0:
        raise ArgumentError("", "a size, such as 500MB or 2GB", text)
    return int(float(parts[1]) * 1000 ** "BKMGT".index((parts[2] or "B").upper()))


def _seeds(text: str) -> tuple[int, int]:
    if ":" not in text:
        return 0, WHOLE.parse(text)
    rule = "a range that holds a seed: 100:105 are 100 to 104"
    first, end = parse_pair(text, WHOLE, rule)
    require(0 <= first < end, "", rule, text)
    return first, end - first


def _counts(text: str) -> list[int]:
    first, last = parse_pair(text, FEW, "first:last, ascending, such as 1:8")
    return list(range(first, last + 1))


def _shape(text: str) -> tuple[int, int]:
    parts = re.fullmatch("([1-9][0-9]{0,8})x([1-9][0-9]{0,8})", text.lower())
    if parts is None:
        raise ArgumentError("", "height x width, such as 28x28", text)
    return int(parts[1]), int(parts[2])


def _quality(text: str) -> float | None:
    rule = "auto or a number in (0, 1]"
    value = None if text == "auto" else parse_real("", text, rule)
    require(value is None or 0 < value <= 1, "", rule, text)
    return value


COUNT = whole_number()
FEW = whole_number(1, 100_000)
WHOLE = whole_number(most=(1 << 63) - 1)
SEED = whole_number(0, (1 << 63) - 1)
FINITE = ParsedText("float", _finite)
NUMBER = ParsedText("float", lambda text: parse_real("", text))
NUMBERS = number_list(FINITE)
SEEDS = ParsedText("count|first:end", _seeds)  # (first, number); the end is excluded
COUNTS = ParsedText("first:last", _counts)
SHAPE = ParsedText("height x width", _shape)
QUALITY = ParsedText("auto|number", _quality)
SIZE = ParsedText("size", _size)  # bytes, of digits or with a unit, such as 1.5GB
PATH = click.Path(path_type=Path)
MANY = click.Path(path_type=Path)  # a file, a folder or a pattern: a command gets the files


class OutputFile(click.Path):
    """A file that a command writes, with one of these endings."""

    def __init__(self, endings: tuple[str, ...]):
        super().__init__(path_type=Path)
        self.endings = endings


# Options


def option(flags: str, words: str, kind: Any = None, default: Any = None, **more: Any) -> Any:
    """Return an option of a command, of type `kind` (words in a tuple: a choice), with a default.

    `flags` may name its argument after a space.
    """
    kind = click.Choice(kind) if isinstance(kind, tuple) else kind
    more |= {} if default is None else {"default": default, "show_default": True}
    return click.option(*flags.split(), type=kind, help=words, **more)


def flag(flags: str, words: str, **more: Any) -> Any:
    """Return an option of a command without a value."""
    return click.option(*flags.split(), is_flag=True, help=words, **more)


def _keep(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta["overwrite"] = value


def out_option(words: str, endings: tuple[str, ...], **more: Any) -> Any:
    """Return the options --out and --overwrite of a command."""
    path = option("--out out_file", words, OutputFile(endings), **more)
    return lambda command: path(overwrite_option(command))


RUN_FILE = click.argument("run_file", metavar="RUN", type=PATH)
FILES = click.argument("files", metavar="FILE...", nargs=-1, required=True, type=MANY)
OVERWRITE = "Replace files that exist."
overwrite_option = flag("--overwrite", OVERWRITE, expose_value=False, callback=_keep)
figure_option = option("--figure", "Draw to .png, .pdf or .svg.", OutputFile(FIGURE))
json_option = flag("--json as_json", "Print as JSON.")
set_option = option("--set settings", "Change a setting.", multiple=True, metavar="KEY=VALUE")
workers_option = option("--workers", "Number of processes.", COUNT, 1)
shape_option = option("--shape", "Shape of the patterns in the figure, such as 28x28.", SHAPE)


def engine_options(command: Any, places: Mapping[str, str] = ENGINES) -> Any:
    """Add --engine and --dask to `hopfed run` and such: where seeds, cells and clients run."""
    words = f"Place of the work on seeds and clients: {', or '.join(places.values())}."
    dask = option("--dask", DASK, metavar="local|ADDRESS")
    return option("--engine", words, tuple(places), "local")(dask(command))


def choose_place(word: str | None) -> Any:
    """Return the place of the option --device: `word`, else HOPFED_DEVICE, else the processor."""
    from hopfed.kernels.place import place_named

    if word is not None:
        return place_named(word, "--device")
    return place_named(os.environ.get(VARIABLE) or "cpu", VARIABLE)


def device_option(work: str, *, opens: bool = True) -> Any:
    """Return the option --device, "cpu" or "cuda:N"; an absent device is refused at once.

    CuPy `opens` the device, unless its user does so later, as `torch_device`.
    """

    def chosen(_: click.Context, __: click.Parameter, value: str | None) -> str:
        place = choose_place(value)
        if opens:
            place.open()
        return str(place)

    words = f"Where {work}. [default: HOPFED_DEVICE, else cpu]"
    return click.option("--device", metavar="cpu|cuda[:N]", callback=chosen, help=words)


def torch_device(device: str) -> str:
    """Return a device of `device_option` that PyTorch can use; BackendError where it cannot."""
    if device != "cpu":
        from hopfed.neural.data.tensors import open_device

        open_device(device)
    return device


def refuse_both(*clashes: tuple[str, str]) -> None:
    """Refuse the first of a pair of options where the command line has both."""
    context = click.get_current_context()
    source = context.get_parameter_source
    given = {n: v for n, v in context.params.items() if source(n) is ParameterSource.COMMANDLINE}
    for name, other in clashes:
        if name in given and other in given:
            raise ArgumentError(f"--{name}", f"left out beside --{other}", given[name])


# Output files


class Command(click.Command):
    """A command that refuses, before any work, outputs that cannot be written."""

    def invoke(self, ctx: click.Context) -> Any:
        """Find the input files, check the output files, and run the command."""
        outputs, inputs = [], list[Path]()
        for param in self.params:
            name, kind = str(param.name), param.type
            held = ctx.params.get(name)
            if isinstance(kind, OutputFile):
                outputs.append((param.opts[0], held, kind.endings))
            elif held is not None and (kind in (PATH, MANY) or name == "data"):
                read = [Path(each) for each in (held if isinstance(held, tuple) else (held,))]
                if kind is MANY:
                    from hopfed.tables.files import files_of

                    ctx.params[name] = read = [file for each in read for file in files_of(each)]
                inputs += read
        check_outputs(*outputs, inputs=inputs, resume=ctx.params.get("resume"))
        return super().invoke(ctx)


command = partial(click.command, cls=Command)


def may_overwrite() -> bool:
    """Whether the command that runs was given the option --overwrite."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get("overwrite"))


def check_outputs(
    *outputs: tuple[str, Path | None, tuple[str, ...]],
    inputs: Sequence[Path] = (),
    resume: bool | None = None,
) -> None:
    """Refuse, before any work, output options whose file cannot be written or would destroy others.

    An output is an option, its path (None if not asked for) and its suffixes. It must be writable,
    and must not be an input or another output by any name or link. An existing file is replaced
    only with --overwrite, and then a run file may replace only a run. An empty file counts as
    absent. `resume`: whether an existing run is continued; None for commands that cannot.
    """
    taken = dict.fromkeys(inputs, "input")
    for flags, path, suffixes in outputs:
        if path is None:
            continue
        check_suffix(flags, path, suffixes)
        for other, its in taken.items():
            if _same(path, other):
                rule = "another file than " + ("the input" if its == "input" else f"that of {its}")
                raise ArgumentError(flags, rule, path)
        check_writable(path, flags)
        taken[path] = flags
    if resume and may_overwrite():
        raise ArgumentError("--overwrite", "left out with --resume, which keeps the run", "both")
    for path, flags in taken.items():
        if flags == "input":
            continue
        if path.suffix.lower() in RUN:
            check_run(flags, path)
        if is_filled(path) and not may_overwrite() and not resume:
            ways = "--overwrite replaces this one" + ", --resume continues it" * (resume is False)
            raise ArgumentError(flags, f"a new file ({ways})", path)


@contextmanager
def set_files_aside(*paths: Path | None) -> Iterator[None]:
    """With option --overwrite, move files or folders aside while new ones are written part by part.

    They are deleted in the end; after an error, those without a new file are put back.
    """
    found = [follow_links(path) for path in paths if path is not None and may_overwrite()]
    moved = {
        path: path.with_name(f".{path.stem}-{secrets.token_hex(4)}.old")
        for path in found
        if path.exists()
    }
    for path, aside in moved.items():
        os.replace(path, aside)
    try:
        yield
    except BaseException:
        for path, aside in moved.items():
            if not path.exists():
                os.replace(aside, path)
        raise
    finally:
        for aside in moved.values():
            if aside.is_dir():
                rmtree(aside)
            else:
                aside.unlink(missing_ok=True)


def _same(path: Path, other: Path) -> bool:
    """Whether both paths are one file, by any names or links."""
    try:
        return follow_links(path) == follow_links(other) or os.path.samefile(path, other)
    except OSError:  # one does not exist yet
        return False
