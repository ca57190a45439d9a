"""Domains in comparisons: the round that counts, and rows with the bytes of another."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.experiments import find, fl  # noqa: E402
from hopfed.experiments.runner import execute  # noqa: E402
from hopfed.experiments.shared import cells as _cells  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.figures import drawer  # noqa: E402
from hopfed.neural.training.evaluation import correct  # noqa: E402
from hopfed.report.tables import tables_of  # noqa: E402

fedh2l = find("fedh2l")
QUICK = replace(fedh2l.PRESETS["quick"], shares=(6.0, 2.0, 2.0), lr=0.01)
ROWS = ("ind", "agg equal images", "fedh2l", "fedavg", "fedprox")


def test_validation_over_all_domains_by_hand():
    config = fl.Config(
        method="standalone", partition="rotation:0,90,180:10", clients=3, domains=True,
        models=("mlp:16",), rounds=1, lr=0.05,
    )  # fmt: skip
    arrays, state, method = fl.play(config, 0, 0, None, LocalEngine())
    rows = np.concatenate(method.loaded.split.validation)
    for c in range(3):
        right = correct(fl.classifier_of(method, state, c), method.loaded.tensors, rows)
        assert arrays["domains/validation"][c] == pytest.approx(right.mean())


def test_the_round_with_the_best_accuracy_on_all_domains_counts():
    config = replace(QUICK, choose="acc", every=1, rows=("ind", "agg equal images"))
    run = execute(fedh2l, config)
    arrays = {n: a for n, a in run.arrays.items() if n != "seeds"}
    for key, a in _cells.by_cell(config, arrays).items():
        best = a["domains/validation"][0].mean(axis=1).argmax()
        assert run.summary[f"{key}/round"][0] == best + 1
        assert run.summary[f"{key}/acc"][0] == a["domains/acc"][0, best].mean()
        own = execute(fl, next(c.config for c in config.cells() if c.key == key)).arrays
        np.testing.assert_array_equal(own["domains/validation"], a["domains/validation"])
        assert not np.array_equal(own["validation"], a["validation"])  # those of its own domain
    with pytest.raises(ArgumentError, match="choose must be validation or last without domains"):
        replace(find("sohip").PRESETS["quick"], choose="acc")


def test_averages_are_read_where_they_have_sent_what_fedh2l_has():
    sections = ("methods", "averaging", "bandwidth")
    config = replace(QUICK, sections=sections, rows=ROWS, rounds=8, every=4)
    run = execute(fedh2l, config)
    arrays = {n: a for n, a in run.arrays.items() if n != "seeds"}
    cells = _cells.by_cell(config, arrays)
    at = run.summary["bandwidth/fedavg/matched"]
    assert at == 1  # a model is larger than the predictions of eight rounds
    alone = next(c.config for c in config.cells() if c.key == "averaging/fedavg")
    first = execute(fl, replace(alone, rounds=1, every=1)).arrays["domains/acc"][0, 0]
    assert run.summary["bandwidth/fedavg/acc"][0] == pytest.approx(first.mean())
    cheap = {n: a.copy() for n, a in arrays.items()}
    both = _cells.by_cell(config, cheap)
    both["averaging/fedavg"]["traffic/up"][:] = 1
    both["averaging/fedavg"]["traffic/down"][:] = cells["methods/fedh2l"]["traffic/up"].sum() / 15
    spent = 5 * both["averaging/fedavg"]["traffic/down"][0, 0].mean()
    assert spent <= fedh2l._megabytes(both["methods/fedh2l"])[-1] * 1e6
    matched = fedh2l.summarise(config, cheap)["bandwidth/fedavg/matched"]
    assert matched >= 5
    assert tables_of(run)[-1].rows[0][:2] == ("fedavg", "1")
    assert drawer("fedh2l")(run).axes
    with pytest.raises(ArgumentError, match="sections must be with averaging"):
        replace(config, sections=("methods", "bandwidth"), rows=("all",))
