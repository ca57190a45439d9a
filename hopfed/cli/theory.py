"""`hopfed theory`: closed-form predictions as tables, JSON and figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from hopfed.cli import HelpfulGroup
from hopfed.cli.numbers import FINITE, NUMBER, NUMBERS, WHOLE, Parsed, several
from hopfed.cli.outputs import FIGURE, check_outputs, figure_option, json_option, overwrite_option
from hopfed.cli.printing import err, out, shown, table
from hopfed.errors import ArgumentError
from hopfed.runs import plain
from hopfed.theory.planning import FALSE_ALARM

if TYPE_CHECKING:
    from hopfed.theory.graded_planning import ClassLaw, GradedPlan

# What the laws call an argument -> its option, where that has another name.
ARGUMENTS = {
    "false_alarm": "--alpha",
    "delta": "--level",
    "exposures": "--exposure",
    "qualities": "--r",
}
MANY = NUMBERS

Columns = Mapping[str, Any]  # name -> array or number, broadcast against each other
Option = tuple[str, Any, Any, str]  # flag, type, default, help

N: Option = ("--N", WHOLE, None, "Sites.")
M: Option = ("--M", WHOLE, None, "Examples.")
SEED: Option = ("--seed", WHOLE, 0, "Of the simulation.")
VARIANCE: Option = ("--variance", FINITE, 1.0, "Noise variance.")
LEVELS: Option = ("--p", MANY, None, "Levels at which to give quantiles.")
DRAWS = 1_000  # of a spectrum: the errors of its means are a thirtieth of the deviations
POWER: Option = ("--power", FINITE, 0.9, "Of the test.")
ALPHA: Option = ("--alpha", FINITE, FALSE_ALARM, "False-alarm rate.")


@click.group("theory", cls=HelpfulGroup)
def theory_command() -> None:
    """Print random-matrix predictions: tables, --json, or a --figure.

    Example: hopfed theory spike --N 400 --M 1600 --r 0.2 --exposure 0.5,0.3,0.2
    """


def prediction(name: str, *options: Option, needs: str = "") -> Callable[..., Any]:
    """Make a function a command of `hopfed theory`, with options named as its arguments.

    Options in `needs` must be given. All have --json, --figure and --overwrite. Errors name the
    option, not the argument of the law.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def run(**given: Any) -> Any:
            check_outputs(("--figure", given["figure"], FIGURE))
            try:
                return command(**given)
            except ArgumentError as error:
                flag = _flag(error.argument)
                if flag == error.argument:
                    raise
                raise ArgumentError(flag, error.rule, error.got) from error

        made: Callable[..., Any] = json_option(figure_option(overwrite_option(run)))
        for flag, kind, default, words in reversed(options):
            more = {} if default is None else {"default": default, "show_default": True}
            more |= {"required": True} if flag in needs.split() else {}
            made = click.option(flag, flag.lstrip("-"), type=kind, help=words, **more)(made)
        return theory_command.command(name)(made)

    return add


def _flag(argument: str) -> str:
    """Option of the command that is running from which a law has its argument."""
    held = {flag for param in click.get_current_context().command.params for flag in param.opts}
    names = (f"--{argument}", ARGUMENTS.get(argument, ""))
    return next((flag for flag in names if flag in held), argument)


def show(
    tables: Mapping[str, Columns], options: Mapping[str, Any], name: str, **drawn: Any
) -> None:
    """Print the tables as text or JSON, and draw the figure `name` when one was asked for."""
    rows = {title: _rows(columns) for title, columns in tables.items()}
    if options["as_json"]:
        print(json.dumps(plain(rows)))
    else:
        for place, records in enumerate(rows.values()):
            if place:
                out.print("")
            grid = table(*records[0])
            for record in records:
                grid.add_row(*(cell(value) for value in record.values()))
            out.print(grid)
    if options["figure"] is not None:
        from hopfed.figures import save, theory

        save(getattr(theory, name)(**drawn), options["figure"])
        if not options["as_json"]:
            out.print(f"wrote {shown(options['figure'])}")


