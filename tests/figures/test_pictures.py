"""Pictures: kinds of panels, at most six at first, legends, legible text, a style of their own."""

from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.text import Text

from hopfed import recover
from hopfed.experiments.machinery.pictures import draw_runs, has_more_sections
from hopfed.figures import recovery, save
from hopfed.figures.kinds import draw_page, error_bars, heat_map, line_plot, mosaic, scatter
from hopfed.figures.partition import draw as draw_partition
from hopfed.hopfield.channel import small_sample
from hopfed.runs import Run

SEEDS = np.array([[1.0, 2.0, 4.0], [3.0, 4.0, 8.0]])


def words(figure):
    figure.canvas.draw()
    return [t.get_text() for t in figure.findobj(Text) if t.get_visible()]


def test_means_and_bands_are_those_of_the_seeds():
    figure = draw_page([line_plot("a", [1, 2, 3], {"x": SEEDS}, {"x": [1, 1, 1]}, band="range")])
    axes = figure.axes[0]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [2, 3, 6])
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), [1, 1, 1])
    assert axes.lines[0].get_color() == axes.lines[1].get_color()
    band = axes.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (1, 8)
    bars = draw_page(
        [line_plot("b", ["u", "v", "w"], {"x": SEEDS}, points=True, band="error")]
    ).axes[0]
    (low, high) = bars.collections[0].get_segments()[2][:, 1]
    assert (low, high) == (6 - 2, 6 + 2)  # sd of 4 and 8 over the root of 2
    assert [t.get_text() for t in bars.get_xticklabels()] == ["u", "v", "w"]
    row = draw_page([error_bars("c", ["p", "q", "r"], {"": SEEDS}, each=True)]).axes[0]
    assert [t.get_text() for t in row.get_yticklabels()] == ["p", "q", "r"]


def test_a_page_has_six_panels_and_all_if_it_is_whole():
    panels = [line_plot(str(i), [1, 2], {"x": [1, 2], "y": [2, 1]}) for i in range(8)]
    for whole, count in ((False, 6), (True, 8)):
        figure = draw_page(panels, whole=whole)
        assert sum(axes.axison for axes in figure.axes) == count
        assert figure.get_size_inches()[0] * 25.4 <= 180 + 1e-9
        assert len(figure.legends) == 1  # the same lines everywhere
        assert min(t.get_fontsize() for t in figure.findobj(Text) if t.get_text()) >= 7
    assert not has_more_sections(Run("recover", {}, {}, {}))


def test_rates_points_spectra_and_mosaics():
    rates = np.array([[0.0, 1.0], [0.5, 0.2], [0.9, 0.1]])
    figure = draw_page([heat_map("m", rates, (3, 10, 20), (0.1, 0.2))])
    mesh = next(m for m in figure.axes[0].collections if isinstance(m, QuadMesh))
    np.testing.assert_array_equal(mesh.get_array(), rates.T)
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == ["3", "10", "20"]
    axes = draw_page([scatter("d", {"x": ([1, 2], [1, 4])})]).axes[0]
    np.testing.assert_array_equal(axes.lines[1].get_xdata(), [1, 4])  # the diagonal
    truth = np.packbits(np.eye(4, dtype=bool).reshape(1, 16), axis=1)
    made = np.packbits(~np.eye(4, dtype=bool).reshape(1, 16), axis=1)  # up to its sign
    made[0, 0] ^= 1
    shown = draw_page([mosaic("f", made, truth), mosaic("g", truth, truth)])
    assert [axes.get_xlabel() for axes in shown.axes] == ["1 wrong", "exact"]


def test_names_with_dollars_start_no_formula():
    data = SimpleNamespace(name="a $ and a $", class_names=("$x_$", "y"))
    partition = SimpleNamespace(
        counts=lambda: np.array([[1, 2], [3, 4]]), dataset=data, sizes=np.ones((2, 3)),
        names=("$1", "$2"), unused=0, scheme="iid",
    )  # fmt: skip
    assert r"\$x_\$" in words(draw_partition(partition))


def test_archetypes_whose_shares_nobody_knows_are_numbered_only():
    """As those of a federation of signs; the labels read "1 nan%"."""
    means, shares = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.full(2, np.nan)
    arrays = {"archetypes/means": means, "archetypes/shares": shares}
    said = words(recovery.draw(Run("recover", {}, arrays, {})))
    assert {"1", "2", "archetype"} <= set(said)
    assert not [w for w in said if "nan" in w or "share" in w]


# The style


def settings():
    return dict(matplotlib.rcParams)


def test_plot_and_save_leave_the_settings_of_matplotlib_alone(tmp_path):
    before = settings()
    figure = recover(small_sample()[1], seed=0).plot(path=tmp_path / "plot.png")
    save(figure, tmp_path / "again.png")
    figure.savefig(tmp_path / "own.pdf")
    figure.canvas.print_figure(tmp_path / "shown.png")  # as a notebook does
    with pytest.raises(KeyError):
        draw_runs([Run("bbp", {}, {}, {})])
    assert settings() == before
