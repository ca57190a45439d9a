"""Panels of each experiment's picture, the most telling first, under the experiment's name.

They are made of the kinds of `hopfed.figures.kinds`, from the arrays and the summary of the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.special import ndtr

from hopfed.figures.kinds import Panel, against, density, matrix, over, paired, pictures
from hopfed.runs import Run
from hopfed.theory import dense_storage, marchenko_pastur, storage
from hopfed.theory import density as general
from hopfed.theory.covariance import Population

RULES = ("hebb", "dreamed", "projector", "dense", "exponential")  # of an associative memory
FOUND, RECOVERED = 0.95, 0.9  # magnetisations from which an archetype is found, or recovered
UNIT = {"ylim": (-0.03, 1.05)}


def _rounds(count: int) -> list[int]:
    return list(range(1, count + 1))


def _by(names: Iterable[Any], values: np.ndarray, axis: int) -> dict[str, np.ndarray]:
    """Label -> the part of an array that has an axis of names."""
    return {str(n): np.take(values, i, axis) for i, n in enumerate(names)}


def bbp(run: Run) -> list[Panel]:
    """Outliers and overlaps on their predictions, and spectra of the first draw (Fig. 5)."""
    a, sizes, strong = run.arrays, run.config["M"], len(run.config["exposures"])
    top = a["eigenvalues"][..., :strong]
    pairs = (("finite size", "finite_size"), ("plain", "plain"))
    made = []
    for what, measured in (("outlier", top), ("overlap", a["overlaps/measured"])):
        for words, name in pairs:
            guess = a[f"{what}s/{name}"][..., :strong]
            points = {f"M = {M:,}": (guess[:, i], measured[:, i]) for i, M in enumerate(sizes)}
            title, labels = f"{what}s, {words}", {"xlabel": "predicted", "ylabel": "measured"}
            made.append(against(title, points, **labels))
    for i in np.argsort(sizes)[::-1]:
        values, guess = a["eigenvalues"][0, i], a["outliers/finite_size"][0, i]
        levels = {"edge": a["edge"][0, i], "test": a["threshold"][0, i]}
        rank = _rounds(len(values))
        lines, theory = {"measured": values}, {"theory": (rank[: len(guess)], guess)}
        words = {"xlabel": "rank", "ylabel": "eigenvalue", "log": "y", "points": True}  # type: ignore[assignment]
        made.append(over(f"M = {sizes[i]:,}", rank, lines, theory, levels=levels, **words))
    return made


def mp(run: Run) -> list[Panel]:
    """Spectra of noise on the law, and false-alarm rates with 95% bars."""
    a, ratios, rates = run.arrays, run.config["ratios"], run.summary["rates"]
    names = {
        "tw_signs": "Tracy-Widom, +-1",
        "tw_gaussian": "Tracy-Widom, Gaussian",
        "shuffle_signs": "shuffle, +-1",
        "unshifted_signs": "unshifted, +-1",
    }

    def bars(name: str) -> tuple[np.ndarray, np.ndarray]:
        rate, n = np.array(rates[name]), run.summary["nulls"]
        return 100 * rate, 196 * np.sqrt(np.maximum(rate * (1 - rate), 1 / n) / n)

    spectra, words = [], {"xlabel": "q", "ylabel": "false-alarm rate (%)", "points": True}
    for i, q in enumerate(ratios):
        bins = a["bins"][0, i]
        x = np.linspace(bins[0], bins[-1], 600)[1:]
        counts = _by(("+-1", "Gaussian"), a["histogram"].sum(axis=0)[:, i], 0)
        law = x, np.minimum(marchenko_pastur.pdf(x, q) * max(1, q), 3 if q == 1 else np.inf)
        spectra.append(density(f"q = {q:g}", counts, bins, law))
    tests, at = [], [f"{q:g}" for q in ratios]
    for level in ("0.01", "0.05"):
        lines = {w: bars(f"{n}_{level}") for n, w in names.items() if f"{n}_{level}" in rates}
        levels = {"test": 100 * float(level)}
        tests.append(over(f"at {float(level):.0%}", at, lines, levels=levels, **words))
    lines = {"+-1": bars("mp_signs"), "Gaussian": bars("mp_gaussian")}
    expected = {"foreseen": 100 * np.array(rates["mp_expected"])}
    edge = over("above the MP edge", at, lines, expected, **words)
    return [*spectra[:3], *tests, edge, *spectra[3:]]


def plan(run: Run) -> list[Panel]:
    """Frequencies at the planned sizes beside the promised power, two errors as a band."""
    kinds = run.summary["kinds"]
    found, sizes = np.array(run.summary["frequencies"]), np.array(run.summary["sizes"])
    power, error = run.config["power"], run.summary["error"]
    made = []
    for j, title in enumerate(("each is seen", "all are counted", "all are resolved")):
        rows = [
            f"N={N:.0f} K={K:.0f} r={r:g} M={M:,.0f}"
            for (N, K, r), M in zip(kinds, sizes[:, j], strict=True)
        ]
        marks = {"frequency": (found[:, j], 0 * found[:, j])}
        near = power - 2 * error, min(power + 2 * error, 1)
        made.append(paired(title, rows, marks, level=power, band=near, xlabel="share"))
    return made


def concentration(run: Run) -> list[Panel]:
    """Measured deviations below the bounds, for each quality."""
    bounds = {"bernstein": "Bernstein", "universal": "proxy 1/4", "paper": "the paper's (36)"}
    made = []
    for i, r in enumerate(run.config["qualities"]):
        mean = {n: run.arrays[f"bounds/{k}"][:, i].mean(axis=0) for k, n in bounds.items()}
        mean["exposures alone"] = run.arrays["counting"][:, i].mean(axis=0)
        lines = {"measured": run.arrays["deviation"][:, i]}
        words = {"xlabel": "M", "ylabel": r"$\|J - \mathrm{E}\,J\|$", "log": "xy"}
        made.append(over(f"r = {r:g}", run.config["M"], lines, mean, **words))
    return made


def isotropic(run: Run) -> list[Panel]:
    """Errors over N and over the overlap, and how far the bulk leaves its edges."""
    c, a = run.config, run.arrays
    N, guide = np.array(c["N"], float), {}
    made, places = [], ("z above the support", "z below it", "z over its middle")
    for title, name, labels in (
        ("Theorem 3", "law", places),
        ("Lemma 1", "lemma", [f"K = {k}" for k in c["K"]]),
    ):
        error = a[f"{name}/error"]
        rate = np.sqrt(np.log(N) / N)
        guide = {"law": rate * 1.4 * error.mean(axis=0).max() / rate[0]}
        words = {"xlabel": "N", "ylabel": "largest error", "log": "xy", "band": "sd"}
        made.append(over(title, c["N"], _by(labels, error, -1), guide, **words))
    overlaps = {
        r"$\|U^T G\,U - m\,1\|$": a["overlap/decoupled"],
        r"$\|U^T G\,U - m\,\Gamma\|$": a["overlap/gram"],
        "outlier / orthogonal one - 1": a["overlap/outlier"],
    }
    expected = {"theory": a["overlap/expected"].mean(axis=0)}
    words = {"xlabel": r"overlap $\epsilon$ of five archetypes", "band": "sd"}
    made.append(over("archetypes that overlap", c["overlaps"], overlaps, expected, **words))
    C = [float(x) for x in run.summary["band_constants"].split(",")]
    lines, bands = {}, {}
    for j, q in enumerate(c["ratios"]):
        draws = np.moveaxis(a["band/width"][:, :, j], 1, 0).reshape(len(N), -1)
        lines[f"q = {q:g}"] = np.quantile(draws, 1 - c["delta"], axis=1)
        first = np.sqrt((np.log(1 / c["delta"]) + np.log(N)) / np.round(N / q))
        bands[f"q = {q:g}"] = C[0] * first + C[1] * np.log(N) ** 2 / N ** (2 / 3)
    words = {"xlabel": "N", "ylabel": f"{1 - c['delta']:.0%} quantile", "log": "x", "points": True}
    return [*made, over("bulk beyond the edges: band (40)", c["N"], lines, bands, **words)]


def exposure(run: Run) -> list[Panel]:
    """Overlap and estimated exposure over the exposure; retrieval by Gini index."""
    a, seen, told, lines = run.arrays, {}, {}, {}
    for j, M in enumerate(run.config["M"]):
        x, m, theory = (a[n][:, :, j].ravel() for n in ("exposure", "matched", "foreseen"))
        order = np.argsort(x)[(x > 0).argsort(kind="stable").size - (x > 0).sum() :]
        parts = np.array_split(order, min(25, len(order)))
        lines[f"M = {M}"] = [[v[p].mean() for p in parts] for v in (x, theory)]
        seen[f"M = {M}"] = x[order], m[order]
        told[f"M = {M}"] = x[order], a["estimated"][:, :, j].ravel()[order]
    gini = {
        f"M = {M}": (a["gini"][:, :, j].mean(axis=0), a["matched"][:, :, j].mean(axis=(0, 2)))
        for j, M in enumerate(run.config["M"])
    }
    words = {"xlabel": "exposure", "log": "x"}
    return [
        against("overlap; line: foreseen", seen, lines=lines, diagonal=False, **words | UNIT),
        against("estimated exposure", told, **words | {"log": "xy"}),
        against("mean overlap", gini, diagonal=False, joined=True, xlabel="Gini index", **UNIT),
    ]


def _degree(nu: float | str) -> str:
    """Degrees of freedom as text; a run's config names the infinite ones "inf"."""
    return r"$\infty$" if nu == "inf" else f"{nu:g}"