def _rows(columns: Columns) -> list[dict[str, Any]]:
    arrays = np.broadcast_arrays(*(np.asarray(c) for c in columns.values()))
    flat = [np.atleast_1d(a).ravel().tolist() for a in arrays]
    return [dict(zip(columns, row, strict=True)) for row in zip(*flat, strict=True)]


def cell(value: Any) -> str:
    """Print a number, a truth value or a word."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if np.isnan(value):
        return "-"
    return f"{int(value)}" if value == np.round(value) and abs(value) < 1e12 else f"{value:.6g}"


@prediction(
    "mp",
    ("--q", MANY, "0.5", "Aspect ratio N / M."),
    VARIANCE,
    ("--at", MANY, None, "Places at which to give density and distribution."),
    LEVELS,
)
def mp_command(q: np.ndarray, variance: float, at: Any, p: Any, **options: Any) -> None:
    """Marchenko-Pastur law: edges, atom, median; density, distribution, quantiles.

    Example: hopfed theory mp --q 0.25,1 --p 0.5,0.99
    """
    from hopfed.theory import marchenko_pastur as law

    lower, upper = law.edges(q, variance)
    edges = {"q": q, "lower": lower, "upper": upper, "atom": law.atom(q)}
    edges["median_nonzero"] = law.median_nonzero(q, variance)
    tables: dict[str, Columns] = {"edges": edges}
    column = q[:, None]
    if at is not None:
        density, mass = law.pdf(at, column, variance), law.cdf(at, column, variance)
        tables["values"] = {"q": column, "x": at, "density": density, "distribution": mass}
    if p is not None:
        tables["quantiles"] = {"q": column, "p": p, "x": law.quantile(p, column, variance)}
    show(tables, options, "mp", q=q, variance=variance)


@prediction(
    "tw",
    ("--beta", WHOLE, 1, "1 (real) or 2 (complex)."),
    ("--p", MANY, "0.5,0.9,0.95,0.99,0.999", LEVELS[3]),
    ("--at", MANY, None, "Places at which to give distribution, upper tail and density."),
    ("--N", WHOLE, None, "Sites: with --M, quantiles as eigenvalues too."),
    M,
    VARIANCE,
)
def tw_command(
    beta: int, p: np.ndarray, at: Any, N: Any, M: Any, variance: float, **options: Any
) -> None:
    """Tracy-Widom law: quantiles, moments, values; thresholds for noise of a given size.

    Example: hopfed theory tw --p 0.95,0.99 --N 400 --M 1600
    """
    from hopfed.theory import _check
    from hopfed.theory import tracy_widom as law

    quantiles: dict[str, Any] = {"p": p, "quantile": law.quantile(p, beta)}
    if (N is None) != (M is None):
        raise ArgumentError("--N and --M", "given together", "one of them")
    if N is not None:
        if beta != 1:
            raise ArgumentError("--beta", "1 with --N and --M, whose data are real", beta)
        centre, scale = law.wishart_scaling(M, N)
        s2 = _check.positive("variance", variance)
        quantiles["eigenvalue"] = s2 * (centre + scale * quantiles["quantile"]) / M
    tables: dict[str, Columns] = {"quantiles": quantiles, "moments": law.moments(beta)._asdict()}
    if at is not None:
        values = {"distribution": law.cdf, "upper_tail": law.sf, "density": law.pdf}
        tables["values"] = {"s": at} | {name: f(at, beta) for name, f in values.items()}
    show(tables, options, "tw", beta=beta)


@prediction(
    "bounds",
    N,
    ("--M", MANY, "100,1000,10000", "Examples of the round."),
    ("--r", FINITE, 0.8, "Quality."),
    ("--exposure", MANY, None, "Shares of the examples; of any mixture when left out."),
    ("--level", FINITE, 0.05, "Chance to be beyond."),
    ("--c", FINITE, 0.375, "c of (35), (36), (38)."),
    ("--C", FINITE, 1.0, "C of (38)."),
    ("--band", MANY, None, "C and C' of (40). [default: as fitted to noise]"),
    needs="--N",
)
def bounds_command(
    N: int, M: np.ndarray, r: float, exposure: Any, level: float, band: Any, **options: Any
) -> None:
    """How far, at a given level, the operator is from its mean, and the bulk from its edges.

    The deviation is ||J - E J|| for an operator J of trace 1: Bernstein's bound, and the forms
    (35), (36) and (38) of the Hopfield paper, which leaves their constants open. The band (39),
    (40) holds all eigenvalues of N J but those of the archetypes.

    Example: hopfed theory bounds --N 400 --M 1000,10000 --r 0.6 --exposure 0.5,0.3,0.2
    """
    from hopfed.theory import _check, concentration

    _check.probability("r", r)  # at 1 there is no noise, and no band of it
    _check.positive("c", options["c"])
    _check.positive("C", options["C"])
    pair = concentration.FITTED if band is None else tuple(np.ravel(band).tolist())
    _check.nonnegative("band", pair)
    if len(pair) != 2:
        raise ArgumentError("--band", "two numbers, C and C'", band)
    if exposure is not None and exposure.sum() > 1 + 1e-9:
        raise ArgumentError("--exposure", "shares that sum to at most 1", exposure.sum())
    proxy = min(float(concentration.variance_proxy(r, N, exposure)), 0.25)
    noise = 1 - r**2
    lower, upper = concentration.bulk_band(N, M, level, noise, pair)
    constants = options["c"], options["C"]
    deviation = {
        "M": M,
        "bernstein": concentration.bernstein_deviation(level, N, M, proxy),
        "form_35": concentration.sub_gaussian_deviation(level, N, M, 1.0, options["c"]),
        "form_36": concentration.paper_deviation(level, N, M, proxy, options["c"]),
        "form_38": concentration.refined_deviation(level, N, M, constants),
    }
    tables = {"deviation": deviation, "band": {"M": M, "lower": lower, "upper": upper}}
    drawn = {"N": N, "M": M, "r": r, "level": level, "proxy": proxy, "constants": constants}
    show(tables, options, "bounds", **drawn, band=pair)


@prediction(
    "spike",
    ("--kappa", MANY, None, "Strength in units of the noise variance; or --r and --exposure."),
    ("--q", FINITE, None, "Aspect ratio N / M; or --N and --M."),
    ("--variance", FINITE, None, "Noise variance. [default: 1 - r^2, or 1]"),
    ("--r", FINITE, None, "Quality of the examples."),
    ("--exposure", MANY, None, "Share of the examples."),
    N,
    M,
    ("--eigenvalue", MANY, None, "Measured eigenvalues to turn into strengths."),
    ALPHA,
    SEED,
)
def spike_command(**options: Any) -> None:
    """Where an archetype's eigenvalue lands, how its eigenvector aligns, and the inverse.

    The first tables are the laws of large matrices, by which an archetype below the threshold is
    not there. With the size, another says what matrices of it show of all strengths together, at,
    below and above the threshold: mean, deviation, and the power of the test at --alpha.

    Example: hopfed theory spike --kappa 0.5,1,2 --q 0.5
    """
    from hopfed.theory import spikes

    q, variance, kappa = _spike_arguments(options)
    edge = spikes.outlier(spikes.threshold(q), q, variance)
    tables: dict[str, Columns] = {"bulk": {"q": q, "edge": edge, "threshold": spikes.threshold(q)}}
    if kappa is not None:
        found = {"kappa": kappa, "detectable": kappa > spikes.threshold(q)}
        found |= {"eigenvalue": spikes.outlier(kappa, q, variance)}
        found |= {"overlap": spikes.overlap(kappa, q)}
        if options["M"] is not None:
            share = options["exposure"]
            sd = spikes.outlier_sd(kappa, q, options["M"], variance, exposure=share)
            found["eigenvalue_sd"] = sd
        tables["spikes"] = found
        N, M = _size(options)
        if N and len(kappa) < min(N, M):
            tables["at_this_size"] = _exact(kappa, N, M, variance, options)
    if options["eigenvalue"] is not None:
        strength = spikes.strength(options["eigenvalue"], q, variance)
        tables["inverse"] = {"eigenvalue": options["eigenvalue"], "kappa": strength}
    show(tables, options, "spike", q=q, variance=variance, kappa=kappa)


def _size(options: Mapping[str, Any]) -> tuple[int, int]:
    """(N, M), one of them from the other and --q; zeros where there is none."""
    N, M, q = options["N"], options["M"], options["q"]
    if q is not None and (N or M):
        N, M = N or round(q * M), M or round(N / q)
    return (N, M) if N and M else (0, 0)


def _exact(
    kappa: np.ndarray, N: int, M: int, variance: float, options: Mapping[str, Any]
) -> Columns:
    """What exact draws of Gaussian noise show of these spikes together, the strongest first."""
    from hopfed._lib.random import check_seed
    from hopfed.theory import spiked

    order = np.argsort(-kappa, kind="stable")
    strengths, shares = kappa[order], options["exposure"]
    found = spiked.predict(
        strengths, N, M, variance, options["alpha"],
        None if shares is None else np.broadcast_to(shares, kappa.shape)[order],
        DRAWS, check_seed(options["seed"]),
    )  # fmt: skip
    return {
        "kappa": strengths,
        "eigenvalue": found.eigenvalue,
        "eigenvalue_sd": found.eigenvalue_sd,
        "overlap": found.overlap.diagonal(),
        "overlap_sd": found.overlap_sd.diagonal(),
        "power": found.power,
    }


def _spike_arguments(options: Mapping[str, Any]) -> tuple[float, float, np.ndarray | None]:
    """(q, variance, kappa) from whichever way they were given."""
    from hopfed.theory import _check, spikes

    r, exposure, q = options["r"], options["exposure"], options["q"]
    N, M, kappa = options["N"], options["M"], options["kappa"]
    if q is None:
        if N is None or M is None:
            raise ArgumentError("--q", "given, or --N and --M", "neither")
        q = float(_check.count("N", N)) / float(_check.count("M", M))
    elif N is not None and M is not None:
        raise ArgumentError("--q", "left out beside --N and --M", q)
    if kappa is None and exposure is not None:
        if r is None or N is None:
            raise ArgumentError("--exposure", "given together with --r and --N", exposure)
        kappa = spikes.spike_strength(r, exposure, N)
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


@prediction(
    "phase",
    N,
    M,
    ("--r", MANY, "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9", "Qualities."),
    ("--exposure", MANY, None, "Exposures to place in the diagram."),
    POWER,
    ALPHA,
    needs="--N --M",
)
def phase_command(
    N: int, M: int, r: np.ndarray, exposure: Any, power: float, alpha: float, **options: Any
) -> None:
    """Which exposures can be seen at which quality, from N N and M examples.

    Example: hopfed theory phase --N 400 --M 1600 --r 0.2,0.5 --figure phase.png
    """
    from hopfed.theory import planning

    boundary = {"r": r, "least_exposure": planning.minimal_exposure(r, N, M)}
    boundary[f"for_power_{power:g}"] = planning.exposure_needed(r, N, M, power, alpha)
    tables: dict[str, Columns] = {"boundary": boundary}
    if exposure is not None:
        diagram = planning.phase_diagram(r, exposure, N, M)
        names = ("detectable", "margin", "eigenvalue", "overlap")
        places = {"r": diagram.qualities[:, None], "exposure": diagram.exposures}
        tables["diagram"] = places | {name: getattr(diagram, name) for name in names}
    show(tables, options, "phase", N=N, M=M, power=power, false_alarm=alpha)


@prediction(
    "capacity",
    (
        "--t",
        several(NUMBER),
        "0,0.1,0.5,1,2,5,10,inf",
        "Dreaming times; 0 is Hebb's rule, inf the projector.",
    ),
    ("--alpha", MANY, None, "Loads at which to give the magnetisation."),
    ("--temperature", MANY, None, "Temperatures at which to give Hebb's capacity."),
    ("--simulate", WHOLE, None, "Also simulate a memory of this many sites."),
    SEED,
)
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
    between = (t > 20) & np.isfinite(t)
    if between.any():
        raise ArgumentError("--t", "at most 20, or inf for the projector", t[between].max())
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
                if load >= 1 and time == np.inf:
                    continue  # no projector of as many patterns as sites
                rng = stream(seed, "storage", str(time), str(share))
                run = storage.simulate_storage(rng, N, load, time)
                points.append((time, run.load, run.mean, run.standard_error))
    return points


_PRIVATE = ("epsilon", "delta", "clients", "rounds")
_GRADED = ("missing", "rates", "M", "simulate", "seed")
_MOST_ENTRIES = 100_000_000  # of a simulated table
_MOST_DRAWS = 10_000
RATES = "A,B: parameters of a Beta law of each class's column rates; or symmetric: flips of --r."
_EXPOSURES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)

_MEANINGS = {
    "exposure": "share of the rows that come from the archetype, or class",
    "M_boundary": "rows at which it leaves the noise, for large tables",
    "M": "rows that the other numbers speak of: the fewest that reach the power, or --M",
    "power": "chance that its eigenvalue passes the test",
    "threshold": "eigenvalue that noise passes at the false-alarm rate --alpha",
    "eigenvalue": "predicted eigenvalue of the class, columns scaled to unit noise",
    "overlap": "part of its eigenvector that lies in the span of the classes",
    "margin": "strength over what is detectable: seen above 1",
    "distance": "between the class and the rest, columns scaled to unit noise",
    "score": "part of the class that lies in the span of the counted eigenvectors",
    "accuracy": "share of its rows that are assigned to it, once its means are known",
    "accuracy_all": "share of all rows that are assigned to their class",
    "mean_error": "error of its estimated column means, root mean square over columns",
    "labelled_error": "the same if every row's class were known",
    "cosine": "squared cosine of its estimated and true means, columns scaled to unit noise",
}

_PROMISED = {
    "seen": "each of them passes the test, with this chance",
    "all": "all of them do, in one study",
    "resolved": "`hopfed recover` finds the pattern of each, and says ok",
}

_FIELDS = {"M_boundary": "boundary", "M": "samples"} | {n: n for n in list(_MEANINGS)[3:]}


def _rates(text: str) -> tuple[float, float] | str:
    """`symmetric`, or two numbers above 0."""
    if text == "symmetric":
        return text
    found = NUMBERS.parse(text).tolist()
    if len(found) != 2 or min(found) <= 0:
        raise ArgumentError("", "'symmetric' or two numbers above 0, A,B", repr(text))
    return found[0], found[1]


@prediction(
    "plan",
    ("--r", FINITE, None, "Quality of the examples; needed but for rates A,B."),
    ("--exposure", MANY, None, "Shares of the examples. [default: 0.5 to 0.01]"),
    ("--K", WHOLE, None, "So many archetypes of equal exposure instead."),
    N,
    POWER,
    ALPHA,
    ("--stronger", WHOLE, 0, "Stronger archetypes."),
    ("--missing", FINITE, None, "Share of entries that are not observed. [default: 0]"),
    ("--rates", Parsed("rates", _rates), None, RATES),
    ("--M", WHOLE, None, "Rows at hand: what do they show?"),
    ("--simulate", WHOLE, None, "Also draw so many tables and compare."),
    ("--seed", WHOLE, None, "Of the simulation. [default: 0]"),
    ("--epsilon", NUMBER, None, "Privacy budget of every client, inf for none."),
    ("--delta", NUMBER, None, "With --epsilon. [default: 1e-5]"),
    ("--clients", WHOLE, None, "With --epsilon: clients with equal data. [default: 1]"),
    ("--rounds", WHOLE, None, "With --epsilon: releases it covers. [default: 1]"),
    needs="--N",
)
def plan_command(exposure: Any, K: int | None, N: int, **options: Any) -> None:
    """How many examples a study needs to see its archetypes, all of them, and to resolve them.

    The shares are those of one study if they add up to at most 1. M is then for seeing each with
    the chance --power; of the second table for all of them, and for patterns that `hopfed recover`
    calls "ok" (resolved). It counts as `recover` does, at the same --alpha. With --stronger, or
    shares that add up to more, each is taken alone: a formula, right to .06.

    With --missing, --rates, --M or --simulate each is a class beside one that holds the rest of
    the rows, and the answer says also how well its rows are assigned and its means are known.
    --simulate draws such tables and compares; the exit status is 1 if a prediction fails. Try
    --rates 1,1 --missing 0.2 --N 100 --exposure 0.3,0.1.

    With --epsilon also from operators that clients release with noise, once or as often as
    --rounds says; M is then of all clients together.

    Example: hopfed theory plan --r 0.6 --N 1000 --K 20
    """
    exposure = _shares(exposure, K)
    private = [name for name in _PRIVATE if options[name] is not None]
    graded = [name for name in _GRADED if options[name] is not None]
    if private and options["epsilon"] is None:
        raise ArgumentError("--epsilon", f"given beside --{private[0]}", "none")
    if (private or graded) and options["figure"] is not None:
        flag = (private or graded)[0]
        raise ArgumentError("--figure", f"left out beside --{flag}", options["figure"])
    if private and graded:
        raise ArgumentError("--epsilon", f"left out beside --{graded[0]}", options["epsilon"])
    if graded:
        _graded(exposure, N, options)
    elif options["r"] is None:
        raise ArgumentError("--r", "given, or --rates A,B", "neither")
    else:
        _plain(exposure, N, options)


def _shares(exposure: Any, equal: int | None) -> np.ndarray:
    """Shares that were asked for; `equal` archetypes share the examples."""
    if equal is None:
        return np.array(_EXPOSURES) if exposure is None else np.asarray(exposure)
    if exposure is not None:
        raise ArgumentError("--K", "left out beside --exposure", equal)
    if equal < 1:
        raise ArgumentError("--K", "at least 1", equal)
    return np.full(equal, 1 / equal)


def _plain(exposure: np.ndarray, sites: int, options: Mapping[str, Any]) -> None:
    """The plan for archetypes of signs, and the one beside privacy noise."""
    from hopfed.theory import planning

    r = options["r"]
    arguments = {"N": sites, "power": options["power"], "false_alarm": options["alpha"]}
    arguments["stronger"] = options["stronger"]
    shares = np.array(list(dict.fromkeys(exposure.tolist())))
    together = not options["stronger"] and exposure.sum() <= 1 + 1e-9
    boundary = planning.minimal_samples(r, shares, sites)
    beside: dict[str, Columns] = {}
    if options["epsilon"] is not None:  # first, for what is wrong with it is said at once
        defaults = {"delta": 1e-5, "clients": 1, "rounds": 1}
        given = {name: options[name] for name in defaults if options[name] is not None}
        beside = _private_plan(r, shares, options["epsilon"], defaults | given, arguments)
    if together:
        tables = _together(r, exposure, shares, arguments)
    else:
        plan = planning.plan(r, shares, **arguments)
        tables = {"plan": _plan_columns(shares, boundary, plan)}
    samples = tables["plan"]["M"]
    tables |= beside
    show(tables, options, "plan", r=r, exposure=shares, samples=samples, **arguments)
    if not options["as_json"]:
        held = {name for columns in tables.values() for name in columns}
        _explain({name: said for name, said in _MEANINGS.items() if name in held})
        if together:
            _explain(_PROMISED)
        if options["epsilon"] is not None:
            words = "The second table is of operators with noise, of all clients' rows together."
            out.print(f"\n{words}")


def _together(
    r: float, exposure: np.ndarray, shares: np.ndarray, arguments: Mapping[str, Any]
) -> dict[str, Columns]:
    """Tables of each share, and of the three promises, for one study of all archetypes."""
    from hopfed.theory import planning, spikes, study

    N = arguments["N"]
    with err.status("planning"):
        found = study.promises(r, exposure, N, arguments["power"], arguments["false_alarm"])
    place = np.searchsorted(-found.exposures, -shares)
    M = found.each[place]
    enough = np.minimum(M, study.MOST)
    each = {
        "exposure": shares,
        "M_boundary": planning.minimal_samples(r, shares, N),
        "M": M,
        "power": found.each_power[place],
        "overlap": spikes.overlap(spikes.spike_strength(r, shares, N), N / enough),
        "margin": planning.margin(r, shares, N, enough),
    }
    sizes, powers = ([*held.values()] for held in (found.samples, found.powers))
    return {"plan": each, "promises": {"promise": [*study.PROMISES], "M": sizes, "power": powers}}


def _private_plan(
    r: float, exposure: np.ndarray, epsilon: float, budget: Mapping[str, Any], arguments: Any
) -> dict[str, Columns]:
    """Tables of the budget and of the plan under it."""
    from hopfed.theory import private

    z = private.noise_multiplier(epsilon, budget["delta"], budget["rounds"])
    plan = private.plan(r, exposure, multiplier=z, clients=budget["clients"], **arguments)
    boundary = private.minimal_samples(r, exposure, arguments["N"], z, budget["clients"])
    return {
        "privacy": {"epsilon": epsilon, **budget, "noise_multiplier": z},
        "private_plan": _plan_columns(exposure, boundary, plan),
    }


def _plan_columns(exposure: np.ndarray, boundary: np.ndarray, plan: Any) -> Columns:
    fields = ("power", "threshold", "eigenvalue", "overlap", "margin")
    columns = {"exposure": exposure, "M_boundary": boundary, "M": plan.samples}
    return columns | {f: getattr(plan, f) for f in fields}


def _graded(exposure: np.ndarray, sites: int, options: Mapping[str, Any]) -> None:
    """The plan for graded classes with gaps, and its simulation."""
    from hopfed.theory.graded_planning import ClassLaw, plan

    draws = options["simulate"]
    if draws is None and options["seed"] is not None:
        raise ArgumentError("--simulate", "given beside --seed", "none")
    rates = options["rates"]
    law = ClassLaw(
        None if rates in (None, "symmetric") else rates, options["r"], options["missing"] or 0.0
    )
    settings = [options[name] for name in ("power", "alpha", "stronger", "M")]
    with err.status("planning"):
        found = plan(law, exposure, sites, *settings)
    columns = {name: getattr(found, field) for name, field in _FIELDS.items()}
    tables: dict[str, Columns] = {"plan": {"exposure": exposure} | columns}
    failed: list[str] = []
    if draws is not None:
        tables["simulation"], failed = _simulation(law, found, exposure, sites, options)
    if options["as_json"]:
        show(tables, options, "plan")
    else:
        _print_graded(tables, options)
    if failed:
        err.print(f"predictions that failed: {', '.join(failed)}")
        raise SystemExit(1)


def _print_graded(tables: Mapping[str, Columns], options: Mapping[str, Any]) -> None:
    """One line for each number, with a column for each exposure, and what it means."""
    from hopfed.theory.graded_simulation import RULE

    columns = iter(tables["plan"].items())
    name, exposure = next(columns)
    grid = table(name, *map(cell, exposure))
    for name, values in columns:
        grid.add_row(name, *map(cell, values))
    out.print(grid)
    _explain(_MEANINGS)
    if "simulation" in tables:
        out.print("")
        show({"simulation": tables["simulation"]}, options, "plan")
        out.print(f"\n{RULE}")


def _explain(meanings: Mapping[str, str]) -> None:
    """Say what is in a table, a line for each name."""
    out.print("")
    width = max(map(len, meanings))
    for name, meaning in meanings.items():
        out.print(f"{name:<{width}}  {meaning}")


def _simulation(
    law: ClassLaw, plan: GradedPlan, exposure: np.ndarray, sites: int, options: Mapping[str, Any]
) -> tuple[Columns, list[str]]:
    """Table of predictions beside measurements, and those that disagree."""
    from hopfed._lib.random import check_seed
    from hopfed.theory.graded_simulation import QUANTITIES, compare

    draws, seed = options["simulate"], check_seed(options["seed"] or 0)
    if not 2 <= draws <= _MOST_DRAWS:
        raise ArgumentError("--simulate", f"from 2 to {_MOST_DRAWS:,} draws", draws)
    largest = float(np.max(plan.samples)) * sites
    if not largest <= _MOST_ENTRIES:
        got = f"{largest:.3g}"
        raise ArgumentError("--simulate", f"tables of at most {_MOST_ENTRIES:,} entries", got)
    with err.status("simulating"):
        found = [
            compare(law, plan.at(i), float(share), sites, draws, seed)
            for i, share in enumerate(exposure)
        ]
    columns: dict[str, Any] = {
        "exposure": np.repeat(exposure, len(QUANTITIES)),
        "quantity": list(QUANTITIES) * len(found),
    }
    for name in ("predicted", "measured", "standard_error", "allowed", "agrees"):
        columns[name] = np.concatenate([getattr(one, name) for one in found])
    named = zip(columns["exposure"], columns["quantity"], columns["agrees"], strict=True)
    return columns, [f"{quantity} at {share:g}" for share, quantity, good in named if not good]
