"""The pages of the project: links that lead somewhere, and a length that can be read."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^()\s]+)\)")
WORDS = 15_000  # an hour


def anchors(page):
    """Names of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"(?m)^#+ (.+)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def astray(path):
    """Links of a page that lead to no file, or to no heading of it."""
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        if "://" not in link:
            place, _, heading = link.partition("#")
            target = path.parent / place if place else path
            if not target.exists() or (heading and heading not in anchors(target)):
                yield link


@pytest.fixture(scope="module")
def pages():
    found = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True)
    if found.returncode or not found.stdout:
        pytest.skip("not a checkout")
    return found.stdout.split()


def test_no_link_leads_nowhere(pages):
    assert {path: found for path in pages if (found := list(astray(ROOT / path)))} == {}


def test_the_pages_can_be_read_in_an_hour(pages):
    words = {path: len((ROOT / path).read_text().split()) for path in pages}
    assert sum(words.values()) - words["CHANGELOG.md"] <= WORDS
    assert words["hopfed/pages/owners.md"] <= 1_200
    assert words["README.md"] < 900
