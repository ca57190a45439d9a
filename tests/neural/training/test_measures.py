"""Measures of classifiers beside accuracy: by hand on a few examples, and of a run."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install hopfed[neural]")

from hopfed.experiments import fl
from hopfed.experiments.runner import execute
from hopfed.neural.training.evaluation import MEASURES, measures

CHANCES = np.array([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.4, 0.5, 0.1], [0.2, 0.7, 0.1]])
LABELS = np.array([0, 0, 1, 1])  # class 2 does not occur


def test_measures_are_those_of_their_definitions():
    found = measures(CHANCES, LABELS, 3)
    assert found["confusion"].tolist() == [[1, 1, 0], [0, 2, 0], [0, 0, 0]]
    # pairs in order: class 0 has 3 of 4 above the rest, class 1 has 3 of 4
    assert found["auc"] == pytest.approx(0.75)
    assert found["balanced"] == pytest.approx((1 / 2 + 1) / 2)
    assert found["f1"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert found["loss"] == pytest.approx(-np.log([0.8, 0.3, 0.5, 0.7]).mean())
    one = measures(CHANCES[:2], LABELS[:2], 3)
    assert np.isnan(one["auc"])
    assert one["balanced"] == 0.5
    lost = measures(CHANCES * np.nan, LABELS, 3)
    assert all(np.isnan(lost[name]) for name in MEASURES)


def test_a_run_has_measures_where_they_are_asked_for():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 120)
    rows = rng.normal(size=(120, 4)) + labels[:, None]
    asked = {"models": ("mlp:8",), "clients": 4, "rounds": 2, "partition": "iid", "unseen": 0.25}
    run = execute(fl, fl.Config(data=(rows, labels), measures=True, **asked))
    confusion = run.arrays["measures/confusion"]
    right = np.trace(confusion, axis1=-2, axis2=-1) / confusion.sum(axis=(-2, -1))
    assert right == pytest.approx(run.arrays["test"])
    assert {"auc", "f1", "balanced", "loss", "train_loss", "newcomers"} <= set(run.summary)
    best = int(run.summary["round"][0]) - 1
    assert run.summary["newcomers"][0] == pytest.approx(run.arrays["test"][0, best, 3])
    plain = execute(fl, fl.Config(data=(rows, labels), **asked))
    assert not any(name.startswith("measures/") for name in plain.arrays)
