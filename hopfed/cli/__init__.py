"""The `hopfed` command: one module per command, loaded when it is called."""

from __future__ import annotations

import io
import os
import signal
import sys
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from hopfed.errors import ColumnsError, HopfedError

# Command -> (module, attribute). The modules are imported on use, so that --help is quick.
_COMMANDS = {
    "recover": ("hopfed.cli.tables.recover", "recover_command"),
    "assign": ("hopfed.cli.tables.answers", "assign_command"),
    "complete": ("hopfed.cli.tables.answers", "complete_command"),
    "export": ("hopfed.cli.tables.answers", "export_command"),
    "store": ("hopfed.cli.memories.store", "store_command"),
    "recall": ("hopfed.cli.memories.recall", "recall_command"),
    "demo": ("hopfed.cli.demo", "demo_command"),
    "doctor": ("hopfed.cli.doctor", "doctor_command"),
    "bench": ("hopfed.cli.runs.bench", "bench_command"),
    "theory": ("hopfed.cli.predictions.theory", "theory_command"),
    "run": ("hopfed.cli.runs.run", "run_command"),
    "sweep": ("hopfed.cli.runs.sweep", "sweep_command"),
    "list": ("hopfed.cli.runs.run", "list_command"),
    "fl": ("hopfed.cli.networks.fl", "fl_command"),
    "certs": ("hopfed.cli.machines.certs", "certs_command"),
    "serve": ("hopfed.cli.machines.serve", "serve_command"),
    "join": ("hopfed.cli.machines.join", "join_command"),
    "show": ("hopfed.cli.runs.show", "show_command"),
    "compare": ("hopfed.cli.runs.show", "compare_command"),
    "figure": ("hopfed.cli.runs.figure", "figure_command"),
    "report": ("hopfed.cli.runs.report", "report_command"),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names of all commands."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command."""
        if cmd_name not in _COMMANDS:
            return None
        module, attribute = _COMMANDS[cmd_name]
        return getattr(import_module(module), attribute)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a name that is nearly one gets that one told."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], _COMMANDS, n=1)
            way = f"did you mean {near[0]}?" if near else "hopfed --help lists them"
            raise click.UsageError(f"{error.message.rstrip('.')}; {way}", ctx) from None

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Read the arguments; Ctrl-C passes click by, which would print a line of its own."""
        try:
            return super().make_context(*arguments, **options)
        except KeyboardInterrupt:
            raise _Interrupted from None

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; Ctrl-C passes click by here, too."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _Interrupted from None


class _Interrupted(Exception):  # noqa: N818
    """Ctrl-C within a command."""


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="hopfed")
def cli() -> None:
    """Recover the prototypes hidden in binary data that stay with their owners.

    Example: hopfed demo
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every error is one line on standard error and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what its encoding lacks is spelt out
            stream.reconfigure(errors="backslashreplace")
    try:
        cli.main(args=arguments, prog_name="hopfed", standalone_mode=False)
        if sys.stdout is not None:  # closed from the start
            sys.stdout.flush()
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except (_Interrupted, click.Abort, KeyboardInterrupt):
        # A second Ctrl-C, while the interpreter closes, ends it at once and without a word.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:  # the lines of a page, not of an error
        print(error.format_message(), file=sys.stderr)
        sys.exit(2)
    except click.exceptions.NoSuchOption as error:
        where = "" if error.ctx is None else f" {error.ctx.command_path} --help lists its options."
        _fail(error.format_message() + where)
    except click.ClickException as error:
        _fail(error.format_message())
    except ColumnsError as error:  # a line for each column
        _fail(*str(error).split("\n"))
    except HopfedError as error:
        _fail(str(error))
    except BrokenPipeError:  # as in `hopfed list | head -1`: nobody reads on, and nothing is wrong
        _let_go()
        sys.exit(1)
    except OSError as error:
        _let_go()
        where = "" if error.filename is None else f"{error.filename}: "
        _fail(f"{where}{error.strerror or error}")
    except MemoryError as error:
        _fail(f"not enough memory: {error}")


def _let_go() -> None:
    """Leave standard output if nothing can be written to it: closing it would fail again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(*lines: str) -> None:
    from hopfed.cli.printing import shown

    said = [shown(line if k else " ".join(line.split())) for k, line in enumerate(lines)]
    print("error: " + "\n".join(said), file=sys.stderr)
    sys.exit(2)
