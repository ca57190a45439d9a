"""Every command with arguments of every kind: what it promises, or one line and exit status 2.

The commands and their options are those that Click knows, so a new one takes part by itself. What
would compute for long, wait for others or measure the machine stops where that would begin.
"""

import contextlib
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from random import Random

import click
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutants import FILES, FOLDERS, NUMBERS, damaged

from hopfed.cli import cli, main
from hopfed.errors import HopfedError
from hopfed.experiments import NAMES, find

pytest.importorskip("torch", reason="torch is not installed: `hopfed fl` is one of the commands")

FAST, SLOW = 500, 12_000  # cases; tests/fuzz/test_files.py has the others
MEMORY = 2 << 30  # bytes that a command may take beside what the process holds
SECONDS = 10  # of processor time
SMALL = ("bbp", "concentration")  # experiments that are really run, if their settings are small
LARGEST = 128  # whole number of a small setting


def commands(command=cli, path=()):
    """Every command below `command`, by its words."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from commands(command.get_command(click.Context(command), name), (*path, name))
    else:
        yield path, command


COMMANDS = dict(commands())

# What a text may be where it makes sense, by the name of the parameter.
WORDS = {
    "name": (*NAMES, "gram", "serve", "bpb"),
    "method": ("fedavg", "fedprox", "fedssa", "feda"),
    "quality": ("auto", "0.5", "1"),
    "threshold": ("tw", "mp", "shuffle", "0.5"),
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
    "hosts": ("127.0.0.1", "a.example", "*"),
    "listen": ("127.0.0.1:0", "127.0.0.1:²", ":1", "a:99999"),
    "server": ("127.0.0.1:1", "127.0.0.1:²", "[::1]:1"),
}
OUTPUTS = ("out_file", "figure", "folder")
SUFFIXES = {"figure": (".svg",), "report": (".html",), "join": (".npy",)}  # of outputs; else a run

# Calls to begin with, beside the one in the help of each command; files stand for their suffix.
CALLS = (
    "run bbp --preset quick --set N=24 --set M=40,80 --seeds 1",
    "run concentration --set N=24 --set M=40,80 --seeds 2 --json --out made.h5",
    "run privacy --preset quick --set clients=2",
    "recover rows.csv --clients 2 --threshold 0.5 --json",
    "recover rows.npy rows.npy --method lam --refit --out made.h5",
    "join --data rows.csv --dry-run --set rounds=2",
    "fl run fedprox --set mu=0.1 --partition iid --models mlp:8 --rounds 1 --out made.h5",
    "fl run fedavg --config settings.toml --data rows.npz",
    "show run.h5 --json",
    "compare run.h5 run.h5",
    "figure run.h5 run.h5 --out made.svg",
    "serve --keys keys --columns 9 --out made.h5",
    "theory spike --q 0.5 --kappa 1",
    "theory tw --N 40 --M 100",
    "list bbp",
)


class ReachedError(HopfedError):
    """A case came through to its computation."""


def stop(*_, **__):
    raise ReachedError("reached")


@pytest.fixture(scope="module")
def stubs():
    """Stop what would take long."""
    from hopfed.experiments import _execute

    unit = _execute._unit

    def small_unit(module, config, *rest):
        counts = [v for name in ("N", "M", "seeds") for v in np.ravel(getattr(config, name, 0))]
        if module.rpartition(".")[2] in SMALL and max(counts) <= LARGEST:
            return unit(module, config, *rest)
        return stop()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_execute, "_unit", small_unit)
        patch.setattr(_execute, "_parallel", stop)
        patch.setattr("hopfed.federation.engines.pool.PoolEngine.__enter__", stop)
        patch.setattr("hopfed.federation.engines.flower.simulation.FlowerSimulation", stop)
        patch.setattr("hopfed.federation.engines.flower.server.FlowerServer.__enter__", stop)
        patch.setattr("hopfed.federation.engines.flower.site.Site.run", stop)
        patch.setattr("hopfed.cli.bench._measure", stop)
        patch.setattr("hopfed.cli.theory._simulated", stop)
        patch.setattr("hopfed.data.demo.letters_over_clients", stop)
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory, stubs):
    """Folders with inputs and for outputs, the second one being the current one."""
    root = tmp_path_factory.mktemp("commands")
    inputs, outputs = root / "in", root / "out"
    inputs.mkdir()
    outputs.mkdir()
    for suffix, seeds in FILES.items():
        for k, data in enumerate(seeds):
            (inputs / f"good{k}{suffix}").write_bytes(data)
            (inputs / f"cut{k}{suffix}").write_bytes(data[: len(data) // 2])
            middle = data[: len(data) // 3] + bytes(8) + data[len(data) // 3 + 8 :]
            (inputs / f"hole{k}{suffix}").write_bytes(middle)
        (inputs / f"empty{suffix}").touch()
        (inputs / f"folder{suffix}").mkdir()
        os.mkfifo(inputs / f"pipe{suffix}")
        (inputs / f"device{suffix}").symlink_to("/dev/zero")
        (inputs / f"[{suffix}").write_bytes(seeds[0])
    for at, held in FOLDERS["mnist"].items():
        (inputs / at).write_bytes(held)
    for name in ("rows.npy", "rows.csv"):
        (inputs / name).write_bytes(FILES[Path(name).suffix][0])
    (inputs / "rows.npz").write_bytes(FILES[".npz"][0])
    (inputs / "settings.toml").write_bytes(FILES[".toml"][0])
    made = ["run", "bbp", "--set", "N=24", "--set", "M=40,80", "--seeds", "2", "--out"]
    assert run([*made, str(inputs / "run.h5")])[0] == 0
    assert run(["certs", str(inputs / "keys"), "--clients", "3"])[0] == 0
    whole = (inputs / "run.h5").read_bytes()
    for k in range(20):
        (inputs / f"damaged{k}.h5").write_bytes(damaged(Random(k), [whole]))
    used = next(
        int(line.split()[1]) << 10
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmData:")
    )
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, before[1]))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(outputs)
        patch.setenv("HOPFED_HOME", str(root / "home"))
        patch.setenv("HOPFED_DATA", str(inputs))
        yield inputs, outputs
    resource.setrlimit(resource.RLIMIT_DATA, before)


def run(arguments):
    """Exit status, standard output and standard error of `hopfed ARGUMENTS` in this process."""

    def late(signum, frame):
        raise AssertionError(f"{arguments} takes more than a minute")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    began, status = time.process_time(), 0
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(list(arguments))
    except SystemExit as end:
        status = end.code or 0
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert time.process_time() - began < SECONDS
    return status, out.getvalue(), err.getvalue()


def listing(folder):
    """Names, sizes and times of what is in a folder."""
    return {
        entry.name: (
            entry.stat(follow_symlinks=False).st_size,
            entry.stat(follow_symlinks=False).st_mtime_ns,
        )
        for entry in os.scandir(folder)
    }


def judge(place, arguments):
    """Hold one call to the promise."""
    inputs, outputs = place
    before = listing(inputs)
    try:
        status, out, err = run(arguments)
        assert status in (0, 2), err
        assert "Traceback" not in err
        after = listing(inputs)
        assert before.items() <= after.items()
        for name in after.keys() - before.keys():  # keys, say, in a folder that is there
            assert status == 0
            (inputs / name).unlink()
        made = sorted(outputs.iterdir())
        if status == 2:
            assert len(err.splitlines()) == 1
            assert err.startswith("error: ")
            assert (out, made) == ("", [])
        elif "--json" in arguments:
            json.loads(out)
        else:
            assert out.strip()
        assert all(path.is_dir() or path.stat().st_size > 0 for path in made)
    finally:
        shutil.rmtree(outputs)
        outputs.mkdir()
        os.chdir(outputs)


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
        return str(inputs / rng.choice(("run.h5", f"damaged{rng.randrange(20)}.h5")))
    if parameter.name == "settings":
        return rng.choice(("N=24", "M=40,80", "seeds=1", "columns=9", "rounds=1", "clients=2"))
    if isinstance(kind, (click.Path, click.File)):
        suffix = ".toml" if parameter.name == "config_file" else rng.choice(list(FILES))
        return str(rng.choice(sorted(inputs.glob(f"good*{suffix}"))))
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


def spread(cases):
    return settings(
        max_examples=cases,
        derandomize=cases == FAST,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


draws = st.randoms(use_true_random=True)  # a failure prints the seed that repeats it


@spread(FAST)
@given(rng=draws)
def test_commands(place, rng):
    judge(place, a_call(rng, place))


@pytest.mark.slow
@spread(SLOW)
@given(rng=draws)
def test_commands_at_length(place, rng):
    judge(place, a_call(rng, place))


# As a user runs them, each in a process of its own: what ends with one line, and what waited once.
LINES = (
    "recover pipe.npy",
    "recover device.csv",
    "recover rows.npy --seed ²",
    "recover hole0.npz",
    "run bbp --set N=99999999999",
    "run bbp --set N=900000000 --out made.h5",
    "run bbp --seeds 900000000",
    "fl run fedavg --config device.toml",
    "fl run fedavg --models mlp:99999999x99999999",
    "show pipe.h5",
    "join --data pipe.csv --dry-run",
    "serve --keys keys --columns 9 --listen 127.0.0.1:² --out made.h5",
)
MORE = (
    "recover",
    "recover nothing.npy",
    "recover folder.h5",
    "recover rows.npy --clients 99999999999",
    "recover rows.npy --alpha nan",
    "recover cut1.npy",
    "recover empty.csv",
    "recover rows.csv --shape ²x²",
    "run bbp --set M=1e400",
    "run bbp --set exposures=nan",
    "run privacy --set rounds=1_0",
    "run nothing",
    "fl run fedavg --config pipe.toml",
    "fl run fedavg --data device.npz",
    "fl run fedavg --partition classes:²",
    "theory mp --q nan",
    "theory plan --r inf --N 100",
    "show rows.csv",
    "compare run.h5 device.h5",
    "figure damaged3.h5 --out made.png",
    "report pipe.h5 --out made.html",
    "certs made --clients 99999999999",
)


@pytest.mark.parametrize(
    "words", [*LINES, *(pytest.param(words, marks=pytest.mark.slow) for words in MORE)]
)
def test_as_a_user_runs_them(place, words):
    inputs, outputs = place
    arguments = [
        str(inputs / word) if (inputs / word).is_symlink() or (inputs / word).exists() else word
        for word in words.split()
    ]
    began = os.times()
    ended = subprocess.run(
        [sys.executable, "-m", "hopfed", *arguments],
        cwd=outputs,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY)),
    )
    spent = os.times()
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    assert ended.stderr.startswith("error: ")
    assert ended.stderr.count("\n") == 1
    assert list(outputs.iterdir()) == []
    assert spent.children_user - began.children_user < SECONDS
