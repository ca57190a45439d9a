"""A first picture has at most six panels, legends, and text of 7 pt; the whole one has the rest."""

from dataclasses import replace
from functools import cache
from importlib.util import find_spec

import pytest
from helpers import rest_slow
from matplotlib.colors import to_hex
from matplotlib.legend import Legend
from matplotlib.text import Text

from hopfed.errors import ArgumentError
from hopfed.experiments import NAMES, find
from hopfed.experiments.runner import execute
from hopfed.figures import drawer, has_more_sections, new_figure, sections_drawer

MOST, PAGE, LEAST = 6, 180, 7  # panels, mm, points
SMALL = {
    "ablation": {"N": 100, "M": 300, "few": 3, "many": 6, "qualities": (0.6, 1.0)},
    "byzantine": {"attackers": (1, 2)},
    "capacity": {"N": 100, "loads": (0.03, 0.4), "cues": 5, "sizes": (100, 200, 400), "seeds": 2},
    "disentangle": {"N": 60, "starts": 2, "updates": 8},
    "drift": {"qualities": (0.6, 0.8)},
    "fedssa": {"models": ("mlp:8x16", "mlp:16"), "examples": 120},
    "knnper": {"examples": 150},
    "load": {"N": (60, 80, 100, 120), "loads": (0.05,)},
    "mp": {"N": 60, "N_test": 40, "ratios": (0.5, 1.0, 2.0, 4.0)},
    "oneshot": {"examples": 200, "filters": 8},
    "plan": {"seeds": 4},
    "scale": {"N": (100, 400), "M": (200, 100), "archetypes": 3},
    "tables": {"names": ("iris",)},
}
MORE = {  # panels of the whole picture
    "ablation": 27, "attacker": 12, "bbp": 7, "byzantine": 12, "capacity": 8, "cooperation": 9,
    "disentangle": 10, "drift": 28, "fedh2l": 6, "fedssa": 8, "knnper": 9, "load": 8, "mp": 7,
    "novelty": 12, "sohip": 8, "structured": 4,
}  # fmt: skip
NEURAL = {"sohip", "fedssa", "fedh2l", "knnper", "oneshot"}
LONG = {
    "ablation",
    "correlated_noise",
    "plan",
    "disentangle",
    "drift",
    "capacity",
    "scale",
    "sohip",
    "byzantine",
    "completion",
}
ORDERED = sorted(NAMES, key=LONG.__contains__)
pictured = pytest.mark.parametrize("name", rest_slow(ORDERED, len(NAMES) - len(LONG)))
needs_torch = pytest.mark.skipif(not find_spec("torch"), reason="needs the extra neural")


@cache
def small(name):
    """A small run of an experiment, drawn once for all tests."""
    if name in NEURAL:
        pytest.importorskip("torch", reason="needs the extra neural")
    module = find(name)
    config = replace(module.PRESETS["quick"], **({"seeds": 1} | SMALL.get(name, {})))
    return execute(module, config)


@cache
def first(name):
    return drawer(name)(small(name))


@cache
def whole(name):
    draw = drawer(name, whole=True)
    return first(name) if draw is drawer(name) else draw(small(name))


def panels(figure):
    """Number of panels: axes with data, but colour bars; a row of mosaics is one panel."""
    found = set()
    for axes in figure.axes:
        if not (axes.axison and axes.has_data()) or axes.get_label() == "<colorbar>":
            continue
        place = axes.get_subplotspec()
        mosaic = axes.images and not len(axes.get_xticks())
        found.add((id(place.get_gridspec()), place.rowspan.start) if mosaic else id(axes))
    return len(found)


def coloured(axes):
    """Whether curves of several colours, greys aside, are in a panel."""
    colours = {to_hex(line.get_color()) for line in axes.lines}
    return sum(len({c[1:3], c[3:5], c[5:7]}) > 1 for c in colours) > 1


@pictured
def test_pictures_have_few_panels_with_legends_and_text_that_is_legible(name):
    assert 0 < panels(first(name)) <= MOST
    assert has_more_sections(small(name)) == (name in MORE)
    assert panels(whole(name)) == MORE.get(name, panels(first(name)))
    for figure in (first(name), whole(name)):
        assert figure.get_size_inches()[0] * 25.4 <= PAGE + 1e-9
        texts = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]
        assert texts
        assert min(t.get_fontsize() for t in texts) >= LEAST
        if any(coloured(axes) for axes in figure.axes):
            assert figure.findobj(Legend)


def test_panels_are_counted_as_a_reader_would():
    figure = new_figure(100, 100)
    grid = figure.subplots(2, 3)
    for axes in grid[0]:
        axes.imshow([[0, 1]])
        axes.set(xticks=(), yticks=())
    figure.colorbar(grid[0, 0].images[0], ax=grid[1, 2])
    grid[1, 0].plot([1, 2])
    assert panels(figure) == 2
    assert not coloured(grid[1, 0])
    grid[1, 0].plot([2, 1])
    assert coloured(grid[1, 0])


@needs_torch
def test_sections_are_drawn_by_name():
    run = small("knnper")
    draw = sections_drawer("knnper")
    figure = draw(run, ["stream", "k"])
    assert [axes.get_title() for axes in figure.axes if axes.axison] == ["stream", "k"]
    assert figure.axes[1].get_xlabel() == "neighbours"
    for wrong in (["dance"], [], ["k"] * 7):
        with pytest.raises(ArgumentError, match="sections must be one to 6 of"):
            draw(run, wrong)
    assert sections_drawer("bbp") is None
