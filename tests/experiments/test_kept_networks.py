"""What was trained is kept, read back, and exported."""

import csv

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install hopfed[neural]")

from hopfed.errors import ArgumentError, DataError  # noqa: E402
from hopfed.experiments import find, fl  # noqa: E402
from hopfed.experiments.runner import execute  # noqa: E402
from hopfed.experiments.shared.kept_networks import read  # noqa: E402
from hopfed.experiments.shared.long_table import columns, frame  # noqa: E402
from hopfed.neural.models.weights import read_tensors  # noqa: E402
from hopfed.neural.training.task import task_of  # noqa: E402
from hopfed.runs import Run  # noqa: E402

SMALL = {"models": ("mlp:16",), "clients": 3, "examples": 200, "rounds": 4, "lr": 0.05}


@pytest.mark.parametrize("method", ["standalone", "fedavg", "fedproto"])
def test_kept_networks_score_as_the_run_says(tmp_path, method):
    config = fl.Config(method=method, keep=str(tmp_path / "states"), **SMALL)
    run = execute(fl, config)
    best, chosen = fl.chosen_round(run.arrays)
    task = task_of(config.make(0).task)
    for c in range(3):
        kept = read(tmp_path / "states" / "seed-0", c)
        assert kept.about["round"] == best[0] + 1
        assert kept.about["alone"]
        rows = task.split.test[c]
        found = kept.probabilities(task.split.dataset.inputs[rows])
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
        right = (found.argmax(axis=1) == task.split.dataset.labels[rows]).mean()
        assert right == pytest.approx(chosen[0, c])
    files = {p.stem for p in (tmp_path / "states" / "seed-0").iterdir()} - {"model"}
    assert files == ({"everyone"} if method == "fedavg" else {f"client-{c}" for c in range(3)})


def test_a_resumed_run_keeps_the_same(tmp_path):
    class Stop(BaseException):
        pass

    def stop(done, planned):
        if done == 2:
            raise Stop

    whole, parts = (fl.Config(keep=str(tmp_path / n), **SMALL) for n in ("whole", "parts"))
    execute(fl, whole)
    with pytest.raises(Stop):
        execute(fl, parts, out=tmp_path / "run.h5", report=stop)
    execute(fl, parts, out=tmp_path / "run.h5", resume=True)
    a, b = (tmp_path / n / "seed-0" for n in ("whole", "parts"))
    assert (a / "model.json").read_text() == (b / "model.json").read_text()
    name = read(a, 0).about["files"][0]
    held, other = read_tensors(a / name), read_tensors(b / name)
    assert all(torch.equal(t, other[n]) for n, t in held.items())


def test_prediction_from_the_command_line(hopfed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Sequential):\n"
        "    def __init__(self, channels, classes):\n"
        "        super().__init__(nn.Linear(channels, 8), nn.ReLU(), nn.Linear(8, classes))\n"
    )
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 120)
    rows = 4 * labels[:, None] + rng.normal(size=(120, 3))
    lines = [f"{a:.3f},{b:.3f},{c:.3f}" for a, b, c in rows]
    words = ["ash", "yew"]
    named = [f"{line},{words[k]}" for line, k in zip(lines, labels, strict=True)]
    (tmp_path / "plants.csv").write_text("a,b,c,label\n" + "\n".join(named))
    (tmp_path / "new.csv").write_text("a,b,c\n" + "\n".join(lines))
    task = ("--models", "nets.py:Net", "--data", "plants.csv", "--partition", "iid")
    small = ("--clients", 2, "--rounds", 8, "--set", "lr=0.1", "--keep", "states")
    assert hopfed("fl", "run", "fedavg", *task, *small)[0] == 0
    status, _, err = hopfed("fl", "run", "fedavg", *task, *small)
    assert (status, err.count("\n")) == (2, 1)
    assert "--keep must be a new folder" in err
    call = ("fl", "predict", "states/seed-0")
    status, _, err = hopfed(*call, "plants.csv")
    assert (status, err.count("\n")) == (2, 1)
    assert "names code to run, nets.py:Net" in err
    mine = ("--models", "nets.py:Net")
    status, text, err = hopfed(*call, "plants.csv", *mine, "--client", 1)
    assert (status, err) == (0, "")
    assert float(text.split("accuracy")[1]) > 0.8
    status, text, _ = hopfed(*call, "new.csv", *mine, "--client", 1, "--out", "found.csv")
    assert status == 0
    assert "accuracy" not in text
    with open("found.csv", newline="") as file:
        found = list(csv.DictReader(file))
    assert [set(row) for row in found[:1]] == [{"class", "ash", "yew"}]
    right = [row["class"] == words[k] for row, k in zip(found, labels, strict=True)]
    assert np.mean(right) > 0.8
    (tmp_path / "wide.csv").write_text("a,b,c,d\n1,2,3,4\n")
    for data, client, words in (
        ("wide.csv", 0, "trained on (3, 1, 1)"),
        ("new.csv", 5, "--client must be from 0 to 1"),
    ):
        status, _, err = hopfed(*call, data, *mine, "--client", client)
        assert (status, err.count("\n")) == (2, 1)
        assert words in err
    assert hopfed("fl", "predict", "nowhere", "new.csv")[0] == 2


def test_rounds_as_a_table(hopfed, tmp_path):
    path = tmp_path / "run.h5"
    config = fl.Config(seeds=2, **SMALL)
    run = execute(fl, config, out=path)
    table = frame(run)
    assert len(table) == 2 * 4 * 3
    kept = table.set_index(["seed", "round", "client"]).test
    assert kept[1, 3, 2] == run.arrays["test"][1, 2, 2]
    for name in ("rounds.csv", "rounds.parquet"):
        status, _, err = hopfed("export", path, "--out", tmp_path / name)
        assert (status, err) == (0, "")
    with open(tmp_path / "rounds.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(r["test"]) for r in rows] == run.arrays["test"].ravel().tolist()
    assert {"traffic/up", "validation", "client/flops"} <= set(rows[0])


def test_rows_of_a_comparison_are_named():
    config = find("sohip").Config(rounds=5, clients=2, rows=("standalone", "sohip"))
    arrays = {"seeds": np.arange(1), "test": np.zeros((1, 10, 2))}
    from hopfed._lib.settings import to_plain

    table = columns(Run("sohip", to_plain(config), arrays, {}))
    assert set(table["row"]) == {"methods/standalone", "methods/sohip"}
    assert table["round"].max() == 5


@pytest.mark.parametrize("text", ["{", "{}", '{"models": ["lenet"]}'])
def test_a_broken_folder_is_one_line(tmp_path, text):
    (tmp_path / "model.json").write_text(text)
    with pytest.raises((DataError, ArgumentError)) as caught:
        read(tmp_path, 0)
    assert "\n" not in str(caught.value)