def heavy_tails(run: Run) -> list[Panel]:
    """Counts and overlaps over nu, and the spectra of a draw at the heaviest tail."""
    a, c = run.arrays, run.config
    heaviest = int(np.argmin([float(nu) for nu in c["degrees"]]))
    at, names = [_degree(nu) for nu in c["degrees"]], ("sample covariance", "Tyler's shape")

    def lines(name: str) -> dict[str, np.ndarray]:
        return {
            f"{method}, q = {q:g}": a[name][:, :, j, k]
            for k, method in enumerate(names)
            for j, q in enumerate(c["ratios"])
        }

    words = {"xlabel": r"degrees of freedom $\nu$", "band": "sd", "points": True}
    K = {"test": len(c["exposures"])}
    made = [
        over("components counted", at, lines("n_detected"), levels=K, log="y", legend="", **words),
        over("subspace overlap", at, lines("overlap"), **words),
    ]
    for k, name in enumerate(names):
        values = a["eigenvalues"][0, heaviest, -1, k]
        levels = {"test": a["threshold"][0, heaviest, -1, k]}
        counted = a["n_detected"][0, heaviest, -1, k]
        title = rf"$\nu$ = {at[heaviest]}, q = {c['ratios'][-1]:g}: {counted} counted"
        words = {"xlabel": "rank", "ylabel": f"eigenvalue, {name}", "log": "xy", "points": True}
        rank = np.arange(1, len(values) + 1).tolist()
        made.append(over(title, rank, {"measured": values}, levels=levels, **words))
    return made


