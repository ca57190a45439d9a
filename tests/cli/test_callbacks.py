"""`hopfed fl run --tensorboard` and `--wandb`: other programs are told of every round."""

import importlib.util
import sys
import types

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from hopfed.experiments import fl
from hopfed.experiments.runner import execute
from hopfed.experiments.shared.callbacks import TensorBoard, numbers
from hopfed.runs import Run

SMALL = ("--clients", "3", "--rounds", "3", "--models", "mlp:16", "--set", "examples=200")
NAMES = {"test", "validation", "loss", "gigaflops", "megabytes_up", "megabytes_down"}


class Wandb(types.ModuleType):
    """The calls of Weights & Biases that its documentation names, and what they were told."""

    def __init__(self, fails=""):
        super().__init__("wandb")
        self.fails, self.logged, self.ended, self.axes = fails, [], 0, []

    def init(self, project, config):
        if self.fails == "init":
            raise RuntimeError("api_key not configured (no-tty).\ncall wandb.login")
        self.project, self.config = project, config
        return self

    def define_metric(self, name, step_metric=None):
        self.axes.append((name, step_metric))

    def log(self, values):
        if self.fails == "log" and len(self.logged) == 1:
            raise ConnectionError("gone")
        self.logged.append(values)

    def finish(self):
        self.ended += 1


@pytest.fixture
def wandb(monkeypatch):
    """Put a stand-in for `wandb` in place."""

    def made(fails=""):
        fake = Wandb(fails)
        monkeypatch.setitem(sys.modules, "wandb", fake)
        return fake

    return made


def test_weights_and_biases_is_told_what_the_run_file_has(hopfed, tmp_path, wandb):
    fake, out = wandb(), tmp_path / "run.h5"
    call = ("fl", "run", "fedavg", *SMALL, "--seeds", "2:4", "--wandb", "mine", "--out", out)
    status, _, err = hopfed(*call)
    assert (status, err) == (0, "")
    assert (fake.project, fake.config["clients"], fake.ended) == ("mine", 3, 1)
    assert ("*", "round") in fake.axes
    arrays = Run.load(out).arrays
    found = [(v.pop("round"), next(iter(v)).partition("/")[0], v) for v in fake.logged]
    assert [(t, seed) for t, seed, _ in found] == [(t, s) for s in ("seed-2", "seed-3")
                                                   for t in (1, 2, 3)]  # fmt: skip
    for t, seed, values in found:
        i = int(seed[-1]) - 2
        assert set(values) == {f"{seed}/{name}" for name in NAMES}
        assert values[f"{seed}/test"] == pytest.approx(arrays["test"][i, t - 1].mean())
        sent = arrays["traffic/up"][i, t - 1].mean() / 1e6
        assert values[f"{seed}/megabytes_up"] == pytest.approx(sent)


def test_a_resumed_run_tells_of_what_was_left(hopfed, tmp_path, wandb):
    wandb("log")
    call = ("fl", "run", "fedavg", *SMALL, "--wandb", "mine", "--out", tmp_path / "run.h5")
    status, _, err = hopfed(*call)
    assert (status, err) == (2, "error: wandb: gone\n")
    fake = wandb()
    assert hopfed(*call, "--resume")[0] == 0
    assert [values["round"] for values in fake.logged] == [3]  # the second was kept, if not told


def test_what_is_not_there_is_one_line_before_any_work(hopfed, tmp_path, monkeypatch, wandb):
    for name in ("tensorboard", "tensorboardX", "wandb"):
        monkeypatch.setitem(sys.modules, name, None)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "hopfed.experiments.shared.callbacks.find_spec",
        lambda name: None if name.startswith("tensorboard") else find(name),
    )
    out = tmp_path / "run.h5"
    for option, words in (
        ("--tensorboard", "pip install tensorboard"),
        ("--wandb", "pip install wandb"),
    ):
        folder = tmp_path / "told"
        status, text, err = hopfed("fl", "run", "fedavg", *SMALL, option, folder, "--out", out)
        assert (status, text, err.count("\n")) == (2, "", 1)
        assert words in err
        assert not out.exists()
    wandb("init")
    status, _, err = hopfed("fl", "run", "fedavg", *SMALL, "--wandb", "mine", "--out", out)
    assert (status, err) == (2, "error: wandb: api_key not configured (no-tty).\n")


@pytest.mark.parametrize("package", ["tensorboard", "tensorboardX"])
def test_tensorboard_reads_what_was_written(tmp_path, monkeypatch, package):
    pytest.importorskip(package, reason=f"{package} is not installed")
    loader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="tensorboard, which reads event files, is not installed",
    )
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "hopfed.experiments.shared.callbacks.find_spec",
        lambda name: find(name) if name == package else None,
    )
    config = fl.Config(models=("mlp:16",), clients=3, examples=200, rounds=4, every=2, seeds=2)
    board = TensorBoard(tmp_path / "told")
    run = execute(fl, config, callbacks=[board])
    board.close()
    for seed in (0, 1):
        events = loader.EventAccumulator(str(tmp_path / "told" / f"seed-{seed}"))
        events.Reload()
        assert set(events.Tags()["scalars"]) == NAMES
        tests = {e.step: e.value for e in events.Scalars("test")}
        assert set(tests) == {2, 4}  # the rounds that are scored
        for t, value in tests.items():
            assert value == pytest.approx(run.arrays["test"][seed, t - 1].mean(), rel=1e-6)


def test_clients_without_a_number_are_left_out():
    nan = float("nan")
    assert numbers({"test": [nan, 0.25], "validation": [nan, nan]}) == {"test": 0.25}
