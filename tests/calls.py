"""Calls of every command of hopfed, sound ones and odd ones, for the fuzz tests.

The commands and their options are those that Click knows, so a new one takes part by itself.
"""

import contextlib
import io
import re
import signal
import time
from dataclasses import fields
from pathlib import Path

import click
from commands import commands
from hypothesis import HealthCheck, Phase, settings
from mutants import FILES, NUMBERS

from hopfed.cli import main
from hopfed.experiments import NAMES, find

MEMORY = 2 << 30  # bytes that a command, or a reader, may take beside what the process holds
SECONDS = 10  # of processor time
PATIENCE = 300  # seconds after which it waits for something: a busy machine gives it a thirtieth


@contextlib.contextmanager
def in_time(what):
    """Hold what is done inside to `SECONDS`, and end it when it waits."""

    def late(signum, frame):
        raise AssertionError(f"{what} is not done after {PATIENCE} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    began = time.process_time()
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert time.process_time() - began < SECONDS


def run(arguments):
    """Exit status, standard output and standard error of `hopfed ARGUMENTS` in this process."""
    status, out, err = 0, io.StringIO(), io.StringIO()
    try:
        with in_time(arguments), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(list(arguments))
    except SystemExit as end:
        status = end.code or 0
    return status, out.getvalue(), err.getvalue()


def spread(cases, known):
    """Settings of tests by many cases, the same ones each time where they are `known`."""
    return settings(
        max_examples=cases,
        phases=[Phase.generate],  # a seed is not made simpler
        derandomize=known,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


COMMANDS = {path: each for path, each in commands() if not isinstance(each, click.Group)}

# What a text may be where it makes sense, by the name of the parameter.
WORDS = {
    "name": (*NAMES, "gram", "serve", "bpb"),
    "method": ("fedavg", "fedprox", "fedssa", "feda"),
    "quality": ("auto", "0.5", "1"),
    "shape": ("3x3", "9x1", "²x²", "3", "0x9", "99999999999x1"),
    "data": ("digits", "mnist", "hub:mnist", "hub:", "digit", "a.npz"),
    "partition": (
        "iid",
        "classes:2",
        "dirichlet:0.3",
        "dirichlet:1e400",
        "classes:²",
        "rotation:0,9",
    ),
    "models": ("lenet", "mlp:8", "mlp:²", "mlp:99999999x99999999", "lenet,,mlp", "lstm:4"),
    "id": ("a", "id", "", "[/b]"),
    "ignore": ("a", "q 1", "id", ""),
    "words": ("yes=+1", "oak=missing", "a=category", "=", "x", "1=1=1", "a=7"),
    "binarize": ("median", "levels", "a=mean", "quantile:0.5", "quantile:2", "nan", "=", "0"),
    "hosts": ("127.0.0.1", "a.example", "*"),
    "listen": ("127.0.0.1:0", "127.0.0.1:²", ":1", "a:99999"),
    "server": ("127.0.0.1:1", "127.0.0.1:²", "[::1]:1"),
}
OUTPUTS = ("out_file", "figure", "folder")
TABLES = (".csv", ".json", ".parquet", ".h5")
SUFFIXES = {"figure": (".svg",), "report": (".html",), "join": (".npy",)}  # of outputs; else a run
SUFFIXES |= dict.fromkeys(("assign", "export", "recover"), TABLES)
SUFFIXES["complete"] = (".csv", ".parquet")

# Calls to begin with, beside the one in the help of each command; files stand for their suffix.
CALLS = (
    "run bbp --preset quick --set N=24 --set M=40,80 --seeds 1",
    "run concentration --set N=24 --set M=40,80 --seeds 2 --json --out made.h5",
    "run privacy --preset quick --set clients=2",
    "recover rows.csv --clients 2 --alpha 0.01 --json",
    "recover rows.npy rows.npy --refit --out made.h5",
    "recover table.parquet --binarize levels --dry-run",
    "recover table.csv table.csv --ignore a --dry-run --json",
    "join --data rows.csv --dry-run --set rounds=2",
    "fl run fedprox --set mu=0.1 --partition iid --models mlp:8 --rounds 1 --out made.h5",
    "fl run fedavg --data rows.npz",
    "show run.h5 --json",
    "compare run.h5 run.h5",
    "assign recovered.h5 rows.csv --out made.csv --json",
    "complete recovered.h5 rows.npy rows.csv --out made.csv",
    "export recovered.h5 --out made.json",
    "figure run.h5 run.h5 --out made.svg",
    "serve --keys keys --columns 9 --out made.h5",
    "theory spike --q 0.5 --kappa 1",
    "theory tw --N 40 --M 100",
    "list bbp",
)


def a_setting(rng):
    """A KEY=VALUE of some experiment, with a key and a value that may be wrong."""
    config = find(rng.choice((*NAMES, "fl", "serve"))).Config
    key = rng.choice([f.name for f in fields(config)] * 3 + ["", "nn", "[/b]", "N" * 300])
    value = rng.choice((*NUMBERS, "1,2", "1,,2", "true", "-0", "0.5,nan", "digits", "x" * 100_000))
    return rng.choice(("{}={}", "{}={}", "{}={}", "{}", "={1}", "{}=={}")).format(key, value)


def sound(rng, parameter, place, words):
    """A value that the parameter may take."""
    inputs, outputs = place
    kind = parameter.type
    if parameter.name in OUTPUTS:
        return str(outputs / f"made{rng.choice(SUFFIXES.get(words[0], ('.h5',)))}")
    if parameter.name.startswith("run_file"):
        return str(
            inputs / rng.choice(("run.h5", "recovered.h5", f"damaged{rng.randrange(30)}.h5"))
        )
    if parameter.name == "settings":
        return rng.choice(("N=24", "M=40,80", "seeds=1", "columns=9", "rounds=1", "clients=2"))
    if isinstance(kind, (click.Path, click.File)):
        return str(rng.choice(sorted(inputs.glob(f"good*{rng.choice(list(FILES))}"))))
    if isinstance(kind, click.Choice):
        return rng.choice(list(kind.choices))
    if kind.name == "integer":
        return rng.choice(("1", "2", "3", "40"))
    if kind.name in ("float", "numbers"):
        return rng.choice(("0.1", "0.5", "1", "0.9"))
    return rng.choice(WORDS.get(parameter.name, ("a", "1")))


def odd(rng, parameter, place, words):
    """A value that it should not take, or that is a surprise."""
    inputs, _ = place
    if parameter.name == "settings":
        return a_setting(rng)
    if parameter.name in OUTPUTS or isinstance(parameter.type, (click.Path, click.File)):
        files = sorted(map(str, inputs.iterdir()))
        names = ("", ".", "/", "/nowhere/a.h5", "a" * 300 + ".h5", "[/b].npy", "\x1b[31m.png", "-")
        return rng.choice((*files, *names, str(inputs), "a.xyz", "\udc80.npy"))
    return rng.choice((*NUMBERS, "x" * 300, *WORDS.get(parameter.name, ())))


def begins(words, command):
    """Calls of a command that are sound: those above, and the one that its help shows."""
    shown = re.findall(r"Example: hopfed (.*)", command.help or "")
    return [call for call in (*CALLS, *shown) if tuple(call.split())[: len(words)] == words] or [
        " ".join(words)
    ]


def placed(rng, arguments, place):
    """The same call with files that are there, and outputs where they may go; some are damaged."""
    inputs, outputs = place
    if "--figure" in arguments and rng.random() < 0.9:  # drawing takes a second
        at = arguments.index("--figure")
        del arguments[at : at + 2]
    for k, word in enumerate(arguments):
        suffix = Path(word).suffix
        if arguments[k - 1] in ("--out", "--figure") or word.startswith("made"):
            arguments[k] = str(outputs / word)
        elif suffix in FILES or word == "keys":
            known = inputs / word
            alike = sorted(inputs.glob(f"*{suffix}")) if suffix else [known]
            if not known.exists() or rng.random() < 0.2:
                known = rng.choice(alike)
            arguments[k] = str(known)
    return arguments


def a_call(rng, place):
    """A command with some of its parameters, most of them sound."""
    words, command = rng.choice(sorted(COMMANDS.items()))
    arguments, begun = list(words), rng.random() < 0.7
    if begun:
        arguments = placed(rng, rng.choice(begins(words, command)).split(), place)
    oddity = rng.choice((0, 0.1, 0.1, 0.5))  # how often a value is odd
    for parameter in command.params:
        chance = 0.95 if parameter.required else 0.03 if parameter.name == "figure" else 0.25
        if begun:
            chance = 0.0 if isinstance(parameter, click.Argument) else min(0.15, chance)
        if rng.random() > chance:
            continue
        if getattr(parameter, "is_flag", False):
            arguments.append(parameter.opts[0])
            continue
        for _ in range(rng.choice((1, 2)) if parameter.multiple or parameter.nargs < 0 else 1):
            make = odd if rng.random() < oddity else sound
            value = make(rng, parameter, place, words).replace("\0", "")
            named = not isinstance(parameter, click.Argument)
            arguments += [parameter.opts[0], value] if named else [value]
    return arguments
