"""Words of other tools: each is answered by what says the same here."""

from commands import commands

from hopfed.cli import cli, words

COMMANDS = {" ".join(path): {o for p in each.params for o in p.opts} for path, each in commands()}


def test_the_table_names_what_there_is():
    """Options and commands that are named exist."""
    known = set().union(*COMMANDS.values())
    for row in words.TABLE["option"]:
        assert {option for option in row if option} <= known | {"--weights", "words"}
    assert set(words.TABLE["command"]) == set(cli.list_commands(None))