def correlated_noise(run: Run) -> list[Panel]:
    """Counts over the quality beside theory, and deformed bulks."""
    c, a = run.config, run.arrays
    noises = [(rf"AR(1), $\rho$ = {rho:g}", Population.ar1(rho)) for rho in c["rhos"]]
    blocks = np.array(c["blocks"])
    sizes = [len(part) for part in np.array_split(np.empty(c["N"]), len(blocks))]
    noises.append(("blocks", Population(blocks / np.average(blocks, weights=sizes), sizes)))
    counts, bulks = [], []
    for i, (title, noise) in enumerate(noises):
        lines = _by(("classical", "generalised", "whitened"), a["n_detected"][:, i], -1)
        theory = _by(("generalised", "whitened"), a["foreseen"][:, i].mean(axis=0), -1)
        words = {"xlabel": "quality r", "band": "sd", "points": True, "yscale": "symlog"}
        counts.append(over(f"counted, {title}", c["qualities"], lines, theory, **words))
        r, bins = c["qualities"][-1], a["bins"][0, i, -1]
        scaled = Population((1 - r**2) * noise.eigenvalues, noise.weights)
        x = np.linspace(bins[0], bins[-1], 500)[1:]
        law = x, general.density(x, scaled, c["ratio"])
        held = {"spectrum": a["histogram"][:, i, -1].sum(axis=0)}
        levels = _by(("classical", "generalised"), a["thresholds"][:, i, -1].mean(axis=0), -1)
        bulks.append(density(f"r = {r:g}, {title}", held, bins, law, levels=levels))
    return [*counts, *bulks]


def load(run: Run) -> list[Panel]:
    """Archetypes found and seconds over the load, for each number of sites."""
    modes = (
        "one operator", "one operator, unequal", "ten groups", "ten groups, unequal", "ten owners",
        "ten groups in layers",
    )  # fmt: skip
    found, seconds = [], []  # type: ignore[var-annotated]
    for j in np.argsort(run.config["N"])[::-1]:
        title, words = f"N = {run.config['N'][j]:,}", {"xlabel": "load K / N"}
        for made, name, label in (
            (found, "found", "part of archetypes found"),
            (seconds, "seconds", "seconds of processor time"),
        ):
            lines = _by(modes, run.arrays[name][:, :, j], 1)
            more = {"ylabel": label} | ({"log": "y"} if name == "seconds" else UNIT)
            made.append(over(title, run.config["loads"], lines, **words | more))
    return [panel for pair in zip(found, seconds, strict=True) for panel in pair]


