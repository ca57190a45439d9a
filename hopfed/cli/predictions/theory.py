"""`hopfed theory`: closed-form predictions as tables, JSON and figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import numpy as np

from hopfed.cli import HelpfulGroup
from hopfed.cli.numbers import FINITE, WHOLE
from hopfed.cli.predictions.plan import plan_command
from hopfed.cli.predictions.tables import Columns, numbers, output_options, show
from hopfed.cli.printing import err
from hopfed.errors import ArgumentError
from hopfed.theory.planning import FALSE_ALARM


@click.group("theory", cls=HelpfulGroup)
def theory_command() -> None:
    """Print random-matrix predictions: tables, --json, or a --figure.

    Example: hopfed theory spike --N 400 --M 1600 --r 0.2 --exposure 0.5,0.3,0.2
    """


theory_command.add_command(plan_command)


@theory_command.command("mp")
@numbers("--q", "q", "Aspect ratio N / M.", "0.5")
@click.option("--variance", type=FINITE, default=1.0, show_default=True, help="Noise variance.")
@numbers("--at", "at", "Places at which to give density and distribution.")
@numbers("--p", "p", "Levels at which to give quantiles.")
@output_options
def mp_command(q: np.ndarray, variance: float, at: Any, p: Any, **options: Any) -> None:
    """Marchenko-Pastur law: edges, atom, median; density, distribution, quantiles.

    Example: hopfed theory mp --q 0.25,1 --p 0.5,0.99
    """
    from hopfed.theory import marchenko_pastur as law

    lower, upper = law.edges(q, variance)
    tables: dict[str, Columns] = {
        "edges": {
            "q": q,
            "lower": lower,
            "upper": upper,
            "atom": law.atom(q),
            "median_nonzero": law.median_nonzero(q, variance),
        }
    }
    column = q[:, None]
    if at is not None:
        density, mass = law.pdf(at, column, variance), law.cdf(at, column, variance)
        tables["values"] = {"q": column, "x": at, "density": density, "distribution": mass}
    if p is not None:
        tables["quantiles"] = {"q": column, "p": p, "x": law.quantile(p, column, variance)}
    show(tables, options, "mp", q=q, variance=variance)


@theory_command.command("tw")
@click.option("--beta", type=WHOLE, default=1, show_default=True, help="1 (real) or 2 (complex).")
@numbers("--p", "p", "Levels at which to give quantiles.", "0.5,0.9,0.95,0.99,0.999")
@numbers("--at", "at", "Places at which to give distribution, upper tail and density.")
@click.option("--N", "sites", type=WHOLE, help="Sites: with --M, quantiles as eigenvalues too.")
@click.option("--M", "samples", type=WHOLE, help="Examples.")
@click.option("--variance", type=FINITE, default=1.0, show_default=True, help="Noise variance.")
@output_options
def tw_command(
    beta: int, p: np.ndarray, at: Any, sites: Any, samples: Any, variance: float, **options: Any
) -> None:
    """Tracy-Widom law: quantiles, moments, values; thresholds for noise of a given size.

    Example: hopfed theory tw --p 0.95,0.99 --N 400 --M 1600
    """
    from hopfed.theory import _check
    from hopfed.theory import tracy_widom as law

    quantiles: dict[str, Any] = {"p": p, "quantile": law.quantile(p, beta)}
    if (sites is None) != (samples is None):
        raise ArgumentError("--N and --M", "given together", "one of them")
    if sites is not None:
        if beta != 1:
            raise ArgumentError("--beta", "1 with --N and --M, whose data are real", beta)
        centre, scale = law.wishart_scaling(samples, sites)
        s2 = _check.positive("variance", variance)
        quantiles["eigenvalue"] = s2 * (centre + scale * quantiles["quantile"]) / samples
    tables: dict[str, Columns] = {"quantiles": quantiles, "moments": law.moments(beta)._asdict()}
    if at is not None:
        values = {"distribution": law.cdf, "upper_tail": law.sf, "density": law.pdf}
        tables["values"] = {"s": at} | {name: f(at, beta) for name, f in values.items()}
    show(tables, options, "tw", beta=beta)


@theory_command.command("bounds")
@click.option("--N", "sites", type=WHOLE, required=True, help="Sites.")
@numbers("--M", "samples", "Examples of the round.", "100,1000,10000")
@click.option("--r", type=FINITE, default=0.8, show_default=True, help="Quality.")
@numbers("--exposure", "exposure", "Shares of the examples; of any mixture when left out.")
@click.option("--level", type=FINITE, default=0.05, show_default=True, help="Chance to be beyond.")
@click.option("--c", type=FINITE, default=0.375, show_default=True, help="c of (35), (36), (38).")
@click.option("--C", "sites_power", type=FINITE, default=1.0, show_default=True, help="C of (38).")
@numbers("--band", "constants", "C and C' of (40). [default: as fitted to noise]")
@output_options
def bounds_command(
    sites: int,
    samples: np.ndarray,
    r: float,
    exposure: Any,
    level: float,
    c: float,
    sites_power: float,
    constants: Any,
    **options: Any,
) -> None:
    """How far, at a given level, the operator is from its mean, and the bulk from its edges.

    The deviation is ||J - E J|| for an operator J of trace 1: Bernstein's bound, and the forms
    (35), (36) and (38) of the Hopfield paper, which leaves their constants open. The band (39),
    (40) holds all eigenvalues of N J but those of the archetypes.

    Example: hopfed theory bounds --N 400 --M 1000,10000 --r 0.6 --exposure 0.5,0.3,0.2
    """
    from hopfed.theory import _check, concentration

    _check.probability("r", r)  # at 1 there is no noise, and no band of it
    _check.positive("c", c)
    _check.positive("C", sites_power)
    pair = concentration.FITTED if constants is None else tuple(np.ravel(constants).tolist())
    _check.nonnegative("band", pair)
    if len(pair) != 2:
        raise ArgumentError("--band", "two numbers, C and C'", constants)
    if exposure is not None and exposure.sum() > 1 + 1e-9:
        raise ArgumentError("--exposure", "shares that sum to at most 1", exposure.sum())
    proxy = min(float(concentration.variance_proxy(r, sites, exposure)), 0.25)
    noise = 1 - r**2
    lower, upper = concentration.bulk_band(sites, samples, level, noise, pair)
    tables: dict[str, Columns] = {
        "deviation": {
            "M": samples,
            "bernstein": concentration.bernstein_deviation(level, sites, samples, proxy),
            "form_35": concentration.sub_gaussian_deviation(level, sites, samples, 1.0, c),
            "form_36": concentration.paper_deviation(level, sites, samples, proxy, c),
            "form_38": concentration.refined_deviation(level, sites, samples, (c, sites_power)),
        },
        "band": {"M": samples, "lower": lower, "upper": upper},
    }
    drawn = {"N": sites, "M": samples, "r": r, "level": level, "proxy": proxy}
    show(tables, options, "bounds", **drawn, constants=(c, sites_power), band=pair)


@theory_command.command("spike")
@numbers("--kappa", "kappa", "Strength in units of the noise variance; or --r and --exposure.")
@click.option("--q", type=FINITE, help="Aspect ratio N / M; or --N and --M.")
@click.option("--variance", type=FINITE, help="Noise variance. [default: 1 - r^2, or 1]")
@click.option("--r", type=FINITE, help="Quality of the examples.")
@numbers("--exposure", "exposure", "Share of the examples.")
@click.option("--N", "sites", type=WHOLE, help="Sites.")
@click.option("--M", "samples", type=WHOLE, help="Examples.")
@numbers("--eigenvalue", "eigenvalue", "Measured eigenvalues to turn into strengths.")
@output_options
def spike_command(**options: Any) -> None:
    """Where an archetype's eigenvalue lands, how its eigenvector aligns, and the inverse.

    Example: hopfed theory spike --kappa 0.5,1,2 --q 0.5
    """
    from hopfed.theory import spikes

    q, variance, kappa = _spike_arguments(options)
    edge = spikes.outlier(spikes.threshold(q), q, variance)
    tables: dict[str, Columns] = {"bulk": {"q": q, "edge": edge, "threshold": spikes.threshold(q)}}
    if kappa is not None:
        seen = spikes.outlier(kappa, q, variance)
        overlap = spikes.overlap(kappa, q)
        found = {"kappa": kappa, "detectable": kappa > spikes.threshold(q)}
        found |= {"eigenvalue": seen, "overlap": overlap}
        if options["samples"] is not None:
            share = options["exposure"]
            sd = spikes.outlier_sd(kappa, q, options["samples"], variance, exposure=share)
            found["eigenvalue_sd"] = sd
        tables["spikes"] = found
    if options["eigenvalue"] is not None:
        strength = spikes.strength(options["eigenvalue"], q, variance)
        tables["inverse"] = {"eigenvalue": options["eigenvalue"], "kappa": strength}
    show(tables, options, "spike", q=q, variance=variance, kappa=kappa)


def _spike_arguments(options: Mapping[str, Any]) -> tuple[float, float, np.ndarray | None]:
    """(q, variance, kappa) from whichever way they were given."""
    from hopfed.theory import _check, spikes

    r, exposure, q = options["r"], options["exposure"], options["q"]
    sites, samples, kappa = options["sites"], options["samples"], options["kappa"]
    if q is None:
        if sites is None or samples is None:
            raise ArgumentError("--q", "given, or --N and --M", "neither")
        q = float(_check.count("N", sites)) / float(_check.count("M", samples))
    elif sites is not None and samples is not None:
        raise ArgumentError("--q", "left out beside --N and --M", q)
    if kappa is None and exposure is not None:
        if r is None or sites is None:
            raise ArgumentError("--exposure", "given together with --r and --N", exposure)
        kappa = spikes.spike_strength(r, exposure, sites)
    elif kappa is None and options["eigenvalue"] is None:
        raise ArgumentError("--kappa", "given, or --exposure with --r and --N", "neither")
    if exposure is not None and exposure.sum() > 1 + 1e-9:
        raise ArgumentError("--exposure", "shares that sum to at most 1", f"{exposure.sum():g}")
    if r is not None and not 0 < r < 1:
        raise ArgumentError("--r", "a number in (0, 1)", r)
    variance = options["variance"]
    if variance is None:
        variance = 1.0 if r is None else 1 - r**2
    return q, variance, kappa


@theory_command.command("phase")
@click.option("--N", "sites", type=WHOLE, required=True, help="Sites.")
@click.option("--M", "samples", type=WHOLE, required=True, help="Examples.")
@numbers("--r", "r", "Qualities.", "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9")
@numbers("--exposure", "exposure", "Exposures to place in the diagram.")
@click.option("--power", type=FINITE, default=0.9, show_default=True, help="Of the test.")
@click.option(
    "--alpha", type=FINITE, default=FALSE_ALARM, show_default=True, help="False-alarm rate."
)
@output_options
def phase_command(
    sites: int,
    samples: int,
    r: np.ndarray,
    exposure: Any,
    power: float,
    alpha: float,
    **options: Any,
) -> None:
    """Which exposures can be seen at which quality, from N sites and M examples.

    Example: hopfed theory phase --N 400 --M 1600 --r 0.2,0.5 --figure phase.png
    """
    from hopfed.theory import planning

    tables: dict[str, Columns] = {
        "boundary": {
            "r": r,
            "least_exposure": planning.minimal_exposure(r, sites, samples),
            f"for_power_{power:g}": planning.exposure_needed(r, sites, samples, power, alpha),
        }
    }
    if exposure is not None:
        diagram = planning.phase_diagram(r, exposure, sites, samples)
        tables["diagram"] = {
            "r": diagram.qualities[:, None],
            "exposure": diagram.exposures,
            "detectable": diagram.detectable,
            "margin": diagram.margin,
            "eigenvalue": diagram.eigenvalue,
            "overlap": diagram.overlap,
        }
    arguments = {"N": sites, "M": samples, "power": power, "false_alarm": alpha}
    show(tables, options, "phase", **arguments)


@theory_command.command("capacity")
@numbers("--t", "t", "Dreaming times; 0 is Hebb's rule.", "0,0.1,0.5,1,2,5,10")
@numbers("--alpha", "alpha", "Loads at which to give the magnetisation.")
@numbers("--temperature", "temperature", "Temperatures at which to give Hebb's capacity.")
@click.option("--simulate", type=WHOLE, help="Also simulate a memory of this many sites.")
@click.option("--seed", type=WHOLE, default=0, show_default=True, help="Of the simulation.")
@output_options
def capacity_command(
    t: np.ndarray, alpha: Any, temperature: Any, simulate: int | None, seed: int, **options: Any
) -> None:
    """How many archetypes an associative memory holds: Hebb, dreaming, projector.

    Example: hopfed theory capacity --t 0,1 --alpha 0.1,0.3 --figure capacity.png
    """
    from hopfed._lib.random import check_seed
    from hopfed.theory import storage, storage_thermal

    check_seed(seed)
    if simulate is not None and not 100 <= simulate <= 20_000:
        raise ArgumentError("--simulate", "between 100 and 20000 sites", simulate)
    capacity = storage.capacity(t)
    if (t > 20).any():
        raise ArgumentError("--t", "at most 20; the projector's capacity, its limit, is 1", t.max())
    last = storage.critical_magnetisation(t)
    tables: dict[str, Columns] = {"capacity": {"t": t, "capacity": capacity, "magnetisation": last}}
    if alpha is not None:
        m = storage.magnetisation(alpha, t[:, None])
        tables["magnetisation"] = {"t": t[:, None], "alpha": alpha, "magnetisation": m}
    if temperature is not None:
        load = storage_thermal.thermal_capacity(temperature)
        tables["temperature"] = {"temperature": temperature, "capacity": load}
    points = [] if simulate is None else _simulated(t, simulate, seed)
    if points:
        names = ("t", "alpha", "simulated", "standard_error")
        tables["simulation"] = dict(zip(names, np.array(points).T, strict=True))
    show(tables, options, "capacity", t=t, points=points)


def _simulated(t: np.ndarray, N: int, seed: int) -> list[tuple[float, float, float, float]]:
    """(t, load, mean magnetisation, standard error) at five loads around each capacity."""
    from hopfed._lib.random import stream
    from hopfed.theory import storage

    points = []
    with err.status("simulating"):
        for time in t.tolist():
            for share in (0.4, 0.7, 0.9, 1.1, 1.3):
                load = share * float(storage.capacity(time))
                rng = stream(seed, "storage", str(time), str(share))
                run = storage.simulate_storage(rng, N, load, time)
                points.append((time, run.load, run.mean, run.standard_error))
    return points
