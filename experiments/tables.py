"""Fit of archetypes to unseen rows of real tables, beside other methods."""

import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pyarrow.csv import read_csv
from sklearn import datasets
from sklearn.metrics import adjusted_rand_score

from hopfed._lib.guarded_reading import guard_reading, open_file
from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.experiments import Arrays, Table
from hopfed.experiments.machinery.settings import Settings, Words, among
from hopfed.experiments.shared.baselines import METHODS, Model, classes_model
from hopfed.experiments.shared.statistics import format_by_name
from hopfed.figures.kinds import Panel, error_bars, split_axis
from hopfed.kernels import unpack
from hopfed.kernels.examples import as_examples
from hopfed.recovery.recover import deal_rows, run_recovery
from hopfed.tables.reading import read_table

TITLES = {  # titles of the printed tables, and formats of their numbers
    "classes": ("classes", ".1f"),
    "likelihood": ("held-out nats an entry", ".4f"),
    "masked": ("masked entries right", ".3f"),
    "rand": ("adjusted Rand index", ".2f"),
    "seconds": ("seconds", ".2f"),
}
LEVEL = 0.003  # nats an entry within which two methods count as equal
OWNERS, ASIDE, MOST = 5, 0.2, 60  # share of rows held out, and of entries masked; classes
OWN = ("breast cancer", "digits", "iris", "wine")  # tables of scikit-learn
LABELS = {"mushroom": "class", "soybean": "Class", "votes": "party", "zoo": "type"}
PIXEL = 7.5  # threshold between paper and ink


class Config(Settings):
    data: Annotated[str, "folder with more tables; empty for scikit-learn's own alone"]
    names: Annotated[Words, "tables to take; none for all"]
    methods: Annotated[Words, among(METHODS), "the others"] = tuple(METHODS)

    @property
    def rows(self) -> list[str]:
        """Names of the methods in the order of the arrays."""
        return ["hopfed", f"hopfed, {OWNERS} owners", *self.methods]

    @property
    def tables(self) -> dict[str, Path | None]:
        """Names of the tables -> their files; scikit-learn's own first, which have none."""
        known: dict[str, Path | None] = dict.fromkeys(OWN)
        files = sorted(Path(self.data).iterdir()) if self.data else []
        known |= {path.stem: path for path in files if path.suffix in (".csv", ".npz")}
        for name in self.names:
            require(name in known, "names", f"of {', '.join(known)}; data has more", repr(name))
        return {name: known[name] for name in self.names or known}


class RealTable(NamedTuple):
    """A table: int8 (M, N) of -1, 0 (missing) and +1, and the class of each row by its authors."""

    rows: np.ndarray
    labels: np.ndarray | None


def load_table(name: str, path: Path | None) -> RealTable:
    """Experiment `tables`: read a real table; categories, whole numbers become a column per level.

    An .npz holds rows X and perhaps labels y; `LABELS` names the label column of a .csv. In
    tables of scikit-learn numbers are cut at the median of their column, pixels at half ink.
    """
    if path is None:
        data: Any = getattr(datasets, "load_" + name.replace(" ", "_"))()
        level = PIXEL if name == "digits" else np.median(data.data, axis=0)
        return RealTable(np.where(data.data > level, 1, -1).astype(np.int8), data.target)
    if path.suffix == ".npz":
        with open_file(path) as file, guard_reading(path), np.load(file) as archive:
            labels = archive.get("y", None)
            return RealTable(unpack(as_examples(archive["X"], gaps=True)), labels)
    label = LABELS.get(name)
    rows = unpack(read_table(path, ignore=[label] if label else [], binarize="levels").held)
    return RealTable(rows, read_csv(path)[label].to_numpy() if label else None)


def score_model(model: Model, table: RealTable, masked: np.ndarray) -> list[float]:
    """Experiment `tables`: a model's classes, likelihood, share of entries right, Rand index."""
    rows, labels = table
    asked, (_, nats, given) = (rows != 0) & (masked == 0), model.read(rows)
    right = ((model.read(masked)[0] >= 0) == (rows > 0))[asked].mean()
    rand = np.nan if labels is None else adjusted_rand_score(labels, given)
    return [model.size, nats, float(right), rand]