def capacity(run: Run) -> list[Panel]:
    """Laws of the rules by load, capacities by size, and basins by kind of data."""
    c, a = run.config, run.arrays
    overlap, laws = a["random/overlap"][..., 0], {}
    for name, t in (("hebb", 0.0), ("dreamed", c["t"])):
        last = float(storage.capacity(t))
        x = np.linspace(0, last, 200)
        laws[name] = [*x, last], [*storage.magnetisation(x, t), 0]
    dots = {"points": True, "band": "error"}
    first = over(
        f"overlap, N = {c['N']:,}", c["loads"], _by(RULES[:3], overlap, 1), laws,
        xlabel="load K / N", **dots, **UNIT,
    )  # fmt: skip
    last = dense_storage.dense_capacity(3)
    x = np.linspace(0, last, 200)
    law = {"law": ([*x, last], [*dense_storage.dense_magnetisation(x, 3), 0])}
    dense = over(
        f"overlap, dense, N = {c['dense_sites']:,}", c["dense_loads"],
        {"dense": a["dense/overlap"][..., 0]}, law, xlabel="load $3 K / N^2$", **dots, **UNIT,
    )  # fmt: skip
    rates, beta = np.array(c["exp_rates"]), c["exp_beta"]
    x = np.linspace(rates[0], min(rates[-1], float(dense_storage.exponential_capacity(beta))), 100)
    line = x, (1 - dense_storage.exponential_reach(x, beta)) / 2
    title = rf"returned, exponential, $\beta$ = {beta:g}"
    words: dict[str, Any] = {"xlabel": "log(K) / N", "ylabel": "flips"}
    shares = a["exponential/returned"].mean(axis=0)
    exponential = matrix(title, shares, c["exp_rates"], c["flips"], line=line, half=False, **words)
    basins = []
    for name in ("random", "pictures", "table", "correlated"):
        means = a[f"{name}/overlap"].mean(axis=0)
        if np.isnan(means).all():
            continue
        held = {
            r: np.array([_edge(np.array(c["flips"]), row) for row in means[i]])
            for i, r in enumerate(RULES)
        }
        words = {"xlabel": "load K / N", "ylim": (-0.02, 0.5)}
        basins.append(over(f"flips that are repaired, {name}", c["loads"], held, **words))
    by_size = {n: tuple(np.array(run.summary["by_size"][n], float).T) for n in RULES[:2]}
    words = {"xlabel": "sites N", "levels": {"theory": 1.0}, "log": "x", "points": True}
    sizes = over("load at which half are lost over theory's", c["sizes"], by_size, **words)
    return [first, dense, exponential, *basins[:2], sizes, *basins[2:]]


def _edge(flips: np.ndarray, overlap: np.ndarray) -> float:
    """Largest share of flips from which the mean overlap is .95."""
    if np.isnan(overlap[0]) or overlap[0] < FOUND:
        return np.nan
    low = np.flatnonzero(overlap < FOUND)
    k = low[0] if len(low) else len(flips) - 1
    return float(np.interp(-FOUND, -overlap[[k - 1, k]], flips[[k - 1, k]]))


def disentangle(run: Run) -> list[Panel]:
    """Where mixtures come apart, by load, temperature and layers; then annealing and graphs."""
    c, a = run.config, run.arrays
    couplings, kinds = ("linear", "quadratic"), ("Hebb", "projector")
    apart, second = a["map/apart"].mean(axis=0), min(1, len(c["K"]) - 1)
    maps = {
        (i, j): matrix(
            f"taken apart: {couplings[i]}, {kinds[j]}", apart[i, j].max(axis=-1), c["K"],
            c["repulsions"], xlabel="stored patterns K", ylabel=r"repulsion $\lambda$",
        )
        for i in (0, 1)
        for j in (0, 1)
    }  # fmt: skip
    heat = [
        matrix(
            f"{couplings[i]}, K = {c['K'][second]}", apart[i, 1, second].T, c["temperatures"],
            c["repulsions"], xlabel="noise cools from T", ylabel=r"repulsion $\lambda$",
        )
        for i in (1, 0)
    ]  # fmt: skip
    parts = (0.0, 0.2, 0.4, 0.6, 0.8, 0.98)
    by_layers = a["layers/apart"].mean(axis=0).max(axis=-1)
    words: dict[str, Any] = {"xlabel": "layers, parts of the mixture"}
    layers = matrix("quadratic, K = 10", by_layers, c["layers"], parts, **words)
    schedules = (
        "none", "constant", "cooling", "authors", "no clamped field", "nor self-field",
        "full noise", "larger repulsion",
    )  # fmt: skip
    bars = {"share": a["annealing/apart"][:, :, second]}
    anneal = paired(f"taken apart by noise, K = {c['K'][second]}", schedules, bars, xlabel="share")
    graphs = _by(("all", "ring", "chain", "star"), a["general/part"], 1)
    words = {"xlabel": "repulsion, part of the largest", "ylim": (0, 1)}
    of_five = over("of five patterns found, by graph", [0.0, 0.2, 0.4, 0.7, 0.9], graphs, **words)
    first = [maps[1, 1], maps[0, 1], heat[0], layers, anneal, of_five]
    return [*first, maps[1, 0], maps[0, 0], heat[1]]


