"""`--autocast` and `--compile` of `hopfed fl run`."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.experiments import fl  # noqa: E402
from hopfed.experiments.runner import execute  # noqa: E402

SMALL = ("--clients", "2", "--rounds", "1", "--models", "mlp:16", "--set", "way=stacked")


def settings(**changes):
    base = {"clients": 2, "rounds": 1, "models": ("mlp:16",), "way": "stacked"}
    return fl.Config(**(base | changes))


def test_options_are_settings_of_the_run(hopfed):
    call = ("fl", "run", "fedprox", *SMALL, "--set", "examples=210", "--autocast", "bf16", "--json")
    status, text, err = hopfed(*call)
    assert (status, err) == (0, "")
    said = json.loads(text)
    assert (said["config"]["precision"], said["config"]["compile"]) == ("bfloat16", "")
    same = execute(fl, settings(method="fedprox", examples=210, precision="bfloat16"))
    assert said["summary"]["test"] == same.summary["test"]
    full = execute(fl, settings(method="fedprox", examples=210))
    both = [run.arrays["client/loss"] for run in (same, full)]
    assert not np.array_equal(*both)
    np.testing.assert_allclose(*both, rtol=0.05)
    status, _, err = hopfed("fl", "run", "fedavg", *SMALL, "--autocast", "fp8")
    assert (status, "bf16" in err) == (2, True)


def test_the_compiled_loss_is_what_is_trained(hopfed, monkeypatch):
    asked = []

    def compiled(function, backend):
        asked.append(backend)
        return function

    monkeypatch.setattr(torch, "compile", compiled)
    call = ("fl", "run", "fedavg", *SMALL, "--set", "examples=220", "--compile", "--json")
    status, text, err = hopfed(*call)
    assert (status, err) == (0, "")
    assert set(asked) == {"inductor"}
    plain = execute(fl, settings(examples=220))
    assert json.loads(text)["summary"]["last"] == plain.summary["last"]


@pytest.mark.parametrize("way", ["stacked", "sequential"])
def test_a_compiled_loss_with_other_gradients_is_refused(hopfed, monkeypatch, way):
    def lossy(function, backend):
        def loss(params, *batch):
            first = next(iter(params))
            return function(params | {first: params[first].detach()}, *batch)

        return loss

    monkeypatch.setattr(torch, "compile", lossy)
    call = ("fl", "run", "fedavg", *SMALL[:-2], "--set", f"way={way}", "--set", "examples=225")
    status, text, err = hopfed(*call, "--compile")
    assert (status, text, err.count("\n")) == (2, "", 1)
    assert "another gradient of features" in err
