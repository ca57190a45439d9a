"""The page about runs: one file, whole, that a browser opens without a network."""

import base64
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from hopfed.cli import main
from hopfed.report.page import page
from hopfed.runs import Run


@pytest.fixture(scope="module")
def run_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, seeds in (("a", 2), ("b", 3)):
        settings = ["--set", "N=60", "--set", "M=100,200", "--seeds", str(seeds)]
        main(["run", "bbp", *settings, "--out", str(folder / f"{name}.h5")])
    return folder / "a.h5", folder / "b.h5"


class Page(HTMLParser):
    """Tags that are still open, and every address in the page."""

    def __init__(self, text):
        super().__init__()
        self.open, self.links, self.images, self.text = [], {}, [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "a":
            self.links[attrs["download"]] = attrs["href"]
        if tag == "img" and "src" in attrs:
            self.images.append(attrs["src"])
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def bytes_of(address):
    return base64.b64decode(address.partition("base64,")[2])


def test_a_page_is_whole_and_needs_nothing_else(hopfed, run_files, tmp_path):
    out = tmp_path / "page.html"
    status, text, _ = hopfed("report", run_files[0], "--out", out)
    assert (status, "wrote" in text) == (0, True)
    written = out.read_text()
    shown = Page(written)
    assert shown.open == []
    addresses = [*shown.images, *shown.links.values()]
    assert addresses
    assert all(a.startswith("data:") for a in addresses)
    assert not re.search(r'(src|href)="http', written)
    assert b"<svg" in bytes_of(shown.images[0])


def test_the_page_carries_the_data_of_the_run(run_files):
    run = Run.load(run_files[0])
    shown = Page(page({"a.h5": run}))
    assert json.loads(bytes_of(shown.links["a.json"]))["summary"] == run.summary
    with np.load(io.BytesIO(bytes_of(shown.links["a.npz"]))) as held:
        for name, array in run.arrays.items():
            np.testing.assert_array_equal(held[name.replace("/", ".")], array)
    for words in (run.provenance["numpy"], "N", "60"):
        assert words in shown.text


def test_two_runs_are_compared(hopfed, run_files, tmp_path):
    status, _, _ = hopfed("report", *run_files, "--out", tmp_path / "two.html")
    assert status == 0
    shown = Page((tmp_path / "two.html").read_text())
    assert "settings that differ" in shown.text
    assert {"a.npz", "b.npz"} <= set(shown.links)


def test_words_of_a_run_are_not_markup():
    run = Run("mine", {"note": "<script>alert(1)</script>"}, {"x": np.ones(1)}, {})
    assert "<script>alert" not in page({"x.h5": run})


def test_arrays_too_large_for_a_page_are_left_out():
    noise = np.random.default_rng(0).standard_normal(3_000_000)
    text = page({"x.h5": Run("mine", {}, {"x": noise}, {})})
    assert "too large" in text
    assert len(text) < 100_000
