"""What people type first, or by mistake, and what is there at once."""

import subprocess
import sys

import click
import numpy as np
import pytest
from commands import commands

import hopfed.experiments
import hopfed.figures
import hopfed.testing
from hopfed.cli import cli, load_words
from hopfed.hopfield.channel import draw_examples, rademacher


@pytest.mark.parametrize(
    ("line", "absent"),
    [
        ("--help", {"numpy", "rich", "hopfed.experiments"}),
        ("list", {"scipy", "pyarrow", "hopfed.experiments.bbp"}),
        ("recover a.csv", {"matplotlib"}),
    ],
)
def test_a_command_loads_nothing_that_it_does_not_need(tmp_path, monkeypatch, line, absent):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = draw_examples(rademacher(2, 60, rng), 200, 0.8, rng)[0]
    np.savetxt("a.csv", rows, fmt="%d", delimiter=",")
    lines, loaded = started(*line.split())
    assert len(lines) > 3
    assert not absent & loaded


def started(*arguments):
    """Lines that a command prints in a process of its own, and the modules that it loads."""
    code = (
        "import sys\nfrom hopfed.cli import main\ntry:\n    main(sys.argv[1:])\n"
        "finally:\n    print(*sys.modules, file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", code, *map(str, arguments)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "hopfed.cli" in found.stderr.split()
    return found.stdout.splitlines(), set(found.stderr.split())


def test_help_says_of_each_command_what_its_own_help_does(hopfed):
    _, out, _ = hopfed("--help")
    context = click.Context(cli)
    for name in cli.list_commands(context):
        said = cli.get_command(context, name).get_short_help_str(200)
        assert f"{name} {said}".split() in [line.split() for line in out.splitlines()]


PACKAGES = {
    hopfed: "recover theory", hopfed.theory: "planning spikes", hopfed.kernels: "gram pack",
    hopfed.figures: "save theory", hopfed.experiments: "NAMES find_experiment mp",
    hopfed.cli: "main theory", hopfed.testing: "check_gram signs",
}  # fmt: skip


def test_packages_list_their_names_and_nothing_that_they_import():
    for package, known in PACKAGES.items():
        assert set(known.split()) <= set(dir(package))
        assert not {"Any", "annotations", "np"} & set(dir(package))
        assert all(hasattr(package, name) for name in dir(package))


def test_every_command_that_writes_takes_overwrite():
    for path, command in commands():
        name, taken = " ".join(path), {parameter.name for parameter in command.params}
        writes = bool(taken & {"out_file", "figure"}) or name in ("certs", "sweep")
        assert ("overwrite" in taken) == writes, name


def test_without_a_command_the_page_of_commands_comes(hopfed):
    for group in ((), ("theory",), ("fl",)):
        status, text, error = hopfed(*group)
        assert (status, text, error[:13]) == (2, "", "Usage: hopfed")
        assert "\n  -h, --help" in error


def test_a_shell_is_told_how_a_word_goes_on(hopfed, monkeypatch):
    words = {"_HOPFED_COMPLETE": "bash_complete", "COMP_WORDS": "hopfed figure --"}
    for name, text in (words | {"COMP_CWORD": "2"}).items():
        monkeypatch.setenv(name, text)
    assert "plain,--out" in hopfed.done()[0]


def test_the_table_names_what_there_is():
    """Options and commands that are named exist."""
    known = set().union(*({o for p in each.params for o in p.opts} for _, each in commands()))
    for row in load_words()["option"]:
        assert {option for option in row if option} <= known | {"--weights", "words"}
    assert set(load_words()["command"]) == set(cli.list_commands(None))
