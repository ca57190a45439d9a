"""The READMEs quote kept summaries, and these are of the runs that they name."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hopfed._lib.settings import to_plain
from hopfed.errors import HopfedError, RunFileError
from hopfed.experiments import find
from hopfed.experiments.publish import results
from hopfed.experiments.publish.results import fill, number
from hopfed.experiments.publish.summaries import FOLDER, dump, keep, read
from hopfed.runs import Run

ROOT = Path(__file__).parents[2]
BENCH = ("bench", "bench_recover")  # as `hopfed bench --json` prints them

KEPT = {
    "kind": "toy",
    "config": {"seeds": 5},
    "summary": {
        "gain": [-0.0127, 0.004],
        "one seed": [0.5, None],
        "kept/w = 0": 1.0,
        "rates": {"tw_0.01": [0.004, 0.0115]},
        "source": "letters",
    },
}


@pytest.mark.parametrize("page", results.PAGES)
def test_pages_are_what_the_script_writes(page):
    text = (ROOT / page).read_text()
    assert results.render(text, results.PAGES[page]) == text, f"{page}: run `make results`"


@pytest.mark.parametrize("row", results.ROWS, ids=lambda row: f"{row['experiment']}")
def test_a_row_quotes_a_run_of_the_preset_it_names(row):
    kept = results.kept_by(row)
    wanted = to_plain(find(row["experiment"]).PRESETS[row.get("preset", "paper")])
    wanted = json.loads(json.dumps(wanted))
    # The command in the row says these; sweeps may be added.
    free = {"seeds", "data", "table", "sections"}
    if row["table"] == "neural methods":  # a command of one preset
        assert "--set" not in results.command(row).replace("--set data=FILE", "")
    for name in wanted.keys() & kept["config"].keys() - free:
        said = row.get("part") and f"{name}=" in results.command(row)
        assert said or kept["config"][name] == wanted[name], name


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_kept_files_are_as_the_script_writes_them(path):
    kept = json.loads(path.read_text())
    if path.stem in BENCH:
        assert {"machine"} < set(kept)
        return
    assert dump(kept) == path.read_text()
    assert path.stem == kept["kind"] or path.stem.startswith(f"{kept['kind']}_")
    assert kept["summary"]


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{gain|3}", "-.013 +- .004"),
        ("{gain|1 % +} points", "-1.3 +- .4 points"),
        ("{gain|2 mean}", "-.01"),
        ("{one seed|3}", ".500"),
        ("{kept/w = 0|3}", "1"),
        ("{rates/tw_0.01|1 % range}%", ".4 to 1.1%"),
        ("{config/seeds} of {source}", "5 of letters"),
    ],
)
def test_quotes(template, text):
    assert fill(template, KEPT) == text


def test_quotes_that_cannot_be_filled():
    for template in ("{gian}", "{rates/tw_0.05}", "{config/seed}"):
        with pytest.raises(HopfedError, match="in the kept summary of toy"):
            fill(template, KEPT)
    with pytest.raises(ValueError, match="'men' says nothing"):
        fill("{gain|2 men}", KEPT)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0.9999, 3), "1.000"),  # not a whole number, and so not printed as one
        ((1.0, 3), "1"),
        ((-0.25, 2), "-.25"),
        ((0.25, 2, True), "+.25"),
        ((100 * 0.07, 1), "7"),
        ((12345.6, 0), "12,346"),
    ],
)
def test_numbers(arguments, text):
    assert number(*arguments) == text


def test_a_place_that_is_missing_is_one_line():
    with pytest.raises(HopfedError, match="one place for 'pairs'"):
        results.render("no comments here", {"pairs": results.pairs})


def test_keeping_a_run(tmp_path):
    config, summary = {"data": str(tmp_path / "x.npz"), "lr": 0.1}, {"test": [1 / 3, None]}
    Run("fl", config, {}, summary).save(tmp_path / "mine.h5")
    Run("dance", {}, {}, {"m": 1}).save(tmp_path / "other.h5")
    Run("dance", {}, {}, {}, planned=2).save(tmp_path / "half.h5")
    assert keep(tmp_path / "mine.h5", 2.5, folder=tmp_path) == "fl_mine"
    assert keep(tmp_path / "other.h5", folder=tmp_path) == "dance"
    kept = read("fl_mine", tmp_path)
    assert kept["config"] == {"data": "x.npz", "lr": 0.1}
    assert kept["summary"] == {"test": [0.333333, None]}
    assert (kept["minutes"], "minutes" in read("dance", tmp_path)) == (2.5, False)
    with pytest.raises(RunFileError, match="interrupted"):
        keep(tmp_path / "half.h5", folder=tmp_path)


def test_the_command(tmp_path, monkeypatch):
    for page in results.PAGES:
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / page).write_text((ROOT / page).read_text())
    stale = tmp_path / "experiments/README.md"
    text = stale.read_text()
    stale.write_text(text.replace("| `hopfed run bbp", "| `stale"))
    monkeypatch.setattr(results, "ROOT", tmp_path)
    answer = CliRunner().invoke(results.main, [])
    assert (answer.exit_code, stale.read_text()) == (0, text)
    for arguments in (["absent.h5"], ["--minutes", "3"]):
        answer = CliRunner().invoke(results.main, arguments)
        assert answer.exit_code
        assert "Error: " in answer.output
    assert stale.read_text() == text


def test_a_command_tells_the_seeds_of_its_run(monkeypatch):
    plain = to_plain(find("mp").PRESETS["quick"])
    for more, words in (({}, ""), ({"seeds": 3}, " --seeds 3"), ({"first_seed": 100}, "100:")):
        kept = {"config": plain | more, "summary": {}}
        monkeypatch.setattr(results, "kept_by", lambda _, kept=kept: kept)
        said = results.command({"experiment": "mp", "preset": "quick"})
        assert words in said
        assert ("--seeds" in said) == bool(more)
        assert "first_seed" not in said