def completion(run: Run) -> list[Panel]:
    """Right entries over the share that is masked: stored patterns, and rows that were not."""
    methods = ("commoner value", "projector", "dense", "nearest row", "graded", "true classes")
    words = {"xlabel": "share masked", "ylim": (0.45, 1.02)}
    return [
        over(title, run.config["masked"], _by(names, run.arrays[f"{key}/right"], 1), **words)
        for key, title, names in (
            ("random", "right, random patterns", RULES),
            ("pictures", "right, pictures", RULES),
            ("table", "right, rows that were not stored", methods),
        )
    ]


def tables(run: Run) -> list[Panel]:
    """Likelihood over the rival's, masked entries and seconds on real tables."""
    names = run.summary["tables"]
    methods = ["hopfed", f"hopfed, {run.config['owners']} owners", *run.config["methods"]]
    rival = next((m for m in ("stepmix", "one class") if m in methods), "hopfed")
    held = {n: run.arrays[n] for n in ("likelihood", "masked", "seconds")}
    gains = held["likelihood"] - held["likelihood"][..., methods.index(rival), None]
    title = f"held-out nats an entry, over {rival}"
    marks = {m: v for m, v in _by(methods, gains, -1).items() if m not in (rival, "one class")}
    made = [paired(title, names, marks or _by(methods, gains, -1), level=0.0)]
    for title, name, log in (
        ("masked entries that are right", "masked", ""),
        ("seconds", "seconds", "x"),
    ):
        marks = {m: v for m, v in _by(methods, held[name], -1).items() if m != "one class"}
        made.append(paired(title, names, marks, log=log))
    return made


def scale(run: Run) -> list[Panel]:
    """Seconds, memory and bytes sent against the larger side."""
    N, M = np.array(run.config["N"]), np.array(run.config["M"])
    larger, smaller = np.maximum(N, M), np.minimum(N, M)
    a = {name: np.median(v, axis=0) for name, v in run.arrays.items() if name != "seeds"}
    made = []
    for label, name, unit in (
        ("seconds", "seconds", 1), ("peak memory (GB)", "peak", 1e9),
        ("sent by a client (MB)", "sent", 1e6),
    ):  # fmt: skip
        points = {}
        for side in np.unique(smaller):
            at = np.flatnonzero(smaller == side)
            at = at[np.argsort(larger[at])]
            points[f"smaller side {side:,}"] = larger[at], a[name][at] / unit
        order = np.argsort(N)
        dense = {} if unit == 1 else {"foreseen": (N[order], a["dense"][order] / unit)}
        words = {"xlabel": "larger of N and M; grey: dense", "log": "xy", "joined": True}
        made.append(against(label, points, lines=dense, diagonal=False, **words))
    return made


def attacker(run: Run) -> list[Panel]:
    """Weights over rounds by rule, and the lowest m (Fig. 6); most attackers first."""
    c, made = run.config, []
    scenarios = list(zip(c["attackers"], c["noise"], strict=True))
    for n, r in sorted(scenarios, reverse=True):
        at, lowest = f"{n} of r={r:g}", {}
        for rule in ("entropy", "agreement", "structure"):
            w = np.moveaxis(
                run.arrays[f"{at}/{rule}/client/weight"], 1, 2
            )  # seeds, clients, rounds
            good = c["clients"] - n
            lines = {
                "good": w[:, :good].reshape(-1, w.shape[2]),
                "attacker": w[:, good:].reshape(-1, w.shape[2]),
            }
            words = {"xlabel": "round", "ylabel": "weight w"}
            made.append(over(f"{rule} rule, {at}", _rounds(w.shape[2]), lines, **words | UNIT))
            lowest[rule] = run.arrays[f"{at}/{rule}/magnetisation"].min(axis=2)
        words = {"xlabel": "round", "ylabel": "lowest m"}
        made.append(over(f"remembered, {at}", _rounds(c["rounds"]), lowest, **words | UNIT))
    return made


def drift(run: Run) -> list[Panel]:
    """Exposures and m under each variant, where the variants end most differently (Fig. 7)."""
    c, a = run.config, run.arrays
    variants = ("w = 0", "w = 1", "entropy", "structure", "kept apart")
    rows = [f"{s}/r={r:g}" for s in ("sequential", "cyclic") for r in c["qualities"]]

    def apart(at: str) -> float:
        ends = [a[f"{at}/{name}/magnetisation"][:, -1].mean() for name in variants]
        return -float(np.ptp(ends))

    made = []
    archetypes = [f"archetype {k + 1}" for k in range(c["K"])]
    for at in sorted(rows, key=apart):
        words = {"xlabel": "round"} | UNIT
        place = at.replace("/", ", ")
        pairs = [(f"exposure, {place}", a[f"{at}/exposures"])]
        pairs += [(f"m: {n}, {place}", a[f"{at}/{n}/magnetisation"]) for n in variants]
        made += [over(t, _rounds(c["rounds"]), _by(archetypes, v, -1), **words) for t, v in pairs]
    return made


