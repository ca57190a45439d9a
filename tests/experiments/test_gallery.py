"""The gallery covers every experiment, its commands can be run, and its index is true."""

import json
import os
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hopfed.cli import cli
from hopfed.errors import HopfedError, RunFileError
from hopfed.experiments import NAMES, find
from hopfed.experiments.publish import gallery
from hopfed.experiments.publish.pictures import PICTURES, Picture
from hopfed.experiments.runner import execute
from hopfed.runs import Run

BY_NAME = {picture.name: picture for picture in PICTURES}
MOST_BYTES = 200_000


def parsed(words):
    """Parse a command line down to the command that would run, and do not run it."""
    group, context = cli, cli.make_context("hopfed", list(words))
    while hasattr(group, "resolve_command"):
        name, group, rest = group.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        context = group.make_context(name, rest, parent=context)
    return context.params


def test_every_experiment_has_a_picture():
    assert set(NAMES) < set(BY_NAME)
    assert len(BY_NAME) == len(PICTURES)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_its_commands_parse_and_write_its_file(picture):
    for command in picture.commands:
        words = shlex.split(command)
        if words[:2] == ["python", "-c"]:
            compile(words[2], command, "exec")
        elif words[:2] == ["python", "-m"]:
            assert find_spec(words[2])
        else:
            assert words[0] == "hopfed"
            parsed(words[1:])
    assert f"{picture.name}.png" in picture.commands[-1]
    if picture.experiment:
        assert picture.preset in find(picture.experiment).PRESETS


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_it_is_there_small_and_says_how_it_was_made(picture):
    path = gallery.FOLDER / f"{picture.name}.png"
    assert path.stat().st_size < MOST_BYTES
    made = gallery.made_with(path)
    assert made["commands"]
    assert all(c.startswith(("hopfed ", "python -")) for c in made["commands"])
    assert not re.search(r"/(home|tmp|work|root)/", json.dumps(made))
    assert not gallery.stale(picture), "run `make gallery`"


def test_the_index_is_what_the_script_writes():
    text = (gallery.FOLDER / "README.md").read_text()
    assert text == gallery.index(), "the index is stale: run `make gallery`"
    shown = re.findall(r"!\[\w+\]\((\w+)\.png\)", text)
    assert shown == [picture.name for picture in PICTURES]


@pytest.fixture
def two(monkeypatch):
    """A gallery of one quick picture, and of one that cannot be made."""
    command = "from hopfed.figures import new_figure, save; save(new_figure(20, 20), 'dot.png')"
    dot = Picture("dot", "A dot.", (f'python -c "{command}"',))
    broken = Picture("broken", "", ('python -c "raise SystemExit(3)"',))
    monkeypatch.setattr(gallery, "PICTURES", (dot, broken))
    return dot, broken


def test_it_makes_what_is_missing_and_goes_on_after_a_failure(two, tmp_path):
    def call(*words):
        return CliRunner().invoke(gallery.main, ["--folder", str(tmp_path), *words])

    answer = call()
    assert answer.exit_code
    assert "Error: broken: python -c" in answer.output
    assert "![dot](dot.png)" in (tmp_path / "README.md").read_text()
    before = os.stat(tmp_path / "dot.png").st_mtime_ns
    assert "[1/1] broken" in call().output  # the dot is not made a second time
    assert os.stat(tmp_path / "dot.png").st_mtime_ns == before
    named = call("dot")
    assert (named.exit_code, "[1/1] dot" in named.output) == (0, True)
    assert "no picture 'dto'" in call("dto").output
    assert "no such run file" in call("absent.h5").output


def test_other_settings_make_a_picture_stale(two, tmp_path):
    dot, _ = two
    gallery.make(dot, tmp_path)
    assert not gallery.stale(dot, tmp_path)
    assert gallery.stale(Picture("dot", "A dot.", ("hopfed demo --figure dot.png",)), tmp_path)
    other = Picture("dot", "A dot.", dot.commands, "bbp", "quick")
    assert gallery.digest(other) != gallery.digest(dot)


def test_a_picture_of_a_run_file_stays(tmp_path):
    bbp = find("bbp")
    config = bbp.Config(N=50, M=(100,), seeds=2)
    path = tmp_path / "mine.h5"
    execute(bbp, config, out=path)
    assert gallery.draw([path], tmp_path) == "bbp"
    made = gallery.made_with(tmp_path / "bbp.png")
    assert made["commands"] == [
        "hopfed run bbp --preset quick --set N=50 --set M=100 --seeds 2 --out bbp.h5",
        "hopfed figure bbp.h5 --out bbp.png",
    ]
    assert not made["more"]
    assert not gallery.stale(BY_NAME["bbp"], tmp_path)
    assert gallery.stale(BY_NAME["mp"], tmp_path)


def test_the_index_says_where_there_are_more_panels(tmp_path):
    bbp, path = find("bbp"), tmp_path / "mine.h5"
    execute(bbp, bbp.Config(N=50, M=(100, 200, 300), seeds=2), out=path)
    gallery.draw([path], tmp_path)
    assert "`hopfed figure bbp.h5 --out bbp.png --whole` draws all panels." in gallery.index(
        tmp_path
    )
    command = f"hopfed figure {shlex.quote(str(path))} --out bbp.png"
    gallery.make(Picture("bbp", "Spectra.", (command,)), tmp_path)
    assert gallery.made_with(tmp_path / "bbp.png")["more"]


def test_runs_that_have_no_place(tmp_path):
    Run("dance", {}, {"x": np.ones(2)}, {}).save(tmp_path / "strange.h5")
    Run("bbp", {}, {}, {}, planned=2).save(tmp_path / "half.h5")
    with pytest.raises(HopfedError, match="no picture of 1 runs of 'dance'"):
        gallery.draw([tmp_path / "strange.h5"], tmp_path)
    with pytest.raises(RunFileError, match="interrupted"):
        gallery.draw([tmp_path / "half.h5"], tmp_path)


def test_real_data_are_used_where_they_are(tmp_path, monkeypatch):
    structured = BY_NAME["structured"]
    monkeypatch.setenv("HOPFED_DATA", str(tmp_path))
    assert gallery.commands_here(structured) == list(structured.commands)
    (Path(tmp_path) / structured.data).touch()
    first = gallery.commands_here(structured)[0]
    assert first == f"{structured.commands[0]} --set data=$HOPFED_DATA/{structured.data}"


@pytest.mark.skipif(not find_spec("torch"), reason="needs the extra neural")
def test_the_commands_of_neural_methods_run_when_shortened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    *runs, drawn = BY_NAME["fl"].commands
    for line in runs:
        short = shlex.split(line)[1:] + shlex.split(
            "--rounds 1 --seeds 1 --set examples=300 --set models=mlp --set clients=3"
        )
        answer = CliRunner().invoke(cli, short)
        assert answer.exit_code == 0, answer.output
    answer = CliRunner().invoke(cli, shlex.split(drawn)[1:])
    assert answer.exit_code == 0, answer.output
    assert Path("fl.png").is_file()
