"""Pages about runs: whole, harmless, with their data; of a recovery the answer and its rows."""

import base64
import io
import json
import re
from hashlib import sha256
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers import lines_of, written

from hopfed import load
from hopfed.cli import main
from hopfed.errors import RunFileError
from hopfed.experiments import bbp
from hopfed.experiments.machinery.runner import execute
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.report.page import assign_rows, report_page
from hopfed.runs import Run

HOSTILE = "chess</script><script>alert(1)</script>\"'\x1b[31m\u202e<img src=x onerror=alert(1)>"
RATES = np.linspace(0.75, 0.98, 12)  # of one kind of people, in each column


class Page:
    """Elements, attributes, tables, and the text of a page that is well formed."""

    def __init__(self, text):
        text = text[text.index("<html") :].replace(" hidden>", ' hidden="">')
        for found, made in (
            (r"<((?:meta|img|input)\b[^>]*)>", r"<\1/>"),
            (r"(?s)<(script|style)>(.*?)</\1>", r"<\1><![CDATA[\2]]></\1>"),
        ):
            text = re.sub(found, made, text)
        self.root = ElementTree.fromstring(text)
        self.text = "".join(self.root.itertext())
        names = {name for element in self.root.iter() for name in element.attrib}
        assert not [name for name in names if name.startswith("on") or name == "style"]
        ids = self.of("id")
        assert len(set(ids)) == len(ids)
        assert all(address.startswith("data:") for address in (*self.of("src"), *self.of("href")))

    def of(self, name):
        return [e.attrib[name] for e in self.root.iter() if name in e.attrib]

    def inner(self, tag):
        return ["".join(element.itertext()) for element in self.root.iter(tag)]

    def data(self, name):
        """What a link of this name downloads."""
        link = self.root.find(f".//a[@download='{name}']")
        return base64.b64decode(link.get("href").partition("base64,")[2])

    @property
    def tables(self):
        return [
            [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]
            for table in self.root.iter("table")
        ]

    def table(self, *heads):
        """Lines below the first table whose heads begin so."""
        return next(t[1:] for t in self.tables if t[0][: len(heads)] == list(heads))


def harmless(text):
    """Check that a page is well formed, and that it neither loads nor runs what is not its own."""
    shown = Page(text)
    (policy,) = (value for value in shown.of("content") if "default-src" in value)
    kept = dict(part.split(" ", 1) for part in policy.split("; "))
    assert kept["default-src"] == "'none'"
    for tag in ("script", "style"):
        (inner,) = shown.inner(tag)
        fingerprint = base64.b64encode(sha256(inner.encode()).digest()).decode()
        assert kept[f"{tag}-src"] == f"'sha256-{fingerprint}'"
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    return shown


def survey(path, rows, seed):
    """Write two kinds of people with gaps and names that would be markup; return the kinds."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=rows)
    rate = np.where(kind[:, None] == np.arange(12) % 2, RATES, 0.1)
    cells = np.where(rng.random(rate.shape) < rate, "yes", "no").astype(object)
    cells[rng.random(rate.shape) < 0.1] = ""
    head = ["person", HOSTILE, *(f"club {j}" for j in range(2, 13))]
    written(path, head, ([f"<b>{seed}-{i}</b>", *row] for i, row in enumerate(cells)))
    return kind


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Two tables of a graded channel, the run of their recovery, and the kinds of their rows."""
    folder = tmp_path_factory.mktemp("people")
    files = folder / "a<b>.csv", folder / "b.csv"
    kinds = survey(files[0], 350, 0), survey(files[1], 450, 1)
    main(["recover", *map(str, files), "--channel", "graded", "--out", str(folder / "run.h5")])
    return files, folder / "run.h5", np.concatenate(kinds)


def reported(path, *rows):
    return report_page({path.name: Run.load(path)}, assign_rows(load(path), rows) if rows else None)


def test_pages_of_runs_carry_their_data_and_figures_and_compare_them():
    runs = {}
    for name, seeds in (("a.h5", 2), ("b.h5", 3)):
        runs[name] = execute(bbp, bbp.Config(N=60, M=(100, 200), seeds=seeds))
    run, text = runs["a.h5"], report_page(runs)
    shown = harmless(text)
    assert 'src="data:image/svg+xml;base64,' in text
    assert "settings that differ" in shown.text
    assert {"a.npz", "b.npz"} <= set(shown.of("download"))
    assert json.loads(shown.data("a.json"))["summary"] == run.summary
    with np.load(io.BytesIO(shown.data("a.npz"))) as held:
        for name, array in run.arrays.items():
            np.testing.assert_array_equal(held[name.replace("/", ".")], array)
    assert run.provenance["numpy"] in shown.text
    assert ["N", "60"] in shown.table("setting")
    harmless(report_page({"x.h5": Run("mine", {"note": HOSTILE}, {"x": np.ones(1)}, {})}))
    noise = np.random.default_rng(0).standard_normal(3_000_000)
    text = report_page({"x.h5": Run("mine", {}, {"x": noise}, {})})
    assert "too large" in text
    assert len(text) < 100_000