def privacy(run: Run) -> list[Panel]:
    """Archetypes counted and recovered over epsilon, and each one's overlap; lines are theory."""
    c, a, s = run.config, run.arrays, run.summary
    budgets = ["none" if float(e) == np.inf else f"{float(e):g}" for e in c["epsilons"]]
    keys = [f"{float(e):g}" for e in c["epsilons"]]
    lines = {
        "counted": a["n_detected"],
        "recovered, |m| >= .9": (a["magnetisation"] >= RECOVERED).sum(axis=-1),
    }
    theory = {
        "counted": [s[f"n_detected_{k}_foreseen"] for k in keys],
        "recovered, |m| >= .9": [s[f"recovered_{k}_foreseen"][0] for k in keys],
    }
    words = {"xlabel": r"privacy budget $\varepsilon$", "points": True, "band": "sd"}
    made = [over("archetypes", budgets, lines, theory, **words)]
    names = [rf"$\pi$ = {e:g}" for e in c["exposures"]]
    for title, name in (("overlap", "overlap"), ("magnetisation |m|", "magnetisation")):
        guess = _by(names, a[f"foreseen/{name}"].mean(axis=0), -1)
        made.append(over(title, budgets, _by(names, a[name], -1), guess, **words | UNIT))
    return made


def ablation(run: Run) -> list[Panel]:
    """What is lost and falsely reported without each ingredient, and what the whole retrieves."""
    c, a, s = run.config, run.arrays, run.summary
    names = [k.removeprefix("magnetisation_") for k in s if k.startswith("magnetisation_")]
    less = [n for n in names if n != "full"]
    settings = {"few": f"{c['few']} random", "many": f"{c['many']} random", "letters": "26 letters"}
    made = []
    for title, what in (("lost against the full recovery", "lost"), ("false", "false")):
        marks = {}
        for key, label in settings.items():
            pairs = [s[f"{what}_{n}_{key}"] for n in less]
            marks[label] = tuple(np.array([[x or 0 for x in pair] for pair in pairs]).T)
        rows = [n.replace("_", " ") for n in less]
        made.append(paired(f"{title}, part of K", rows, marks, level=0.0))
    for i, label in enumerate(settings.values()):
        K = a["n_archetypes"][0, i]
        lines = {f"retrieved, {n}": a[f"found/{n}"][:, i] / K for n in ("full", "no_layered")}
        lines["false, full"] = a["false/full"][:, i] / K
        best = {"foreseen": a["detectable"][:, i].mean(axis=0) / K}
        words = {"xlabel": "quality r", "ylabel": "part of K"}
        made.append(over(label, c["qualities"], lines, best, **words | UNIT))
    return made


def structured(run: Run) -> list[Panel]:
    """Pictures in and out of the first seed, and the lowest m of each set (Figs. 9, 10)."""
    c, a = run.config, run.arrays
    changed = {1.0: "", 0.0: " deflated"}
    sets = [
        f"{K}{changed.get(o, ' decorrelated')}"
        for K, o in zip(c["pictures"], c["overlap"], strict=True)
    ]
    curves, mosaics = [], []
    for r in sorted(c["qualities"]):
        lines = {n: a[f"{n}, r={r:g}/magnetisation"].min(axis=2) for n in sets}
        words = {"xlabel": "round", "ylim": (0.4, 1.03)}
        curves.append(over(f"lowest m, r = {r:g}", _rounds(c["rounds"]), lines, **words))
        for name in sorted(sets, key=lambda n: -int(n.split()[0])):
            truth, shown, made = (
                a[f"{name}, r={r:g}/{what}"][0]
                for what in ("archetypes", "examples", "reconstructions")
            )
            at = f"{name}, r = {r:g}"
            mosaics.append(pictures(f"examples: {at}", shown[0]))
            mosaics.append(pictures(f"after 1 round: {at}", made[0], truth[0]))
            mosaics.append(pictures(f"after {c['rounds']}: {at}", made[-1], truth[0]))
    return [*mosaics[:3], *curves, *mosaics[3:]]


