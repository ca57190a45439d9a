"""The style of pictures is there while one is drawn or written, and matplotlib's own otherwise."""

import inspect
import io
import pkgutil
import threading
from importlib import import_module

import matplotlib
import numpy as np
import pytest

from hopfed import figures, recover
from hopfed.figures import new_figure, save, styled, theory
from hopfed.hopfield.channel import small_sample

HELPERS = {"_planes", "style"}  # these draw into figures that are there


def settings():
    return dict(matplotlib.rcParams)


def pixels(figure):
    picture = io.BytesIO()
    figure.savefig(picture, format="raw")
    return picture.getvalue()


def test_plot_and_save_leave_the_settings_of_matplotlib_alone(tmp_path):
    before = settings()
    figure = recover(small_sample()[1], seed=0).plot(path=tmp_path / "plot.png")
    assert settings() == before
    save(figure, tmp_path / "again.png")
    figure.savefig(tmp_path / "own.pdf")
    figure.canvas.print_figure(tmp_path / "shown.png")  # as a notebook does
    assert settings() == before


def test_a_figure_looks_the_same_whatever_the_settings_are_when_it_is_saved():
    first, second = (theory.mp(np.array([0.5]), 1.0) for _ in range(2))
    there = pixels(first)
    with matplotlib.rc_context({"xtick.labelsize": 20, "axes.titlesize": 30}):
        assert pixels(second) == there


def test_a_failure_leaves_no_style():
    before = settings()
    with pytest.raises(KeyError):
        figures.drawer("bbp")(figures.Run("bbp", {}, {}, {}))
    assert settings() == before


def test_threads_that_draw_at_once_leave_no_style():
    before, met = settings(), threading.Barrier(2, timeout=60)

    def draw():
        met.wait()
        for _ in range(20):
            with styled():
                new_figure(20, 20).subplots()

    threads = [threading.Thread(target=draw) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert settings() == before


def test_every_module_draws_in_the_style():
    for found in pkgutil.iter_modules(figures.__path__):
        module = import_module(f"hopfed.figures.{found.name}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            draws = name.startswith("draw") or (found.name == "theory" and name[0] != "_")
            if draws and found.name not in HELPERS and function.__module__ == module.__name__:
                assert hasattr(function, "__wrapped__"), f"{found.name}.{name} wants @styled()"
