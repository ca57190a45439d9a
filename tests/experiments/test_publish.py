"""Tables of results and the gallery: what the script writes is what is there."""

import json
import shlex
from itertools import pairwise

import pytest
from click.testing import CliRunner
from commands import parsed

from hopfed._lib.settings import to_plain, with_settings
from hopfed.errors import HopfedError
from hopfed.experiments import find, preset
from hopfed.experiments.publish import gallery, results
from hopfed.experiments.publish.results import FOLDER, ROOT, fill, keep, number, read
from hopfed.runs import Run

BY_NAME = {picture["name"]: picture for picture in gallery.PICTURES}
KEPT = {
    "kind": "toy",
    "config": {"seeds": 5},
    "summary": {
        "gain": [-0.0128, 0.0041],
        "one seed": [0.5, None],
        "rates": {"tw": [0.004, 0.011]},
    },
}


@pytest.mark.parametrize("page", results.PAGES)
def test_pages_are_what_the_script_writes(page):
    text = (ROOT / page).read_text()
    assert results.render(text, results.PAGES[page]) == text, f"{page}: run `make results`"


def test_rows_quote_runs_of_the_presets_they_name():
    for row in results.ROWS:
        kept = results.kept_by(row)
        words = shlex.split(results.command(row))
        assert parsed(words[1:]) == "run"
        start = preset(find(row["experiment"]), row.get("preset", "paper"))
        with_settings(start, [word for option, word in pairwise(words) if option == "--set"])
        wanted = json.loads(json.dumps(to_plain(start)))
        free = {"seeds", "data", "table", "sections"}  # said in the command
        for name in wanted.keys() & kept["config"].keys() - free:
            said = row.get("part") and f"{name}=" in results.command(row)
            assert said or kept["config"][name] == wanted[name], (row["experiment"], name)


def test_kept_files_are_as_the_script_writes_them():
    for path in sorted(FOLDER.glob("*.json")):
        kept = json.loads(path.read_text())
        written = json.dumps(results._rounded(kept), indent=1, sort_keys=True) + "\n"
        assert written == path.read_text()
        assert path.stem == kept["kind"] or path.stem.startswith(f"{kept['kind']}_")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{gain|3}", "-.013±.004"),
        ("{gain|1 % +} points", "-1.3±.4 points"),
        ("{one seed|3}", ".500"),
        ("{rates/tw|1 % range}%", ".4 to 1.1%"),
        ("{config/seeds} draws", "5 draws"),
    ],
)
def test_quotes(template, text):
    assert fill(template, KEPT) == text
    with pytest.raises(HopfedError, match="in the kept summary of toy"):
        fill("{gian}", KEPT)
    with pytest.raises(ValueError, match="'men' says nothing"):
        fill("{gain|2 men}", KEPT)
    assert number(0.9999, 3) == "1.000"  # not a whole number, and so not printed as one


def test_keeping_a_run(tmp_path):
    config, summary = {"data": str(tmp_path / "x.npz"), "lr": 0.1}, {"test": [1 / 3, None]}
    Run("fl", config, {}, summary).save(tmp_path / "mine.h5")
    assert keep(tmp_path / "mine.h5", folder=tmp_path) == "fl_mine"
    kept = read("fl_mine", tmp_path)
    assert kept["config"] == {"data": "x.npz", "lr": 0.1}
    assert kept["summary"] == {"test": [0.333333, None]}
    with pytest.raises(HopfedError, match="nothing is kept of dance"):
        read("dance", tmp_path)
    assert CliRunner().invoke(results.main, ["--minutes", "3"]).exit_code


def test_commands_of_pictures_can_be_typed():
    for name, picture in BY_NAME.items():
        for command in gallery.commands(picture):
            program, *words = shlex.split(command)
            assert program in ("hopfed", "python")
            assert words
        last = gallery.commands(picture)[-1]
        assert f"{name}.png" in last or "hopfed.experiments.worked." in last
        assert (gallery.FOLDER / f"{name}.png").is_file()
    assert (gallery.FOLDER / "README.md").read_text() == gallery.index()
    first = gallery.commands(BY_NAME["structured"], "/data")[0]
    assert first.endswith("--set data=/data/caltech101_silhouettes_28.npz")


def test_pictures_that_are_missing_are_made_once(tmp_path, monkeypatch):
    dot = {"name": "dot", "caption": "A dot."}
    dot["commands"] = [
        """python -c "from matplotlib.figure import Figure; Figure().savefig('dot.png')" """
    ]
    broken = {"name": "broken", "caption": "None.", "commands": ["hopfed list no"]}
    monkeypatch.setattr(gallery, "PICTURES", [dot, broken])

    def call(*words):
        return CliRunner().invoke(gallery.main, [*words, "--folder", str(tmp_path)])

    answer = call()
    assert answer.exit_code == 1
    assert "broken: hopfed list no: " in answer.output
    assert "A dot." in (tmp_path / "README.md").read_text()
    assert "dot" not in call().output  # it is not made a second time
    assert "no picture 'dto'" in call("dto").output
