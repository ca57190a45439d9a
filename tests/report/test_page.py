"""Pages about runs: whole, harmless, with their data; of a recovery the answer and its rows."""

import base64
import csv
import io
import json
import re
from hashlib import sha256
from html.parser import HTMLParser

import numpy as np
import pytest

from hopfed import load
from hopfed.cli import main
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.report.page import page
from hopfed.runs import Run

HOSTILE = "chess</script><script>alert(1)</script>\"'\x1b[31m\u202e<img src=x onerror=alert(1)>"
RATES = np.linspace(0.75, 0.98, 12)  # of one kind of people, in each column
EMPTY = {"meta", "img", "input"}


class Page(HTMLParser):
    """Tags that are still open, ids, tables, addresses, handlers, and the text of some tags."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.addresses, self.handlers, self.tables = [], [], [], [], []
        self.inner = {"h3": [], "script": [], "style": []}
        self.text, self.policy, self.data = "", "", {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        held = dict(attrs)
        self.ids += [held["id"]] if "id" in held else []
        self.addresses += [held[name] for name in ("src", "href") if name in held]
        if "download" in held:
            self.data[held["download"]] = base64.b64decode(held["href"].partition("base64,")[2])
        self.handlers += [name for name in held if name.startswith("on") or name == "style"]
        if held.get("http-equiv") == "Content-Security-Policy":
            self.policy = held["content"]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag in self.inner:
            self.inner[tag].append("")
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        for tag in set(self.inner) & set(self.open):
            self.inner[tag][-1] += data
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data

    def table(self, *heads):
        """Lines below the first table whose heads begin so."""
        return next(t[1:] for t in self.tables if t[0][: len(heads)] == list(heads))


def harmless(text):
    """Check that a page is well formed, and that it neither loads nor runs what is not its own."""
    shown = Page(text)
    assert shown.open == shown.handlers == []
    assert len(set(shown.ids)) == len(shown.ids)
    assert all(address.startswith("data:") for address in shown.addresses)
    kept = dict(part.split(" ", 1) for part in shown.policy.split("; "))
    assert kept["default-src"] == "'none'"
    for tag in ("script", "style"):
        (inner,) = shown.inner[tag]
        fingerprint = base64.b64encode(sha256(inner.encode()).digest()).decode()
        assert kept[f"{tag}-src"] == f"'sha256-{fingerprint}'"
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    return shown


def survey(path, rows, seed, rates=RATES):
    """Write two kinds of people with gaps and names that would be markup; return the kinds."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=rows)
    rate = np.where(kind[:, None] == np.arange(12) % 2, rates, 0.1)
    cells = np.where(rng.random(rate.shape) < rate, "yes", "no").astype(object)
    cells[rng.random(rate.shape) < 0.1] = ""
    head = ["person", HOSTILE, *(f"club {j}" for j in range(2, 13))]
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(head)
        out.writerows([f"<b>{seed}-{i}</b>", *row] for i, row in enumerate(cells))
    return kind


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Two tables of a graded channel, the run of their recovery, and the kinds of their rows."""
    folder = tmp_path_factory.mktemp("people")
    files = folder / "a<b>.csv", folder / "b.csv"
    kinds = [
        survey(path, m, seed) for seed, (path, m) in enumerate(zip(files, (350, 450), strict=True))
    ]
    main(["recover", *map(str, files), "--channel", "graded", "--out", str(folder / "run.h5")])
    return files, folder / "run.h5", np.concatenate(kinds)


@pytest.fixture(scope="module")
def symmetric(tmp_path_factory):
    """A table of the symmetric channel without names, and the run of its recovery."""
    folder = tmp_path_factory.mktemp("symmetric")
    rng = np.random.default_rng(1)
    np.save(folder / "x.npy", draw_examples(rademacher(3, 120, rng), 500, 0.8, rng)[0])
    arguments = ["--channel", "symmetric", "--clients", "3", "--out", str(folder / "run.h5")]
    main(["recover", str(folder / "x.npy"), *arguments])
    return folder / "x.npy", folder / "run.h5"


@pytest.fixture
def reported(hopfed, tmp_path):
    """Write a page, and return it."""

    def report(run, *rows):
        options = [word for path in rows for word in ("--rows", path)]
        out = ("--out", tmp_path / "page.html", "--overwrite")
        hopfed.done("report", run, *options, *out)
        return (tmp_path / "page.html").read_text(encoding="utf-8")

    return report


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of one experiment."""
    folder = tmp_path_factory.mktemp("runs")
    for name, seeds in (("a", 2), ("b", 3)):
        settings = ["--set", "N=60", "--set", "M=100,200", "--seeds", str(seeds)]
        main(["run", "bbp", *settings, "--out", str(folder / f"{name}.h5")])
    return folder / "a.h5", folder / "b.h5"


def test_a_page_carries_the_data_and_the_figure_of_a_run(runs, reported):
    run, text = Run.load(runs[0]), reported(runs[0])
    shown = harmless(text)
    assert 'src="data:image/svg+xml;base64,' in text
    assert json.loads(shown.data["a.json"])["summary"] == run.summary
    with np.load(io.BytesIO(shown.data["a.npz"])) as held:
        for name, array in run.arrays.items():
            np.testing.assert_array_equal(held[name.replace("/", ".")], array)
    assert run.provenance["numpy"] in shown.text
    assert ["N", "60"] in shown.table("setting")