def test_a_graded_page_opens_with_the_answer(people):
    (first, _), run, kind = people
    found, text = load(run), reported(run)
    shown = harmless(text)
    assert shown.inner("h3") == ["Archetypes", "Spectrum", "Columns", "Clients"]
    opened = text.index('<p class="answer">2 archetypes, in 800 rows of 2 clients')
    assert opened < text.index("Archetype 1")
    assert f"Verdict: {found.status}. {found.advice}" in shown.text
    lines = {line[0]: line[1:] for line in shown.table("column", "+1 here", "95% interval")}
    for name, j in (("club 2", 1), ("club 3", 2), ("club 4", 3)):
        ends = (1 + found.means[0, j] + np.array([0, -1.96, 1.96]) * found.errors[0, j]) / 2
        middle, low, high = (f"{x:.1%}" for x in ends.clip(0, 1))
        assert (*lines[name][:2], lines[name][-1]) == (middle, f"{low} to {high}", "yes")
    (name, rows, _, *shares), other = shown.table("client", "rows", "bytes sent")
    assert (name, rows, other[1]) == (first.name, "350", "450")
    counted = sorted(np.bincount(kind[:350]) / 350)
    assert sorted(float(s[:-1]) / 100 for s in shares) == pytest.approx(counted, abs=0.05)


def test_a_symmetric_page_and_one_of_an_older_file(tmp_path):
    """Of a table of the symmetric channel without names."""
    rows, path, rng = tmp_path / "x.npy", tmp_path / "run.h5", np.random.default_rng(1)
    np.save(rows, draw_examples(rademacher(3, 120, rng), 500, 0.8, rng)[0])
    how = ("--channel", "symmetric", "--clients", "3", "--out", str(path))
    main(["recover", str(rows), *how])
    run, shown = Run.load(path), harmless(reported(path))
    assert shown.inner("h3") == ["Archetypes", "Spectrum", "Clients"]
    assert "3 archetypes, in 500 rows of 3 clients with 120 columns." in shown.text
    assert f"threshold of {run.summary['threshold']:.4g}" in shown.text
    kept = ("n_archetypes", "n_detected", "quality", "explained", "status", "advice")
    arrays = {n: a for n, a in run.arrays.items() if n.startswith("archetypes/")}
    old = Run("recover", {}, arrays, {name: run.summary[name] for name in kept})
    old.save(tmp_path / "old.h5")
    shown = harmless(reported(tmp_path / "old.h5", rows))
    assert shown.inner("h3") == ["Archetypes", "Rows by archetype"]
    assert "3 archetypes, in 120 columns." in shown.text
    assert len(shown.table("id", "archetype")) == 500


def test_rows_are_those_that_assign_gives_and_names_of_strangers_are_text(people):
    files, run, _ = people
    text = reported(run, *files)
    shown = harmless(text)
    assert not [markup for markup in ("<script>alert", "<img src=x", "<b>") if markup in text]
    assert any(cell.startswith("chess</script>") for t in shown.tables for row in t for cell in row)
    lines = shown.table("file", "id", "archetype", "probability", "gaps")
    archetype = np.concatenate([load(run).assign(path).archetype for path in files])
    kinds = [str(k + 1) if k >= 0 else "none of these" for k in archetype]
    assert [line[2] for line in lines] == kinds
    assert lines[0][:2] == ["a<b>.csv", "<b>0-0</b>"]
    assert lines[350][:2] == ["b.csv", "<b>1-0</b>"]
    gaps = [row.count("") for path in files for row in lines_of(path)[1:]]
    assert [int(line[4]) for line in lines] == gaps
    assert f"{sum(gaps):,} of 9,600 entries are missing" in shown.text
    counts = shown.table("archetype", "rows", "share", "a<b>.csv", "b.csv")
    assert [sum(int(line[i]) for line in counts) for i in (1, 3)] == [800, 350]


def test_a_run_that_does_not_fit_together_is_refused(people):
    run = Run.load(people[1])
    run.arrays["archetypes/errors"] = run.arrays["archetypes/errors"][:, 1:]
    with pytest.raises(RunFileError, match=r"odd\.h5: not archetypes"):
        report_page({"odd.h5": run})