def measure(seed: int, config: Config) -> Arrays:
    """Experiment `tables`: scores (tables, methods), bytes over bits (tables, 2), 1 or 5 owners."""
    found, sent = [], []
    for name, path in config.tables.items():
        rng, (every, labels) = stream(seed, "tables", name), load_table(name, path)
        order = rng.permutation(len(every))
        test, kept = np.split(order, [int(len(order) * ASIDE)])
        exam = RealTable(every[test], None if labels is None else labels[test])
        masked = np.where(rng.random(exam.rows.shape) < ASIDE, 0, exam.rows)
        rows = every[kept]
        methods: tuple[Any, ...] = (1, OWNERS, *config.methods)
        for method in methods:
            began = time.perf_counter()
            if isinstance(method, int):  # number of owners
                run = run_recovery(deal_rows(as_examples(rows, gaps=True), method, seed), seed=seed)
                fit = run.archetypes
                raw = max(run.n_examples) * rows.shape[1] * (1 + (rows == 0).any()) / 8
                sent.append(float(run.traffic.up.max()) / raw)  # of the owner with the most bytes
                one = METHODS["one class"](rows)
                model = classes_model(fit.means, fit.shares, len(rows)) if len(fit) else one
            else:
                model = METHODS[method](rows, seed=seed, most=MOST)
            seconds = time.perf_counter() - began
            found.append([*score_model(model, exam, masked), seconds])
    by_score = np.reshape(found, (-1, len(config.rows), len(TITLES))).transpose(2, 0, 1)
    made = dict(zip(TITLES, by_score, strict=True))
    return made | {"bytes_over_bits": np.reshape(sent, (-1, 2))}


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    means = {name: arrays[name].mean(axis=0) for name in TITLES}
    likelihood, seconds = means["likelihood"], means["seconds"]
    summary: dict[str, Any] = {
        "owners": float((likelihood[:, 1] - likelihood[:, 0]).min()),
        "bytes": float(arrays["bytes_over_bits"][..., 1].max()),
        "scores": {name: value.tolist() for name, value in means.items()},
        "tables": list(config.tables),
    }
    for name in ("masked", "rand"):  # mean over tables that have it
        held = means[name][~np.isnan(means[name]).all(axis=1)]
        summary[name] = format_by_name(config.rows, held.mean(axis=0)) if len(held) else ""
    if "stepmix" in config.methods:
        other = config.rows.index("stepmix")
        gain = likelihood[:, 0] - likelihood[:, other]
        summary |= {
            "not_below": f"{(gain >= -LEVEL).sum()} of {len(gain)}",
            "above": f"{(gain > 0).sum()} of {len(gain)}",
            "worst": float(gain.min()),
            "faster": float(np.median(seconds[:, other] / seconds[:, 0])),
        }
    return summary


def tables(config: Config, summary: dict[str, Any]) -> tuple[Table, ...]:
    """Experiment `tables`: a table for each score, real tables down, methods across."""
    made = []
    for score, (title, form) in TITLES.items():
        pairs = zip(summary["tables"], np.array(summary["scores"][score], float), strict=True)
        rows = ((name, *("-" if v != v else f"{v:{form}}" for v in held)) for name, held in pairs)
        made.append(Table(title, tuple(config.rows), tuple(rows)))
    return tuple(made)


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:
    rows, likelihood, made = config.rows, arrays["likelihood"], []
    rival = next((m for m in ("stepmix", "one class") if m in rows), "hopfed")
    gains = likelihood - likelihood[..., rows.index(rival), None]
    for title, values, more in (
        (f"held-out nats an entry, over {rival}", gains, {"level": 0.0}),
        ("masked entries that are right", arrays["masked"], {}),
        ("seconds", arrays["seconds"], {"log": "x"}),
    ):
        marks = {m: v for m, v in split_axis(rows, values, -1).items() if m != "one class"}
        made.append(error_bars(title, summary["tables"], marks, **more))
    return made
