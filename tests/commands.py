"""Command lines in pages, parsed down to the command that would run, which does not run."""

import click

from hopfed.cli import cli


def parsed(words):
    """Return the name of the command that `words` would run; Click's error where they are wrong."""
    group, context = cli, cli.make_context("hopfed", list(words))
    while hasattr(group, "resolve_command"):
        left = [*context._protected_args, *context.args]
        name, group, rest = group.resolve_command(context, left)
        context = group.make_context(name, rest, parent=context)
    return group.name


def commands(group=cli, path=()):
    """Yield the path of each command, and the command."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield (*path, name), command
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command