def test_runs_are_compared_and_what_they_hold_is_no_markup(runs):
    shown = harmless(page({path.name: Run.load(path) for path in runs}))
    assert "settings that differ" in shown.text
    assert {"a.npz", "b.npz"} <= set(shown.data)
    harmless(page({"x.h5": Run("mine", {"note": HOSTILE}, {"x": np.ones(1)}, {})}))
    noise = np.random.default_rng(0).standard_normal(3_000_000)
    text = page({"x.h5": Run("mine", {}, {"x": noise}, {})})
    assert "too large" in text
    assert len(text) < 100_000


def test_a_graded_page_opens_with_the_answer(people, reported):
    (first, _), run, kind = people
    found, text = load(run), reported(run)
    shown = harmless(text)
    assert shown.inner["h3"] == ["Archetypes", "Spectrum", "Columns", "Clients"]
    opened = text.index('<p class="answer">2 archetypes, in 800 rows of 2 clients')
    assert opened < text.index("Archetype 1")
    assert f"Verdict: {found.status}. {found.advice}" in shown.text
    assert found.summary().splitlines()[1] in shown.text
    lines = {line[0]: line[1:] for line in shown.table("column", "+1 here", "95% interval")}
    for name, j in (("club 2", 1), ("club 3", 2), ("club 4", 3)):
        middle, margin = (1 + found.means[0, j]) / 2, 1.96 * found.errors[0, j] / 2
        low, high = max(middle - margin, 0), min(middle + margin, 1)
        rate, interval, *_, plus = lines[name]
        assert (rate, interval, plus) == (f"{middle:.1%}", f"{low:.1%} to {high:.1%}", "yes")
    (name, rows, _, *shares), other = shown.table("client", "rows", "bytes sent")
    assert (name, rows, other[1]) == (first.name, "350", "450")
    counted = sorted(np.bincount(kind[:350]) / 350)
    assert sorted(float(s[:-1]) / 100 for s in shares) == pytest.approx(counted, abs=0.05)


def test_a_symmetric_page(symmetric, reported):
    _, run = symmetric
    shown = harmless(reported(run))
    assert shown.inner["h3"] == ["Archetypes", "Spectrum", "Clients"]
    assert "3 archetypes, in 500 rows of 3 clients with 120 columns." in shown.text
    assert f"threshold of {Run.load(run).summary['threshold']:.4g}" in shown.text
    assert shown.table("column", "+1 here", "elsewhere")[0][0].startswith("column ")


def test_rows_are_those_that_assign_gives_and_names_of_strangers_are_text(people, reported):
    files, run, _ = people
    found, text = load(run), reported(run, *files)
    shown = harmless(text)
    for markup in ("<script>alert", "<img src=x", "<b>"):
        assert markup not in text
    assert any(cell.startswith("chess</script>") for t in shown.tables for row in t for cell in row)
    assert shown.inner["h3"][1] == "Rows by archetype"
    lines = shown.table("file", "id", "archetype", "probability", "gaps")
    want = [found.assign(path) for path in files]
    archetype = np.concatenate([a.archetype for a in want])
    kinds = [str(k + 1) if k >= 0 else "none of these" for k in archetype]
    assert [line[2] for line in lines] == kinds
    assert lines[0][:2] == ["a<b>.csv", "<b>0-0</b>"]
    assert lines[350][:2] == ["b.csv", "<b>1-0</b>"]
    rows = [list(csv.reader(path.read_text(encoding="utf-8").splitlines()))[1:] for path in files]
    gaps = [row.count("") for part in rows for row in part]
    assert [int(line[4]) for line in lines] == gaps
    assert f"{sum(gaps):,} of 9,600 entries are missing" in shown.text
    counts = shown.table("archetype", "rows", "share", "a<b>.csv", "b.csv")
    assert [sum(int(line[i]) for line in counts) for i in (1, 3)] == [800, 350]


def test_what_older_files_lack_is_left_out(symmetric, reported, tmp_path):
    rows, path = symmetric
    run = Run.load(path)
    kept = ("n_archetypes", "n_detected", "quality", "explained", "status", "advice")
    arrays = {n: a for n, a in run.arrays.items() if n.startswith("archetypes/")}
    old = Run("recover", {}, arrays, {name: run.summary[name] for name in kept})
    old.save(tmp_path / "old.h5")
    shown = harmless(reported(tmp_path / "old.h5", rows))
    assert shown.inner["h3"] == ["Archetypes", "Rows by archetype"]
    assert "3 archetypes, in 120 columns." in shown.text
    assert len(shown.table("id", "archetype")) == 500


def test_a_run_that_does_not_fit_together_is_refused(people, hopfed, tmp_path):
    run = Run.load(people[1])
    run.arrays["archetypes/errors"] = run.arrays["archetypes/errors"][:, 1:]
    run.save(tmp_path / "odd.h5")
    error = hopfed.refused("report", tmp_path / "odd.h5", "--out", tmp_path / "odd.html")
    assert "odd.h5: not archetypes" in error
