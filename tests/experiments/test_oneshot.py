"""Sections of `hopfed run oneshot` beside the table of methods."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from hopfed.errors import ArgumentError
from hopfed.experiments import oneshot
from hopfed.experiments.runner import execute

SMALL = oneshot.Config(
    clients=3, examples=400, filters=4, models=("mlp",), rounds=1, early=1, seeds=1
)


def played(**changes):
    config = replace(SMALL, **changes)
    run = execute(oneshot, config)
    return config, run.summary


def test_the_cost_of_noise_is_predicted_and_measured(monkeypatch):
    monkeypatch.setattr(oneshot, "EPSILONS", (1000.0, 0.3))
    config, found = played(sections=("privacy",))
    predicted = [found[f"privacy/predicted for all/{e}/test"][0] for e in ("1000", "0.3")]
    measured = [found[f"privacy/hebbian global/{e}/test"][0] for e in ("1000", "0.3")]
    assert predicted[0] - predicted[1] > 0.3
    np.testing.assert_allclose(predicted, measured, atol=0.15)
    names = [table.title for table in oneshot.tables(config, found)]
    assert names[0] == "privacy"


def test_bits_are_the_same_for_all_readers(monkeypatch):
    monkeypatch.setattr(oneshot, "READERS", {"fedproto on bits": "prototypes"})
    _, found = played(sections=("same bits",), partitions=("iid",), shift="dirichlet:1")
    sent = {row: found[f"same bits/{row}/iid/megabytes"][0] for row in oneshot.READINGS}
    assert max(sent.values()) - min(sent.values()) < 0.01
    assert found["same bits/fedproto on bits/iid/test"][0] > 0.5
    assert "same bits/hebbian/dirichlet:1/gain" in found


def test_a_ridge_from_the_spectrum_needs_no_grid(monkeypatch):
    monkeypatch.setattr(oneshot, "RULES", {"grid": "ridge=grid", "gcv": "ridge=gcv"})
    _, found = played(sections=("ridge and rank",), rows=("hebbian alone", "hebbian"))
    scores = [found[f"ridge and rank/hebbian/{rule}/test"][0] for rule in ("grid", "gcv")]
    assert min(scores) > 0.7
    assert abs(scores[0] - scores[1]) < 0.1


def test_filters_are_chosen_and_compared_with_more_that_are_not():
    config, found = played(sections=("chosen filters",), rows=("hebbian alone", "hebbian"))
    names = ["4 of 16", "4", "5", "8"]
    assert [at for at, _, _ in config._choosing()] == names
    bytes_of = {at: found[f"chosen filters/hebbian/{at}/megabytes"][0] for at in names}
    assert bytes_of["4 of 16"] > bytes_of["4"]
    assert found["chosen filters/hebbian/4 of 16/test"][0] > 0.5
    assert "chosen filters/hebbian/4 of 16/gain" in found


def test_a_section_is_one_of_those():
    with pytest.raises(ArgumentError, match="sections must be among"):
        replace(SMALL, sections=("privat",))
