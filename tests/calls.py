"""Calls of every command of hopfed, sound ones and odd ones, for the fuzz tests.

The commands, their options and examples are those that Click knows, so a new one takes part by
itself.
"""

import contextlib
import io
import re
import time
from dataclasses import fields
from pathlib import Path

import click
from commands import commands
from hypothesis import strategies as st
from mutants import WORDS

from hopfed.cli import main
from hopfed.experiments import NAMES, find_experiment

SECONDS = 10  # of processor time


@contextlib.contextmanager
def in_time():
    """Hold what is done inside to `SECONDS`."""
    began = time.process_time()
    yield
    assert time.process_time() - began < SECONDS


def run(arguments):
    """Exit status, standard output and standard error of `hopfed ARGUMENTS` in this process."""
    status, out, err = 0, io.StringIO(), io.StringIO()
    try:
        with in_time(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(list(arguments))
    except SystemExit as end:
        status = end.code or 0
    return status, out.getvalue(), err.getvalue()


COMMANDS = {path: each for path, each in commands() if not isinstance(each, click.Group)}
CALLS = [
    "run concentration --set N=24 --set M=40,80 --seeds 2 --json --out made.h5",
    "recover rows.csv --clients 2 --alpha 0.01 --json",
    "recover rows.npy rows.npy --refit --out made.h5",
    "recover a.parquet --binarize levels --dry-run",
    "recover a.csv a.csv --ignore tea --dry-run --json",
    "join --data rows.csv --dry-run",
    "fl run fedavg --data images.npz --models mlp:8",
    "show bbp.h5 --json",
    "complete run.h5 rows.npy rows.csv --out made.csv",
    "certs made --clients 3",
]
for each in COMMANDS.values():
    CALLS += re.findall(r"Example: hopfed (.*)", re.sub(r" --figure \S+", "", each.help or ""))

# What a text may be where it makes sense, by the name of the parameter.
TEXTS = {
    "name": (*NAMES, "gram", "serve", "bpb"),
    "method": ("fedavg", "fedprox", "fedssa", "feda"),
    "quality": ("auto", "0.5", "1"),
    "shape": ("3x3", "9x1", "²x²", "3", "0x9", "99999999999x1"),
    "data": ("digits", "mnist", "hub:mnist", "hub:", "digit", "a.npz"),
    "partition": ("iid", "classes:2", "dirichlet:1e400", "classes:²", "rotation:0,9"),
    "models": ("lenet", "mlp:8", "mlp:²", "mlp:99999999x99999999", "lenet,,mlp", "lstm:4"),
    "id": ("id", "tea", "[/b]"),
    "ignore": ("id", "tea", "a"),
    "words": ("yes=+1", "oak=missing", "tea=category", "=", "x", "1=1=1", "a=7"),
    "binarize": ("median", "levels", "kg=mean", "quantile:0.5", "quantile:2", "nan", "="),
    "ordinal": ("tea", "tree=oak<ash<yew", "=<", "kg"),
    "hosts": ("127.0.0.1", "a.example", "*"),
    "listen": ("127.0.0.1:0", "127.0.0.1:²", ":1", "a:99999"),
    "server": ("127.0.0.1:1", "127.0.0.1:²", "[::1]:1"),
}
KEYS = sorted({field.name for name in NAMES for field in fields(find_experiment(name).Config)})
OUTPUTS = ("out_file", "figure", "folder")
PLACES = (
    "",
    ".",
    "/",
    "/nowhere/a.h5",
    "a" * 300 + ".h5",
    "[/b].npy",
    "\x1b[31m.png",
    "-",
    "a.xyz",
)


@st.composite
def values(draw, parameter, place):
    """What a parameter may take, or, one time in four, a surprise."""
    inputs, outputs = place
    kind, odd = parameter.type, draw(st.integers(0, 3)) == 0
    if parameter.name in OUTPUTS and not odd:
        made = ("made.h5", "made.csv", "made.json", "made.parquet", "made.svg", "made.html", "made")
        return str(outputs / draw(st.sampled_from(made)))
    if parameter.name in OUTPUTS or isinstance(kind, (click.Path, click.File)):
        files = [str(path) for path in sorted(inputs.iterdir())]
        return draw(st.sampled_from(files + [*PLACES] * odd))
    if parameter.name == "settings":
        value = draw(st.sampled_from((*WORDS, "1,2", "1,,2", "true", "0.5,nan", "x" * 100_000)))
        return f"{draw(st.sampled_from((*KEYS, '', 'nn', '[/b]')))}={value}"
    if odd:
        return draw(st.sampled_from((*WORDS, "x" * 300)))
    if isinstance(kind, click.Choice):
        return draw(st.sampled_from(list(kind.choices)))
    whole = ("1", "2", "3", "40") if kind.name == "integer" else ("0.1", "0.5", "1", "0.9")
    return draw(st.sampled_from(TEXTS.get(parameter.name, whole)))


@st.composite
def calls(draw, place):
    """A call that is sound, with real files, of which something is gone, and more options."""
    inputs, outputs = place
    arguments = draw(st.sampled_from(CALLS)).split()
    path = next(path for path in COMMANDS if tuple(arguments[: len(path)]) == path)
    files = sorted(inputs.iterdir())
    for k, word in enumerate(arguments):
        alike = [file for file in files if file.suffix and file.suffix == Path(word).suffix]
        if arguments[k - 1] == "--out" or word.startswith("made"):
            arguments[k] = str(outputs / word)
        elif inputs / word in files and draw(st.integers(0, 4)):
            arguments[k] = str(inputs / word)
        elif alike:
            arguments[k] = str(draw(st.sampled_from(alike)))
    if draw(st.integers(0, 4)) == 0:
        del arguments[draw(st.integers(len(path), len(arguments))) :]
    for parameter in draw(st.lists(st.sampled_from(COMMANDS[path].params or [None]), max_size=3)):
        if isinstance(parameter, click.Option):
            value = [] if parameter.is_flag else [draw(values(parameter, place))]
            arguments += [parameter.opts[0], *value]
        elif parameter:
            arguments.append(draw(values(parameter, place)))
    return arguments