def cooperation(run: Run) -> list[Panel]:
    """Magnetisation and false discoveries, alone and together, those that see least first."""
    a, seen, false = run.arrays, [], []  # type: ignore[var-annotated]
    names = sorted(
        {k.split("/")[0] for k in a if k.endswith("/foreseen/margin")},
        key=lambda n: float(a[f"{n}/foreseen/margin"][0, 0, 0]),
    )
    for name in names:
        alone = [
            k.split("/")[1] for k in a if k.startswith(f"{name}/alone ") and k.endswith("/false")
        ]
        who = {"together": "fixed", "structure rule": "structure"}
        title = name.replace(" of ", " clients of ")
        for made, what in ((seen, "magnetisation"), (false, "false")):
            lines = {n: _mean(a[f"{name}/{k}/{what}"]) for n, k in who.items()}
            held = [_mean(a[f"{name}/{k}/{what}"]) for k in sorted(alone)]
            lines["alone"] = np.concatenate(held)
            theory = a[f"{name}/foreseen/magnetisation"][0]
            guess = {"together": theory[:, 0], "alone": theory[:, 1:].mean(axis=1)}
            foreseen = guess if what == "magnetisation" else {}
            at = _rounds(run.config["rounds"])
            made.append(over(f"{what}: {title}", at, lines, foreseen, xlabel="round"))
    return [*seen[:3], *false[:3], *seen[3:], *false[3:]]


def _mean(values: np.ndarray) -> np.ndarray:
    """(seeds, rounds), mean over the archetypes if there are any."""
    return values.mean(axis=2) if values.ndim == 3 else values


