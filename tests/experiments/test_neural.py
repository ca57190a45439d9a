"""Experiments that compare neural methods cell by cell."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed._lib.settings import from_plain, to_plain  # noqa: E402
from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.experiments import PRESET_NAMES, find, fl, knnper  # noqa: E402
from hopfed.experiments.runner import execute  # noqa: E402
from hopfed.experiments.shared import cell_tables  # noqa: E402
from hopfed.experiments.shared import cells as _cells  # noqa: E402
from hopfed.experiments.shared import feature_planes as _planes  # noqa: E402
from hopfed.experiments.shared import stream as _stream  # noqa: E402
from hopfed.experiments.shared.cells import TABLE, Bench, Reading  # noqa: E402
from hopfed.federation.contract import EVERYONE  # noqa: E402
from hopfed.figures import drawer  # noqa: E402
from hopfed.report.tables import tables_of  # noqa: E402
from hopfed.runs import Run  # noqa: E402

NAMES = ("sohip", "fedssa", "fedh2l", "knnper", "oneshot")


@dataclass(frozen=True)
class Toy(Bench):
    """Two methods, one sweep, one reading."""

    clients: int = 3
    models: tuple[str, ...] = ("mlp",)
    examples: int = 200
    rounds: int = 2
    early: int = 1
    lr: float = 0.05
    seeds: int = 2

    def cells(self):
        table = [self.cell(TABLE, m, method=m) for m in ("standalone", "fedavg+")]
        swept = [self.cell("rate", "fedavg+", r, method="fedavg+", rate=r) for r in (0.4, 1.0)]
        return (*table, *swept)

    def readings(self):
        base = f"{TABLE}/fedavg+"
        tuned = [Reading("tune", "fedavg+", str(n), base, f"tune={n}", 2) for n in (0, 3)]
        return (*tuned, Reading("way", "fedavg", "1", base, "tune=0", 1))


class Module:
    """What an experiment offers."""

    __name__ = "hopfed.experiments.toy"
    Config = Toy
    run_round = staticmethod(_cells.play)
    summarise = staticmethod(_cells.summarise)


@pytest.fixture(scope="module")
def arrays():
    """Arrays of all seeds, played round by round."""
    from hopfed.federation.engines.local import LocalEngine

    toy, seeds = Toy(), []
    for seed in range(toy.seeds):
        rounds, state = [], None
        for t in range(toy.played):
            made, state = _cells.play(toy, seed, t, state, LocalEngine())
            rounds.append(made)
        assert state is None
        seeds.append(toy.joined(rounds))
    return {n: np.stack([s[n] for s in seeds]) for n in seeds[0]}


def test_a_cell_is_the_run_it_stands_for(arrays):
    cell = Toy().cells()[1]
    alone = execute(fl, replace(cell.config, seeds=2)).arrays
    ours = _cells.by_cell(Toy(), arrays)[cell.key]
    for name in ("test", "validation", "client/loss", "traffic/up"):
        np.testing.assert_array_equal(ours[name], alone[name], err_msg=name)


def test_a_reading_scores_the_trained_model_by_other_options(arrays):
    read = _cells.read(Toy(), arrays)
    # Without tuning FedAvg+ is FedAvg, which the cell with a step of tuning is not.
    fedavg = execute(fl, replace(Toy().cells()[1].config, method="fedavg", seeds=2))
    last = fedavg.arrays["test"][:, -1].mean(axis=1)
    np.testing.assert_array_equal(read["tune/fedavg+/0"], last)
    assert not np.array_equal(read["tune/fedavg+/3"], last)
    first = fedavg.arrays["test"][:, 0].mean(axis=1)
    np.testing.assert_array_equal(read["way/fedavg/1"], first)
    assert np.isnan(arrays["readings"][:, 0]).all()


def test_rows_are_played_as_they_are_beside_others(arrays):
    alone = Toy(rows=("standalone",))
    assert [cell.key for cell in _cells.cells_of(alone)] == [f"{TABLE}/standalone"]
    assert _cells.readings_of(alone) == ()
    part = {n: a[:, : alone.rounds] for n, a in arrays.items() if n != "readings"}
    both = _cells.summarise(Toy(), arrays)
    for name, value in _cells.summarise(alone, part).items():
        assert value == pytest.approx(both[name])


@pytest.mark.parametrize(
    ("rows", "sections"),
    [
        (("fedavg+",), (TABLE,)),  # without what gains are over
        (("standalone", "fedsgd"), (TABLE,)),
        (("standalone", "all"), (TABLE,)),
        (("all",), ()),
        (("all",), ("rate",)),  # of no method alone
    ],
)
def test_rows_and_sections_that_cannot_be_played(rows, sections):
    with pytest.raises(ArgumentError, match=r"(rows|sections) must be"):
        Toy(rows=rows, sections=sections)


def test_a_sweep_alone_has_its_gains_and_its_figure(tmp_path):
    quick = replace(find("sohip").PRESETS["quick"], models=("mlp:16",), examples=200)
    config = replace(quick, sections=("participation",), rows=("standalone", "sohip"))
    with pytest.raises(ArgumentError, match="methods among them or only classes"):
        replace(config, sections=("m",))
    execute(find("sohip"), config, out=tmp_path / "run.h5")
    run = Run.load(tmp_path / "run.h5", complete=True)
    accuracy, gain = tables_of(run)
    assert (accuracy.title, gain.title) == ("participation", "participation: gain ± s.e.")
    assert [row[0] for row in accuracy.rows] == ["standalone", "sohip"]
    assert [row[0] for row in gain.rows] == ["sohip"]
    assert [axes.get_title() for axes in drawer("sohip")(run).axes if axes.axison] == [
        "participation"
    ]


def test_fedh2l_without_itself_is_drawn(tmp_path):
    config = replace(find("fedh2l").PRESETS["quick"], rows=("ind", "agg equal images"), rounds=3)
    execute(find("fedh2l"), config, out=tmp_path / "run.h5")
    run = Run.load(tmp_path / "run.h5", complete=True)
    assert [row[0] for row in tables_of(run)[0].rows] == list(config.rows)
    titles = [axes.get_title() for axes in drawer("fedh2l")(run).axes if axes.axison]
    assert not any("fedh2l" in title for title in titles)


def test_gains_are_paired_seed_by_seed(arrays):
    summary = _cells.summarise(Toy(), arrays)
    by_seed = _cells.per_seed(Toy(), arrays)
    gain = by_seed["methods/fedavg+"]["test"] - by_seed["methods/standalone"]["test"]
    mean, error = summary["methods/fedavg+/gain"]
    assert mean == pytest.approx(gain.mean())
    assert error == pytest.approx(gain.std(ddof=1) / np.sqrt(2))
    assert summary["methods/standalone/gain"][0] == 0
    # Where a sweep has no reference of its own, that of the table serves.
    swept = by_seed["rate/fedavg+/0.4"]["test"] - by_seed["methods/standalone"]["test"]
    assert summary["rate/fedavg+/0.4/gain"][0] == pytest.approx(swept.mean())


def test_tables_hold_every_cell_and_reading(arrays):
    made = cell_tables.tables(Toy(), _cells.summarise(Toy(), arrays), {"fedavg+": "12.3"})
    assert [t.title for t in made] == ["methods", "rate", "tune", "way"]
    assert made[0].columns[-1] == "paper"
    assert made[0].rows[1][-1] == "12.3"
    assert made[1].columns == ("0.4", "1.0")
    assert all(len(row) == len(t.columns) + 1 for t in made for row in t.rows)


def test_unseen_clients_are_scored_and_never_take_part():
    conf = fl.Config(
        method="fedavg", clients=5, unseen=0.4, models=("mlp",), examples=300, rounds=2, lr=0.05
    )
    run = execute(fl, conf)
    assert (run.arrays["traffic/up"][..., 3:] == 0).all()
    assert (run.arrays["traffic/up"][..., :3] > 0).all()
    assert np.isfinite(run.arrays["test"]).all()


def test_every_client_is_scored_in_every_domain():
    conf = fl.Config(
        method="standalone",
        partition="rotation:0,90,180:10",
        clients=3,
        domains=True,
        models=("mlp",),
        every=2,
        rounds=3,
    )
    a = {n: array[0] for n, array in execute(fl, conf).arrays.items()}
    assert np.isnan(a["domains/accuracy"][0]).all()
    own = np.diagonal(a["domains/accuracy"][-1])
    np.testing.assert_allclose(own, a["test"][-1])
    np.testing.assert_allclose(own, a["domains/wdp"][-1])
    others = a["domains/accuracy"][-1][~np.eye(3, dtype=bool)].reshape(3, 2).mean(axis=1)
    np.testing.assert_allclose(others, a["domains/cdp"][-1])  # domains of one size


@pytest.mark.parametrize("name", NAMES)
def test_what_an_experiment_offers(name):
    module = find(name)
    assert set(PRESET_NAMES) <= set(module.RECORD.minutes) <= set(module.PRESETS)
    for config in module.PRESETS.values():
        assert from_plain(module.Config, to_plain(config)) == config
        keys = [place.key for place in (*config.cells(), *config.readings())]
        assert len(set(keys)) == len(keys)
    with pytest.raises(ArgumentError, match="sections"):
        replace(module.PRESETS["quick"], sections=(TABLE, "colour"))


@pytest.mark.parametrize("name", NAMES)
def test_the_quick_preset_runs_and_is_drawn(name, tmp_path):
    module = find(name)
    config = replace(module.PRESETS["quick"], seeds=1)
    execute(module, config, out=tmp_path / "run.h5")
    run = Run.load(tmp_path / "run.h5", complete=True)
    for cell in config.cells():
        assert 0 <= run.summary[f"{cell.key}/test"][0] <= 1
    assert tables_of(run)[0].title == TABLE
    none = np.zeros(1)
    arrays = {n: a for n, a in run.arrays.items() if a.ndim > 1}
    cells = _cells.by_cell(config, arrays).items()
    kept = {key for key, a in cells if a.get("plane", none).any()}
    assert kept == set(config.PICTURED)
    drawn = drawer(name)(run)
    used = [axes for axes in drawn.axes if axes.axison]
    assert used
    assert all(axes.has_data() for axes in used)


def knn_per(rounds=1, **settings):
    """kNN-Per after some rounds on a small task, and the state of the federation."""
    from hopfed.federation.engines.local import LocalEngine

    conf = fl.Config(
        method="knn-per", clients=3, models=("mlp",), examples=300, rounds=rounds, **settings
    )
    _, state, method = fl.play(conf, 0, 0, None, LocalEngine())
    return method, state


def test_a_stream_under_every_rule_ends_where_its_store_says():
    from hopfed._lib.settings import with_settings
    from hopfed.neural.memory.store import Store
    from hopfed.neural.training.evaluation import correct

    method, state = knn_per()
    down, split = state.down[EVERYONE], method.loaded.split

    def played(rule):
        made = with_settings(method, knnper.RULES[rule].split(","))
        return made, _stream.scores(made, state, 5, 2)

    def accuracy(made, store, c, test):
        return correct(made.mixed(store, down, c), method.loaded.tensors, split.test[test]).mean()

    for c, other in enumerate((1, 2, 0)):
        mine, theirs = (_stream.arriving(method, client) for client in (c, other))
        first = mine[: (len(mine) + 1) // 2]
        made, fixed = played("fixed")
        held = made.remember(down, c, first)
        assert (fixed[:2, c] == accuracy(made, held, c, c)).all()
        assert (fixed[2:, c] == accuracy(made, held, c, other)).all()
        made, everything = played("concatenate")
        held = made.remember(down, c, np.concatenate([mine, theirs]), Store())
        assert everything[-1, c] == accuracy(made, held, c, other)
        made, queue = played("fifo")
        held = made.remember(down, c, np.concatenate([mine, theirs])[-len(first) :])
        assert queue[-1, c] == accuracy(made, held, c, other)
        made, alone = played("fedavg")
        model = replace(made, lam=0.0).classifier({}, down, c)
        assert alone[0, c] == correct(model, method.loaded.tensors, split.test[c]).mean()


def test_unseen_clients_stand_apart_in_tables():
    @dataclass(frozen=True)
    class Apart(Toy):
        COMPARED = ("fedavg",)

        def cells(self):
            return tuple(
                self.cell(section, "fedavg", method="fedavg", unseen=share)
                for section, share in ((TABLE, 0.0), ("unseen", 0.34))
            )

        def readings(self):
            return ()

    test = np.tile([0.5, 0.5, 0.9], (2, 4, 1))
    zeros = {n: np.zeros((2, 4, 3)) for n in ("traffic/up", "traffic/down", "client/flops")}
    zeros["sizes"] = np.ones((2, 4, 3, 3), int)
    summary = _cells.summarise(Apart(), {"test": test, "validation": test, **zeros})
    assert summary["unseen/fedavg/unseen"][0] == pytest.approx(0.9)
    assert "methods/fedavg/unseen" not in summary
    plain, apart = cell_tables.tables(Apart(), summary)
    assert "unseen clients %" not in plain.columns
    assert apart.rows[0][apart.columns.index("unseen clients %") + 1].startswith("90.0")


@pytest.mark.parametrize(("by", "way"), [("clients", "t-sne"), ("domains", "pca")])
def test_features_in_a_plane(by, way):
    method, state = knn_per(partition="rotation:0,90,180:6")
    fedavg = fl.Config(
        method="fedavg", partition="rotation:0,90,180:6", clients=3, models=("mlp",), examples=300
    ).make(0)
    plane = _planes.plane(fedavg, state, by, way)
    shown = plane[plane[..., 2] > 0]
    assert shown[:, :2].min(axis=0).tolist() == [0, 0]
    assert shown[:, :2].max(axis=0).tolist() == [255, 255]
    for c, rows in enumerate(fedavg.loaded.split.test):
        labels = np.sort(fedavg.loaded.split.dataset.labels[rows][: _planes.EACH])
        np.testing.assert_array_equal(np.sort(plane[c, : len(labels), 2]) - 1, labels)
        assert not plane[c, len(labels) :].any()
    again = _planes.plane(fedavg, state, by, way)
    np.testing.assert_array_equal(plane, again)
    with pytest.raises(ArgumentError, match="classifier must be a model with parameters"):
        _planes.plane(method, state, by, way)
