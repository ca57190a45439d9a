"""Files that a command writes: its options, `--overwrite`, and what lets a file be replaced."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import click

from hopfed._lib.outputs import (
    RUN,
    check_run,
    check_suffix,
    check_writable,
    followed,
    is_filled,
)
from hopfed.cli.options import MANY, PATH, flag, option
from hopfed.errors import ArgumentError

FIGURE = (".png", ".pdf", ".svg")
PAGE = (".html", ".htm")


class File(click.Path):
    """A file that a command writes, with one of these endings."""

    def __init__(self, endings: tuple[str, ...]):
        super().__init__(path_type=Path)
        self.endings = endings


class Command(click.Command):
    """A command that refuses, before it does anything, outputs that cannot be written."""

    def invoke(self, ctx: click.Context) -> Any:
        """Find the files that it reads, check those that it writes, and run it."""
        outputs, inputs = [], list[Path]()
        for param in self.params:
            name, kind = str(param.name), param.type
            held = ctx.params.get(name)
            if isinstance(kind, File):
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


def _keep(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta["overwrite"] = value


overwrite_option = flag(
    "--overwrite",
    "Replace files of these names that are there.",
    expose_value=False,
    callback=_keep,
)


def out_option(words: str, endings: tuple[str, ...], **more: Any) -> Any:
    """--out and --overwrite."""
    path = option("--out out_file", words, File(endings), **more)
    return lambda command: path(overwrite_option(command))


figure_option = option("--figure", "Draw to .png, .pdf or .svg.", File(FIGURE))


def overwriting() -> bool:
    """Whether the command that runs was given --overwrite."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get("overwrite"))


def check_outputs(
    *outputs: tuple[str, str | Path | None, tuple[str, ...]],
    inputs: Sequence[str | Path] = (),
    resume: bool | None = None,
) -> None:
    """Refuse, before any work, files that could not be written after it or would destroy others.

    Outputs are an option, its path (None where it was not asked for) and its suffixes, if any. Each
    is no input and no other output by any name or link, and it can be written. A file that is there
    is replaced with --overwrite alone; a run file, even then, takes the place of nothing but a run.
    An empty file is as good as none. `resume` says whether the run that is there is continued; None
    where a command cannot do that.
    """
    taken = dict[Path, str]()
    for flags, given, suffixes in outputs:
        if given is None:
            continue
        path = Path(given)
        if suffixes:
            check_suffix(flags, path, suffixes)
        if any(_same(path, Path(other)) for other in inputs):
            raise ArgumentError(flags, "another file than the input", path)
        for other, its in taken.items():
            if _same(path, other):
                raise ArgumentError(flags, f"another file than that of {its}", path)
        check_writable(path, flags)
        taken[path] = flags
    if resume and overwriting():
        raise ArgumentError("--overwrite", "left out with --resume, which keeps the run", "both")
    for path, flags in taken.items():
        if path.suffix.lower() in RUN:
            check_run(flags, path)
        if is_filled(path) and not overwriting() and not resume:
            ways = "--overwrite replaces this one" + ", --resume continues it" * (resume is False)
            raise ArgumentError(flags, f"a new file ({ways})", path)


@contextmanager
def set_aside(*paths: Path | None) -> Iterator[None]:
    """With --overwrite, let what is written part by part begin anew in place of files, or folders.

    They are gone when all went well; where it did not, what has no new file is put back.
    """
    found = [followed(path) for path in paths if path is not None and overwriting()]
    found = [path for path in found if path.exists()]
    moved = {path: path.with_name(f".{path.stem}-{secrets.token_hex(4)}.old") for path in found}
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
    """Whether both are one file, by whatever names or links."""
    try:
        return followed(path) == followed(other) or os.path.samefile(path, other)
    except OSError:  # one is not there yet
        return False
