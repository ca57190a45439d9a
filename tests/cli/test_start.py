"""What is there at once: --help, `list` and names of lazy packages, and what they do not load."""

import subprocess
import sys

import click
import pytest

import hopfed
from hopfed.cli import cli


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], {"numpy", "rich", "hopfed.experiments"}),
        (["list"], {"scipy", "pyarrow", "hopfed.experiments.bbp"}),
    ],
)
def test_a_list_loads_nothing_that_computes(arguments, absent):
    code = (
        "import sys\nfrom hopfed.cli import main\ntry:\n    main(sys.argv[1:])\n"
        "finally:\n    print(*sys.modules, file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", code, *arguments]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert len(found.stdout.splitlines()) > 20
    assert "hopfed.cli" in found.stderr.split()
    assert not absent & set(found.stderr.split())


def test_help_says_of_each_command_what_its_own_help_does(hopfed):
    _, out, _ = hopfed("--help")
    context = click.Context(cli)
    for name in cli.list_commands(context):
        said = cli.get_command(context, name).get_short_help_str(200)
        assert f"{name} {said}".split() in [line.split() for line in out.splitlines()]


@pytest.mark.parametrize(
    ("package", "names"),
    [(hopfed, "recover theory"), (hopfed.theory, "planning spikes"), (hopfed.kernels, "gram pack")],
)
def test_lazy_packages_list_their_names(package, names):
    assert set(names.split()) <= set(dir(package))
    for name in dir(package):
        getattr(package, name)
