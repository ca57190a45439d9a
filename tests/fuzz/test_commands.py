"""Every command with arguments of every kind: what it promises, or one line and exit status 2.

The commands and their options are those that Click knows, so a new one takes part by itself. What
would compute for long, wait for others or measure the machine stops where that would begin.
"""

import contextlib
import io
import json
import os
import resource
import shutil
import signal
import time
from dataclasses import fields
from pathlib import Path

import click
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutants import FILES, FOLDERS, NUMBERS

from hopfed.cli import cli, main
from hopfed.errors import HopfedError
from hopfed.experiments import NAMES, find

pytest.importorskip("torch", reason="torch is not installed: `hopfed fl` is one of the commands")

FAST, SLOW = 500, 12_000  # cases; tests/fuzz/test_files.py has the others
MEMORY = 2 << 30  # bytes that a command may take beside what the process holds
SECONDS = 10  # of processor time
SMALL = ("bbp", "concentration")  # experiments that are really run, if their settings are small
LARGEST = 64  # whole number of a small setting


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


def sound(rng, parameter, place):
    """A value that the parameter may take."""
    inputs, outputs = place
    kind = parameter.type
    if parameter.name in OUTPUTS:
        return str(outputs / f"made{rng.choice(('.h5', '.h5', '.npy', '.html', '.svg'))}")
    if parameter.name == "settings":
        return rng.choice(("N=12", "M=20,40", "seeds=1", "columns=9", "rounds=1", "clients=2"))
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


def odd(rng, parameter, place):
    """A value that it should not take, or that is a surprise."""
    inputs, _ = place
    if parameter.name == "settings":
        return a_setting(rng)
    if parameter.name in OUTPUTS or isinstance(parameter.type, (click.Path, click.File)):
        files = sorted(map(str, inputs.iterdir()))
        names = ("", ".", "/", "/nowhere/a.h5", "a" * 300 + ".h5", "[/b].npy", "\x1b[31m.png", "-")
        return rng.choice((*files, *names, str(inputs), "a.xyz", "\udc80.npy"))
    return rng.choice((*NUMBERS, "x" * 300, *WORDS.get(parameter.name, ())))


def a_call(rng, place):
    """A command with some of its parameters, most of them sound."""
    words, command = rng.choice(sorted(COMMANDS.items()))
    arguments = list(words)
    oddity = rng.choice((0, 0.1, 0.1, 0.5))  # how often a value is odd
    for parameter in command.params:
        chance = 0.95 if parameter.required else 0.03 if parameter.name == "figure" else 0.25
        if rng.random() > chance:
            continue
        if getattr(parameter, "is_flag", False):
            arguments.append(parameter.opts[0])
            continue
        for _ in range(rng.choice((1, 2)) if parameter.multiple or parameter.nargs < 0 else 1):
            make = odd if rng.random() < oddity else sound
            value = make(rng, parameter, place).replace("\0", "")
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
