"""Words of other tools: each is answered by what says the same here."""

import pytest
from commands import commands

from hopfed.cli import cli, words

COMMANDS = {" ".join(path): {o for p in each.params for o in p.opts} for path, each in commands()}
COUNTED = "counted from the rows"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("recover a.csv --n-classes 3", COUNTED),
        ("recover a.csv --n_clusters=3", COUNTED),
        ("recover a.csv --clusters 3", COUNTED),
        ("recover a.csv -k 3", COUNTED),
        ("theory plan --N 100 --n-classes 3", "use --K"),
        ("fl run fedavg --classes 2", "--partition classes:K"),
        ("assign r.h5 a.csv --weights n", "elsewhere repeat each row"),
        ("serve --port 80", "use --listen HOST:PORT"),
        ("join --port 80", "use --server HOST:PORT"),
        ("recover a.csv --output x.h5", "use --out"),
        ("run bbp -o x.h5", "use --out"),
        ("theory mp --output x.png", "use --figure FILE"),
        ("fl run fedavg --seed 3", "use --seeds COUNT"),
        ("recover a.csv --seeds 3", "use --seed"),
        ("recover a.csv --random_state 3", "use --seed"),
        ("fl run fedavg -gr 20", "use --rounds"),
        ("fl run fedavg -nc 20", "use --clients"),
        ("fl run fedavg --learning-rate .1", "use --set lr=RATE"),
        ("recover a.csv --nrep 5", "until it settles"),
        ("store a.npy --force", "use --overwrite"),
        ("recover a.csv --owners 3", "recover --help lists its options"),
        ("fit a.csv", "did you mean recover?"),
        ("fl train", "did you mean run?"),
        ("theory bbpp", "hopfed theory --help lists them"),
        ("demmo", "did you mean demo?"),
    ],
)
def test_the_answer(hopfed, line, words):
    status, out, err = hopfed(*line.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_the_table_names_what_there_is():
    """Options and commands that are named exist."""
    known = set().union(*COMMANDS.values())
    for row in words.TABLE["option"]:
        assert {option for option in row if option} <= known | {"--weights", "words"}
    assert set(words.TABLE["command"]) == set(cli.list_commands(None))
