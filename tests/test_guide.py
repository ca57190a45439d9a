"""The pages of the project as HTML: all of them, formulas drawn, no link that leads nowhere."""

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("mdit_py_plugins", reason="mdit-py-plugins is not installed")
pytest.importorskip("latex2mathml", reason="latex2mathml is not installed")

import guide

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guide")
    return folder, guide.build(ROOT, folder)


def test_no_link_leads_nowhere(built):
    assert built[1] == []


def test_every_page_of_the_project_is_there(built):
    found = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True)
    if found.returncode or not found.stdout:
        pytest.skip("not a checkout")
    assert set(found.stdout.split()) == set(guide.PAGES)
    for path in guide.PAGES:
        page = (built[0] / path).with_suffix(".html").read_text()
        assert page.count("aria-current=") == 1


def test_the_pages_can_be_read_in_an_hour():
    words = {path: len((ROOT / path).read_text().split()) for path in guide.PAGES}
    assert sum(words.values()) - words["CHANGELOG.md"] <= 15_000
    assert words["hopfed/pages/owners.md"] <= 1_200


def test_formulas_are_drawn(built):
    page = (built[0] / "theory/NOTES.html").read_text()
    assert page.count("<math") > 300
    assert "\\frac" not in page
    assert "\\lambda" not in page


def test_a_link_to_nothing_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(guide, "PAGES", {"README.md": "a", "b.md": "b"})
    (tmp_path / "README.md").write_text("# A\n[here](b.md#b-c) [no](b.md#d) [none](c.md) $x^2$\n")
    (tmp_path / "b.md").write_text("# B c\n[back](README.md) [away](https://example.org)\n")
    lost = guide.build(tmp_path, tmp_path / "out")
    assert lost == ["README.md: b.html#d", "README.md: c.html"]
