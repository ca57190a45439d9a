"""Tables of results and the gallery: what the script writes is what is there."""

import json
import shlex

import pytest
from commands import parsed

from hopfed._lib.settings import describe, to_plain, with_settings
from hopfed.errors import HopfedError
from hopfed.experiments import find_experiment, preset
from hopfed.experiments.publish import gallery, results
from hopfed.experiments.publish.results import (
    FOLDER,
    ROOT,
    fill_template,
    format_number,
    keep_summary,
    read_summary,
)
from hopfed.runs import Run

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


def test_rows_quote_runs_of_their_commands():
    for row in (row for row in results.ROWS if "command" in row):
        kept, words = results.summary_of_row(row)["config"], shlex.split(f"run {row['command']}")
        assert parsed(words) == "run"
        said = dict(zip(words[2::2], words[3::2], strict=True))
        given = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
        wanted = to_plain(with_settings(preset(find_experiment(words[1]), said["--preset"]), given))
        first, _, end = said.get("--seeds", str(wanted["seeds"])).rpartition(":")
        assert (kept.get("first_seed", 0), kept["seeds"]) == (
            int(first or 0),
            int(end) - int(first or 0),
        )
        for name in wanted.keys() & kept.keys() - {"seeds", "data"}:
            assert describe(kept[name]) == describe(wanted[name]), (row["experiment"], name)


def test_quotes():
    for template, text in (
        ("{gain|3}", "-.013±.004"),
        ("{gain|1 % +} points", "-1.3±.4 points"),
        ("{one seed|3}", ".500"),
        ("{rates/tw|1 % range}%", ".4 to 1.1%"),
        ("{config/seeds} draws", "5 draws"),
    ):
        assert fill_template(template, KEPT) == text
    with pytest.raises(HopfedError, match="in the kept summary of toy"):
        fill_template("{gian}", KEPT)
    assert format_number(0.9999, 3) == "1.000"  # not a whole number, and so not printed as one


def test_keeping_a_run(tmp_path):
    config, summary = {"data": str(tmp_path / "x.npz"), "lr": 0.1}, {"test": [1 / 3, None]}
    for file, name in (("fl_mine.h5", "fl_mine"), ("mine.h5", "fl")):
        Run("fl", config, {}, summary).save(tmp_path / file)
        assert keep_summary(tmp_path / file, tmp_path) == name
        kept = read_summary(name, tmp_path)
        assert kept["config"] == {"data": "x.npz", "lr": 0.1}
        assert kept["summary"] == {"test": [0.333333, None]}
    with pytest.raises(HopfedError, match="no summary of dance is kept"):
        read_summary("dance", tmp_path)
    for path in FOLDER.glob("*.json"):  # what is kept is as it is written
        assert results.summary_text(json.loads(path.read_text())) == path.read_text()


def test_commands_of_pictures_can_be_typed(monkeypatch):
    monkeypatch.setenv("HOPFED_DATA", "/data")
    pictures = gallery.picture_commands()
    assert pictures["tables"][0].endswith("--preset paper --out tables.h5 --set data=/data/tables")
    assert pictures["mp"][0] == "hopfed run mp --preset quick --out mp.h5"
    assert {path.stem for path in gallery.FOLDER.glob("*.png")} == set(pictures)
    for name, commands in pictures.items():
        assert {shlex.split(command)[0] for command in commands} <= {"hopfed", "python"}
        assert f"{name}.png" in commands[-1] or "hopfed.experiments.worked." in commands[-1]


def test_pictures_that_are_missing_are_made_once(tmp_path, capsys):
    dot = """python -c "from matplotlib.figure import Figure; Figure().savefig('dot.png')" """
    (tmp_path / "README.md").write_text(
        f"# All\n\n## dot\n\nA dot.\n\n    $ {dot}\n\n## broken\n\nNo.\n\n    $ hopfed list no\n"
    )
    for again in (False, True):
        with pytest.raises(HopfedError, match="hopfed list no: "):
            gallery.main(tmp_path)
        assert ("dot: " in capsys.readouterr().out) is not again
