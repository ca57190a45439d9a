"""Runs with settings other than those of presets are drawn too."""

from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.text import Text

from hopfed.experiments import find
from hopfed.experiments.runner import execute
from hopfed.figures import archetypes, disentangle, drawer, new_figure
from hopfed.figures._planes import draw as draw_planes
from hopfed.figures.partition import draw as draw_partition
from hopfed.runs import Run

needs_torch = pytest.mark.skipif(not find_spec("torch"), reason="needs the extra neural")


@cache
def quick(name, **settings):
    module = find(name)
    return execute(module, replace(module.PRESETS["quick"], seeds=1, **settings))


def words(figure):
    figure.canvas.draw()
    return [t.get_text() for t in figure.findobj(Text)]


@pytest.mark.parametrize(
    ("methods", "reference"), [(("nmf", "k-means"), "hopfed"), (("one class",), "one class")]
)
def test_tables_without_the_rival_are_compared_to_hopfed(methods, reference):
    figure = drawer("tables")(quick("tables", names=("iris",), methods=methods))
    assert f"held-out nats an entry, over {reference}" in words(figure)


def test_an_infinite_number_of_degrees_of_freedom_is_named():
    run = quick("heavy_tails", N=40, exposures=(60, 40), degrees=(np.inf,), ratios=(0.5,))
    assert any("= $\\infty$, q = 0.5" in w for w in words(drawer("heavy_tails")(run)))


def test_a_calibration_without_points_is_an_empty_panel():
    run = quick("participation", rounds=2, rates=(1.0,), late=(0.0,), N=64, clients=4)
    far = {n: np.full_like(a, -np.inf) for n, a in run.arrays.items() if n.endswith("distance")}
    figure = drawer("participation")(replace(run, arrays=dict(run.arrays) | far))
    assert figure.axes[0].get_legend_handles_labels()[1][-1] == "all in time"


def test_one_plane_is_drawn():
    figure = new_figure(60, 60)
    draw_planes(figure.subfigures(1, 1), [("alone", np.full((2, 3, 3), 1))], "client")
    assert [axes.get_title() for axes in figure.axes] == ["alone"]


@pytest.mark.parametrize(("layers", "shown"), [((3, 1, 2), ["3", "2"]), ((1,), [])])
def test_layers_are_drawn_in_their_order(layers, shown):
    apart = np.random.default_rng(0).random((2, len(layers), len(disentangle.LAYER_PARTS), 3))
    run = SimpleNamespace(config={"layers": layers}, arrays={"layers/apart": apart})
    axes = new_figure(60, 60).subplots()
    disentangle._by_layers(axes, run)
    meshes = [mesh for mesh in axes.collections if isinstance(mesh, QuadMesh)]
    assert len(meshes) == bool(shown)
    if shown:
        assert [t.get_text() for t in axes.get_xticklabels()] == shown
        share = apart.mean(axis=0).max(axis=-1)[[0, 2]]
        np.testing.assert_array_equal(meshes[0].get_array(), share.T)


@needs_torch
def test_names_with_dollars_start_no_formula():
    counts = np.array([[1, 2], [3, 4]])
    data = SimpleNamespace(name="a $ and a $", class_names=("$x_$", "y"))
    partition = SimpleNamespace(
        counts=lambda: counts,
        dataset=data,
        sizes=np.ones((2, 3)),
        names=("$1", "$2"),
        unused=0,
        scheme="iid",
    )
    assert r"\$x_\$" in words(draw_partition(partition))


def test_archetypes_whose_shares_nobody_knows_are_numbered_only():
    """As those of a federation of signs; the labels read "1 nan%"."""
    means, shares = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.full(2, np.nan)
    arrays = {"archetypes/means": means, "archetypes/shares": shares}
    said = words(archetypes.draw(Run("recover", {}, arrays, {})))
    assert {"1", "2", "archetype"} <= set(said)
    assert not [w for w in said if "nan" in w or "share" in w]
