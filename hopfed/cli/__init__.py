"""The `hopfed` command: one module per command, loaded when it is called."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from hopfed._lib.lazy_imports import lazy_names
from hopfed.errors import ColumnsError, HopfedError

__getattr__, __dir__ = lazy_names(__name__, __path__)

# Modules below `hopfed.cli` with their commands, functions `NAME_command`; a module is imported
# when one of its commands is called.
_MODULES = """\
recover recover
answers assign complete export relate
memories store recall
theory spectrum
demo demo
bench doctor bench
theory theory
runs run sweep
listing list
networks fl
machines.serve certs serve
machines.join join
runs show compare figure report
"""
_LINES = map(str.split, _MODULES.splitlines())
_COMMANDS = {name: module for module, *names in _LINES for name in names}


@cache
def load_words() -> dict[str, Any]:
    """For all commands: words of other tools with equivalents, and meanings of columns of plans."""
    import tomllib

    return tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


def _plain(word: str) -> str:
    """A word without its dashes, in small letters."""
    return re.sub(r"[_.]", "-", word.partition("=")[0]).strip("-").lower()


class HelpfulGroup(click.Group):
    """A group that suggests a command in place of an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; suggest one for a word of another tool, or for a misspelt one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            names, word = self.list_commands(ctx), _plain(args[0])
            same = [name for name, held in load_words()["command"].items() if word in held.split()]
            named = [name for name in same if name in names] + get_close_matches(args[0], names)
            way = f"did you mean {named[0]}?" if named else f"{ctx.command_path} --help lists them"
            raise click.UsageError(f"{error.message.rstrip('.')}; {way}", ctx) from None


class LazyGroup(HelpfulGroup):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names of all commands."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command."""
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"hopfed.cli.{_COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands with the first lines of their help, and import none."""
        rows = []
        for name, module in _COMMANDS.items():
            file = Path(__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
            begins = rf'def {name}_command\(.*?"""(.*?)\n'
            found = re.search(begins, file.read_text(encoding="utf-8"), re.DOTALL)
            rows.append((name, found[1] if found else ""))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="hopfed")
def cli() -> None:
    """Recover the prototypes hidden in binary data that stay with their owners.

    Example: hopfed demo
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the `hopfed` command; every error is one line on standard error and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # escape characters outside its encoding
            stream.reconfigure(errors="backslashreplace")
    given = sys.argv[1:] if arguments is None else arguments
    try:
        if "_HOPFED_COMPLETE" in os.environ:  # a shell asks for completions
            cli.main(prog_name="hopfed")
        # Not by `main` of click, which prints a line of its own at Ctrl-C.
        with suppress(click.exceptions.Exit), cli.make_context("hopfed", list(given)) as context:
            cli.invoke(context)
        if sys.stdout is not None:  # None where it is closed from the start
            sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        # A second Ctrl-C, while the interpreter closes, ends it at once and without a message.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:  # a help page, not one line
        print(error.format_message(), file=sys.stderr)
        sys.exit(2)
    except click.ClickException as error:
        unknown = isinstance(error, click.exceptions.NoSuchOption)
        _fail(_about_option(error, given) if unknown else error.format_message())
    except ColumnsError as error:  # a line for each
        _fail(*str(error).split("\n"))
    except HopfedError as error:
        _fail(str(error))
    except MemoryError as error:
        _fail(f"not enough memory: {error}")
    except OSError as error:
        try:  # closing standard output would fail again, if nothing can be written to it
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # as in `hopfed list | head -1`: nothing is wrong
            sys.exit(1)
        where = "" if error.filename is None else f"{error.filename}: "
        _fail(f"{where}{error.strerror or error}")


def _about_option(error: Any, given: Sequence[str]) -> str:
    """Advice on an option that the command lacks: its name here, or the nearest ones."""
    path, held = error.ctx.command_path, {f for p in error.ctx.command.params for f in p.opts}
    # For -nc click reports only -n.
    whole = [word for word in given if word.startswith(error.option_name) and word[:2] != "--"]
    for word in (*whole, error.option_name):
        rows = (row for row in load_words()["option"] if _plain(word) in row["words"].split())
        for option, way in (pair for row in rows for pair in row.items() if pair[0] != "words"):
            if option in held or not option:
                use = "use " if (way or option).startswith("--") else ""
                return f"{path} has no {word}: {use}{way or option}"
    return f"{error.format_message()} {path} --help lists its options."


def _fail(*lines: str) -> None:
    from hopfed.cli.printing import escape

    said = [escape(line if k else " ".join(line.split())) for k, line in enumerate(lines)]
    print("error: " + "\n".join(said), file=sys.stderr)
    sys.exit(2)