def _first(events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First round of events (S, T, K), and whether they happen at all."""
    return events.argmax(axis=1), np.asarray(events.any(axis=1))


def novelty(run: Run) -> list[Panel]:
    """Counts beside theory, and rounds until new archetypes are remembered, by scenario."""
    c, a, T = run.config, run.arrays, run.config["rounds"]
    rows = {
        "equal": ("carried", "paper"),
        "rare": ("fresh", "carried", "paper"),
        "scarce": ("fresh", "carried"),
    }
    counts, late, gaps, sharp = [], [], [], []
    for scenario, mechanisms in rows.items():
        lines, shares, gap = {}, {}, {}
        for name in mechanisms:
            at = f"{scenario}/{name}"
            lines[name] = a[f"{at}/n_detected"]
            due, ever = _first(a[f"{at}/foreseen/distance"][:, :, c["old"] :] > 0)
            seen, found = _first(a[f"{at}/magnetisation"][:, :, c["old"] :] >= FOUND)
            wait = np.clip((seen - due)[ever & found], -1, 4)
            held = [*((wait == b).sum() for b in range(-1, 5)), (ever & ~found).sum()]
            shares[name] = np.array(held) / max(ever.sum(), 1)
            values = a[f"{at}/eigenvalues"]
            gap[name] = 1 - values[..., c["old"]] / values[..., c["old"] - 1]
        new = a[f"{scenario}/carried/foreseen/distance"][:, :, c["old"] :] > 0
        theory = {"carried": c["old"] + new.sum(axis=2).mean(axis=0)}
        title, words = f"{scenario} new ones", {"xlabel": "round"}
        counts.append(over(f"counted: {title}", _rounds(T), lines, theory, **words))
        at_rounds = ["early", "0", "1", "2", "3", "4+", "not"]
        words = {"xlabel": "rounds after foreseen", "points": True} | UNIT  # type: ignore[assignment]
        late.append(over(f"remembered: {title}", at_rounds, shares, **words))
        gaps.append(over(f"relative gap: {title}", _rounds(T), gap, xlabel="round", **UNIT))
        m = a[f"{scenario}/carried/magnetisation"]
        lines = {"old": m[:, :, : c["old"]].mean(axis=2), "new": m[:, :, c["old"] :].mean(axis=2)}
        sharp.append(over(f"m, carried: {title}", _rounds(T), lines, xlabel="round", **UNIT))
    return [*counts, *late, *sharp, *gaps]


def participation(run: Run) -> list[Panel]:
    """Detection over its prediction, rounds until then, and archetypes over rounds and bytes."""
    c, a, T = run.config, run.arrays, run.config["rounds"]
    names = [
        f"{rate:.0%}" + (f", {late:.0%} late" if late else "")
        for rate, late in zip(c["rates"], c["late"], strict=True)
    ]
    gap = {n: a[f"{n}/foreseen/distance"] for n in names}
    seen = {n: a[f"{n}/n_detected"][..., None] > a[f"{n}/foreseen/place"] for n in names}
    edges, parts, spreads = np.arange(-3.5, 5.01, 0.5), [], []
    distance, counted = (np.concatenate([v[n].ravel() for n in names]) for v in (gap, seen))
    for low in edges[:-1]:
        inside = counted[(distance >= low) & (distance < low + 0.5)]
        part = inside.mean() if len(inside) else np.nan
        parts.append(part)
        spreads.append(np.sqrt(part * (1 - part) / max(len(inside), 1)))
    middle = (edges[:-1] + 0.25).tolist()
    words: dict[str, Any] = {"xlabel": "foreseen above the test's level, in sd", "points": True}
    lines, theory = {"measured": (parts, spreads)}, {"foreseen": ndtr(np.array(middle))}
    made = [over("part detected", middle, lines, theory, **words)]
    table = np.zeros((T + 1, T + 1))
    for n in names:
        rows = [np.where(e.any(axis=1), e.argmax(axis=1), T).ravel() for e in (gap[n] > 0, seen[n])]
        np.add.at(table, tuple(rows), 1)
    at = [*range(T), "never"]
    words = {"xlabel": "first round foreseen", "ylabel": "first round detected", "half": False}
    share = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    made.append(matrix("share of those foreseen then", share, at, at, **words))
    so_far = {n: np.logical_or.accumulate(seen[n], axis=1).sum(axis=2) for n in names}
    due = {n: np.logical_or.accumulate(gap[n] > 0, axis=1).sum(axis=2).mean(axis=0) for n in names}
    made.append(over("archetypes detected so far", _rounds(T), so_far, due, xlabel="round"))
    points = {}
    for n in names:
        found = (a[f"{n}/magnetisation"][:, -1] >= FOUND).sum(axis=1)
        points[n] = a[f"{n}/traffic/up"].sum(axis=(1, 2)) / 1e6, found
    words = {"xlabel": "megabytes up", "ylabel": f"archetypes found (m >= {FOUND:g})"}
    return [*made, against("at the end", points, diagonal=False, **words)]


def byzantine(run: Run) -> list[Panel]:
    """False discoveries, what defences cost a rare archetype, theory, and ROC curves."""
    c, a, T = run.config, run.arrays, run.config["rounds"]
    defences = ("none", "persistence", "agreement", "both", "median", "trimmed")
    few, many = min(c["attackers"]), max(c["attackers"])
    false = {}
    for n in dict.fromkeys((many, few)):
        for kind in ("fixed", "wandering"):
            lines = {d: a[f"{n} {kind}/{d}/false"] for d in defences}
            title = f"false, {n} of {c['clients']} lie, {kind}"
            false[n, kind] = over(title, _rounds(T), lines, xlabel="round")
    rare = {d: a[f"rare/{d}/magnetisation"][:, :, -1] >= RECOVERED for d in defences}
    kept = {d: (a[f"{many} fixed/{d}/magnetisation"] >= RECOVERED).mean(axis=2) for d in defences}
    words: dict[str, Any] = {"xlabel": "round", "ylabel": "share broadcast"} | UNIT
    costs = over(f"archetype of {c['few']} clients", _rounds(T), rare, **words)
    theory = {
        what: over(
            title, x, {"measured": a[what].mean(axis=1)}, {"foreseen": a[f"foreseen/{what}"][0, 0]},
            points=True, band="error", ylabel="share of rounds", **UNIT, **labels,
        )
        for what, title, x, labels in (
            ("visible", "one liar's spike is counted", c["amplitudes"], {"xlabel": "amplitude a"}),
            ("passing", "spike in half of the groups", c["attackers"], {"xlabel": "liars"}),
        )
    }  # fmt: skip
    rocs = {(t, k): _roc(run, t, k) for t in ("rare", "common") for k in ("wandering", "fixed")}
    first = [false[many, "fixed"], false[many, "wandering"], costs, *theory.values()]
    more = [panel for (n, _), panel in false.items() if n != many]
    held = over("archetypes, with liars", _rounds(T), kept, **words)
    return [*first, *rocs.values(), *more, held]


def _roc(run: Run, truth: str, kind: str) -> Panel:
    """Share of archetypes against share of injected patterns above any threshold."""
    K, curves = run.config["K"], {}
    for score in ("level", "rounds", "groups"):
        which = "level" if score == "rounds" else score
        lies = run.arrays[f"{max(run.config['attackers'])} {kind}/support/{which}"]
        rare = run.arrays[f"rare/support/{which}"][..., K - 1 : K]
        true, false = (lies[..., :K] if truth == "common" else rare), lies[..., K:]
        if score == "rounds":  # number of rounds whose pooled operators support a pattern
            true, false = ((v > 3.0).sum(axis=1) for v in (true, false))
        else:  # a pattern in its own round
            false = np.diagonal(false, axis1=1, axis2=2)
        true, false = true.ravel(), false.ravel()
        levels = np.unique(np.concatenate([true, false]))[::-1]
        curves[score] = [[0.0, *((v >= u).mean() for u in levels)] for v in (false, true)]
    words = {"xlabel": "injected passed", "ylabel": "archetypes passed", "joined": True}
    return against(f"{truth} against {kind}", curves, **words)
