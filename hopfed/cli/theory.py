"""`hopfed theory` and `spectrum`: closed-form predictions, and what a table shows beside noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypeAlias, get_type_hints

import click
import numpy as np

from hopfed.cli import HelpfulGroup, words
from hopfed.cli.numbers import FINITE, NUMBER, NUMBERS, SEED, WHOLE, Parsed, several
from hopfed.cli.options import PATH, json_option, option
from hopfed.cli.outputs import Command, figure_option, overwrite_option
from hopfed.cli.printing import err, out, print_json, print_table, say_wrote
from hopfed.errors import ArgumentError, DataError
from hopfed.theory.planning import FALSE_ALARM

# What the laws call an argument -> its option, where that has another name.
ARGUMENTS = {"false_alarm": "alpha", "delta": "level", "exposures": "exposure", "qualities": "r"}
PRIVATE = "From epsilon on it is operators with noise, of all clients' rows together."
Columns = Mapping[str, Any]  # name -> array or number, broadcast against each other

# Kinds of options: an annotation holds how a text is read, and the words of the help.
Whole: TypeAlias = Annotated[Any, WHOLE]
Real: TypeAlias = Annotated[Any, FINITE]
Number: TypeAlias = Annotated[Any, NUMBER]  # may be infinite
Many: TypeAlias = Annotated[Any, NUMBERS]
Sites: TypeAlias = Annotated[Whole, "Sites."]
Examples: TypeAlias = Annotated[Whole, "Examples."]
Seed: TypeAlias = Annotated[Any, SEED, "Of the simulation."]
Variance: TypeAlias = Annotated[Real, "Noise variance."]
Levels: TypeAlias = Annotated[Many, "Levels at which to give quantiles."]
Power: TypeAlias = Annotated[Real, "Of the test."]
Alpha: TypeAlias = Annotated[Real, "False-alarm rate."]

NULLS = (
    "gaussian, entries, permutation, flips or shifts.  [default: entries, or the scrambling one "
    "that suits what is wrong with them]"
)
LISTED = 40  # components; --json has all
DRAWS = 1_000  # of a spectrum: the errors of its means are a thirtieth of the deviations


class Answer(NamedTuple):
    """Tables, what their figure is drawn from, tables for --json alone, and what names mean.

    Where `turned`, a table is printed with a line for each of its columns.
    """

    tables: Mapping[str, Columns]
    drawn: dict[str, Any]
    beside: Mapping[str, Columns] = MappingProxyType({})
    meanings: Iterable[Mapping[str, str]] = ()
    words: str = ""
    turned: bool = False


@click.group("theory", cls=HelpfulGroup)
def theory_command() -> None:
    """Print random-matrix predictions: tables, --json, or a --figure.

    Example: hopfed theory spike --N 400 --M 1600 --r 0.2 --exposure 0.5,0.3,0.2
    """


@contextmanager
def naming_options() -> Iterator[None]:
    """Let errors name the option of the command that runs, not the argument of the law."""
    try:
        yield
    except ArgumentError as error:
        held = {f for param in click.get_current_context().command.params for f in param.opts}
        own = (error.argument, ARGUMENTS.get(error.argument, ""))
        flags = [f"--{name.replace('_', '-')}" for name in own]
        flag = next((flag for flag in flags if flag in held), error.argument)
        raise ArgumentError(flag, error.rule, error.got) from error


def prediction(law: Callable[..., Answer]) -> Any:
    """Make a function a command of `hopfed theory`, with an option for each of its arguments.

    An argument without a default must be given. All have --json, --figure and --overwrite.
    """

    @wraps(law)
    def run(*, as_json: bool, figure: Any, **given: Any) -> None:
        with naming_options():
            answer = law(**given)
        if as_json:
            tables = {**answer.tables, **answer.beside}
            print_json({title: _rows(columns) for title, columns in tables.items()})
        else:
            _print(answer)
        if figure is not None:
            from hopfed.figures import save, theory

            save(getattr(theory, law.__name__)(**answer.drawn), figure)
            say_wrote(*[figure] * (not as_json))

    made: Callable[..., Any] = json_option(figure_option(overwrite_option(run)))
    hints = get_type_hints(law, include_extras=True)
    for name, argument in reversed(list(signature(law).parameters.items())):
        kind, words = hints[name].__metadata__
        needed = argument.default is Parameter.empty
        flags = f"--{name.rstrip('_').replace('_', '-')} {name}"
        default = None if needed else argument.default
        made = option(flags, words, kind, default, required=needed)(made)
    return theory_command.command(law.__name__, cls=Command)(made)


def _rows(columns: Columns) -> list[dict[str, Any]]:
    """Rows of a table, of columns that are broadcast against each other."""
    arrays = np.broadcast_arrays(*(np.asarray(c) for c in columns.values()))
    flat = [np.atleast_1d(a).ravel().tolist() for a in arrays]
    return [dict(zip(columns, row, strict=True)) for row in zip(*flat, strict=True)]


def _print(answer: Answer) -> None:
    """Print tables, and what their columns mean, a line for each name."""
    for place, columns in enumerate(answer.tables.values()):
        if place:
            out.print("")
        lines = [list(columns), *([*map(cell, row.values())] for row in _rows(columns))]
        heads, *rows = zip(*lines, strict=True) if answer.turned else lines
        print_table(heads, rows)
    for meanings in answer.meanings:
        out.print("")
        width = max(map(len, meanings))
        for name, meaning in meanings.items():
            out.print(f"{name:<{width}}  {meaning}")
    if answer.words:
        out.print(f"\n{answer.words}")


def cell(value: Any) -> str:
    """Print a number, a truth value or a word."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if np.isnan(value):
        return "-"
    return f"{int(value)}" if value == np.round(value) and abs(value) < 1e12 else f"{value:.6g}"


@prediction
def mp(
    q: Annotated[Many, "Aspect ratio N / M."] = "0.5",
    variance: Variance = 1.0,
    at: Annotated[Many, "Places at which to give density and distribution."] = None,
    p: Levels = None,
) -> Answer:
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
    return Answer(tables, {"q": q, "variance": variance})


@prediction
def tw(
    beta: Annotated[Whole, "1 (real) or 2 (complex)."] = 1,
    p: Levels = "0.5,0.9,0.95,0.99,0.999",
    at: Annotated[Many, "Places at which to give distribution, upper tail and density."] = None,
    N: Annotated[Whole, "Sites: with --M, quantiles as eigenvalues too."] = None,
    M: Examples = None,
    variance: Variance = 1.0,
) -> Answer:
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
    return Answer(tables, {"beta": beta})


@prediction
def bounds(
    N: Sites,
    M: Annotated[Many, "Examples of the round."] = "100,1000,10000",
    r: Annotated[Real, "Quality."] = 0.8,
    exposure: Annotated[Many, "Shares of the examples; of any mixture when left out."] = None,
    level: Annotated[Real, "Chance to be beyond."] = 0.05,
) -> Answer:
    """How far, at a given level, the operator is from its mean, and the bulk from its edges.

    The deviation is ||J - E J|| for an operator J of trace 1: Bernstein's bound, and the forms
    (35), (36) and (38) of the Hopfield paper, with constants that it leaves open: those of
    `hopfed.theory.concentration`. The band (39), (40) holds all eigenvalues of N J but those of
    the archetypes.

    Example: hopfed theory bounds --N 400 --M 1000,10000 --r 0.6 --exposure 0.5,0.3,0.2
    """
    from hopfed.theory import _check, concentration

    _check.probability("r", r)  # at 1 there is no noise, and no band of it
    _check_shares(exposure)
    proxy = min(float(concentration.variance_proxy(r, N, exposure)), 0.25)
    lower, upper = concentration.bulk_band(N, M, level, 1 - r**2)
    deviation = {
        "M": M,
        "bernstein": concentration.bernstein_deviation(level, N, M, proxy),
        "form_35": concentration.sub_gaussian_deviation(level, N, M),
        "form_36": concentration.paper_deviation(level, N, M, proxy),
        "form_38": concentration.paper_deviation(level, N, M),
    }
    tables = {"deviation": deviation, "band": {"M": M, "lower": lower, "upper": upper}}
    return Answer(tables, {"N": N, "M": M, "r": r, "level": level, "proxy": proxy})


def _check_shares(exposure: Any) -> None:
    if exposure is not None and exposure.sum() > 1 + 1e-9:
        raise ArgumentError("--exposure", "shares that sum to at most 1", f"{exposure.sum():g}")


@prediction
def spike(
    kappa: Annotated[Many, "Strength over the noise variance; or --r and --exposure."] = None,
    q: Annotated[Real, "Aspect ratio N / M; or --N and --M."] = None,
    variance: Annotated[Real, "Noise variance. [default: 1 - r^2, or 1]"] = None,
    r: Annotated[Real, "Quality of the examples."] = None,
    exposure: Annotated[Many, "Share of the examples."] = None,
    N: Sites = None,
    M: Examples = None,
    eigenvalue: Annotated[Many, "Measured eigenvalues to turn into strengths."] = None,
    alpha: Alpha = FALSE_ALARM,
    seed: Seed = 0,
) -> Answer:
    """Where an archetype's eigenvalue lands, how its eigenvector aligns, and the inverse.

    The first tables are the laws of large matrices, by which an archetype below the threshold is
    not there. With the size, another says what matrices of it show of all strengths together, at,
    below and above the threshold: mean, deviation, and the power of the test at --alpha.

    Example: hopfed theory spike --kappa 0.5,1,2 --q 0.5
    """
    from hopfed.theory import _check, spiked, spikes

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
    elif kappa is None and eigenvalue is None:
        raise ArgumentError("--kappa", "given, or --exposure with --r and --N", "neither")
    _check_shares(exposure)
    if r is not None and not 0 < r < 1:
        raise ArgumentError("--r", "a number in (0, 1)", r)
    if variance is None:
        variance = 1.0 if r is None else 1 - r**2

    edge = spikes.outlier(spikes.threshold(q), q, variance)
    tables: dict[str, Columns] = {"bulk": {"q": q, "edge": edge, "threshold": spikes.threshold(q)}}
    if kappa is not None:
        found = {"kappa": kappa, "detectable": kappa > spikes.threshold(q)}
        found |= {"eigenvalue": spikes.outlier(kappa, q, variance)}
        found |= {"overlap": spikes.overlap(kappa, q)}
        if M is not None:
            found["eigenvalue_sd"] = spikes.outlier_sd(kappa, q, M, variance, exposure=exposure)
        tables["spikes"] = found
        sites, rows = N or (M and round(q * M)), M or (N and round(N / q))
        least = len(kappa) * (1 if exposure is None else 2)  # rows of which each has a part
        if sites and rows and len(kappa) < min(sites, rows) and least <= rows:
            order = np.argsort(-kappa, kind="stable")
            shares = None if exposure is None else np.broadcast_to(exposure, kappa.shape)[order]
            size = sites, rows, variance, alpha, shares, DRAWS, seed
            drawn = spiked.predict(kappa[order], *size)
            held = {n: getattr(drawn, n) for n in ("eigenvalue", "eigenvalue_sd")}
            held |= {n: getattr(drawn, n).diagonal() for n in ("overlap", "overlap_sd")}
            tables["at_this_size"] = {"kappa": kappa[order], **held, "power": drawn.power}
    if eigenvalue is not None:
        strength = spikes.strength(eigenvalue, q, variance)
        tables["inverse"] = {"eigenvalue": eigenvalue, "kappa": strength}
    return Answer(tables, {"q": q, "variance": variance, "kappa": kappa})


@prediction
def phase(
    N: Sites,
    M: Examples,
    r: Annotated[Many, "Qualities."] = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9",
    exposure: Annotated[Many, "Exposures to place in the diagram."] = None,
    power: Power = 0.9,
    alpha: Alpha = FALSE_ALARM,
) -> Answer:
    """Which exposures can be seen at which quality, from N sites and M examples.

    Example: hopfed theory phase --N 400 --M 1600 --r 0.2,0.5 --figure phase.png
    """
    from hopfed.theory import planning, spikes

    boundary = {"r": r, "least_exposure": planning.minimal_exposure(r, N, M)}
    boundary[f"for_power_{power:g}"] = planning.exposure_needed(r, N, M, power, alpha)
    tables: dict[str, Columns] = {"boundary": boundary}
    if exposure is not None:
        q, quality = N / M, r[:, None]
        margin = planning.margin(quality, exposure, N, M)
        diagram = {"r": quality, "exposure": exposure, "detectable": margin > 1, "margin": margin}
        diagram["eigenvalue"] = spikes.outlier(margin * np.sqrt(q), q, 1 - quality**2)
        tables["diagram"] = diagram | {"overlap": spikes.overlap(margin * np.sqrt(q), q)}
    return Answer(tables, {"N": N, "M": M, "power": power, "false_alarm": alpha})


@prediction
def capacity(
    t: Annotated[
        Any, several(NUMBER), "Dreaming times; 0 is Hebb's rule, inf the projector."
    ] = "0,0.1,0.5,1,2,5,10,inf",
    alpha: Annotated[Many, "Loads at which to give the magnetisation."] = None,
    temperature: Annotated[Many, "Temperatures at which to give Hebb's capacity."] = None,
) -> Answer:
    """How many archetypes an associative memory holds: Hebb, dreaming, projector.

    Example: hopfed theory capacity --t 0,1 --alpha 0.1,0.3 --figure capacity.png
    """
    from hopfed.theory import storage

    between = (t > 20) & np.isfinite(t)
    if between.any():
        raise ArgumentError("--t", "at most 20, or inf for the projector", t[between].max())
    held = {"t": t, "capacity": storage.capacity(t)}
    held["magnetisation"] = storage.critical_magnetisation(t)
    tables: dict[str, Columns] = {"capacity": held}
    if alpha is not None:
        m = storage.magnetisation(alpha, t[:, None])
        tables["magnetisation"] = {"t": t[:, None], "alpha": alpha, "magnetisation": m}
    if temperature is not None:
        load = storage.thermal_capacity(temperature)
        tables["temperature"] = {"temperature": temperature, "capacity": load}
    return Answer(tables, {"t": t})


@prediction
def basins(
    rule: Annotated[Any, None, "Rule of the memory, as of `hopfed store`."] = "hebb",
    set_: Annotated[Any, None, "Settings of the rule, such as n=4; several with commas."] = "",
    N: Sites = 300,
    loads: Annotated[Many, "Patterns over sites."] = "0.02,0.05,0.1,0.15,0.2,0.3,0.5,0.8",
    flips: Annotated[Many, "Shares of the sites of a cue that are turned."] = (
        "0,0.05,0.1,0.15,0.2,0.25,0.3,0.35,0.4,0.45"
    ),
    cues: Annotated[Whole, "For each load and share."] = 40,
    seed: Seed = 0,
) -> Answer:
    """How damaged a cue may be at each load: random patterns are stored and recalled.

    The edge of the basin is the share of turned sites at which half of the cues come back to an
    overlap of .9. Beside it stands the overlap from undamaged cues, as measured and as theory says;
    of layers, the share of mixtures that they take apart.

    Example: hopfed theory basins --rule dense --set n=4 --N 60 --loads 0.5,2 --figure basins.pdf
    """
    from hopfed._lib.settings import with_settings
    from hopfed.memory.basins import basins as swept
    from hopfed.memory.rules import rule_named

    chosen = with_settings(rule_named(rule), [part for part in set_.split(",") if part])
    with err.status("recalling"):
        found = swept(chosen, int(N), loads, flips, cues=int(cues), seed=seed)
    first = {"load": found.loads, "patterns": found.patterns, "edge": found.edge}
    optional = {"edge_by_theory": found.law_edge, "apart": found.apart}
    first |= {name: held for name, held in optional.items() if not np.isnan(held).all()}
    first |= {"overlap": found.overlap[:, 0], "overlap_by_theory": found.law}
    each = {"load": found.loads[:, None], "flips": found.flips, "recalled": found.recalled}
    recalled = {"recalled": each | {"overlap": found.overlap}}
    return Answer({"basins": first}, {"found": found}, recalled)


_EXPOSURES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
_MEANINGS, _PROMISED = words()["plan"], words()["promises"]  # name -> what it means
_FIELDS = {"M_boundary": "boundary", "M": "samples"} | {n: n for n in list(_MEANINGS)[3:]}


def _rates(text: str) -> tuple[float, float] | str:
    """`symmetric`, or two numbers above 0."""
    if text == "symmetric":
        return text
    found = NUMBERS.parse(text).tolist()
    if len(found) != 2 or min(found) <= 0:
        raise ArgumentError("", "'symmetric' or two numbers above 0, A,B", repr(text))
    return found[0], found[1]


@prediction
def plan(
    N: Sites,
    r: Annotated[Real, "Quality of the examples; needed but for rates A,B."] = None,
    exposure: Annotated[Many, "Shares of the examples. [default: 0.5 to 0.01]"] = None,
    K: Annotated[Whole, "So many archetypes of equal exposure instead."] = None,
    power: Power = 0.9,
    alpha: Alpha = FALSE_ALARM,
    stronger: Annotated[Whole, "Stronger archetypes."] = 0,
    missing: Annotated[Real, "Share of entries that are not observed. [default: 0]"] = None,
    rates: Annotated[
        Any,
        Parsed("rates", _rates),
        "A,B: parameters of a Beta law of each class's column rates; or symmetric: flips of --r.",
    ] = None,
    M: Annotated[Whole, "Rows at hand: what do they show?"] = None,
    epsilon: Annotated[Number, "Privacy budget of every client, inf for none."] = None,
    delta: Annotated[Number, "With --epsilon. [default: 1e-5]"] = None,
    clients: Annotated[Whole, "With --epsilon: clients with equal data. [default: 1]"] = None,
    rounds: Annotated[Whole, "With --epsilon: releases it covers. [default: 1]"] = None,
) -> Answer:
    """How many examples a study needs to see its archetypes, all of them, and to resolve them.

    The shares are those of one study if they add up to at most 1. M is then for seeing each with
    the chance --power; of the second table for all of them, and for patterns that `hopfed recover`
    calls "ok" (resolved). It counts as `recover` does, at the same --alpha. With --stronger, or
    shares that add up to more, each is taken alone: a formula, right to .06.

    With --missing, --rates or --M each is a class beside one that holds the rest of the rows, and
    the answer says also how well its rows are assigned and its means are known. Try --rates 1,1
    --missing 0.2 --N 100 --exposure 0.3,0.1.

    With --epsilon also from operators that clients release with noise, once or as often as
    --rounds says; M is then of all clients together.

    Example: hopfed theory plan --r 0.6 --N 1000 --K 20
    """
    if K is not None and exposure is not None:
        raise ArgumentError("--K", "left out beside --exposure", K)
    if K is not None and K < 1:
        raise ArgumentError("--K", "at least 1", K)
    if exposure is None:
        exposure = np.array(_EXPOSURES) if K is None else np.full(K, 1 / K)
    budget = {"epsilon": epsilon, "delta": delta, "clients": clients, "rounds": rounds}
    private = {name: value for name, value in budget.items() if value is not None}
    graded = {"missing": missing, "rates": rates, "M": M}
    graded = {name: value for name, value in graded.items() if value is not None}
    if private and epsilon is None:
        raise ArgumentError("--epsilon", f"given beside --{next(iter(private))}", "none")
    figure = click.get_current_context().params["figure"]
    if (private or graded) and figure is not None:
        raise ArgumentError(
            "--figure", f"left out beside --{next(iter(private or graded))}", figure
        )
    if private and graded:
        raise ArgumentError("--epsilon", f"left out beside --{next(iter(graded))}", epsilon)
    if graded:
        return _graded(N, r, exposure, graded, (power, alpha, stronger, M))
    if r is None:
        raise ArgumentError("--r", "given, or --rates A,B", "neither")
    how = {"N": N, "power": power, "stronger": stronger, "false_alarm": alpha}
    return _plain(r, exposure, how, private)


def _plain(r: float, exposure: np.ndarray, how: dict[str, Any], private: dict[str, Any]) -> Answer:
    """The plan for archetypes of signs, and the one beside privacy noise."""
    from hopfed.theory import planning, spikes, study
    from hopfed.theory import private as noise

    N, shares = how["N"], np.array(list(dict.fromkeys(exposure.tolist())))
    boundary = planning.minimal_samples(r, shares, N)

    def columns(least: np.ndarray, found: Any) -> Columns:
        names = ("power", "threshold", "eigenvalue", "overlap", "margin")
        held = {"exposure": shares, "M_boundary": least, "M": found.samples}
        return held | {name: getattr(found, name) for name in names}

    beside: dict[str, Columns] = {}
    if private:  # first, for what is wrong with it is said at once
        held = {"epsilon": None, "delta": 1e-5, "clients": 1, "rounds": 1} | private
        z = noise.noise_multiplier(held["epsilon"], held["delta"], held["rounds"])
        found = noise.plan(r, shares, multiplier=z, clients=held["clients"], **how)
        least = noise.minimal_samples(r, shares, N, z, held["clients"])
        beside = {"privacy": held | {"noise_multiplier": z}, "private_plan": columns(least, found)}
    meanings = [_MEANINGS]
    if how["stronger"] or exposure.sum() > 1 + 1e-9:
        tables = {"plan": columns(boundary, planning.plan(r, shares, **how))}
    else:  # one study of all archetypes: each share, and three promises
        with err.status("planning"):
            whole = study.promises(r, exposure, N, how["power"], how["false_alarm"])
        place = np.searchsorted(-whole.exposures, -shares)
        M = whole.each[place]
        enough = np.minimum(M, study.MOST)
        each = {"exposure": shares, "M_boundary": boundary, "M": M}
        each |= {"power": whole.each_power[place]}
        each |= {"overlap": spikes.overlap(spikes.spike_strength(r, shares, N), N / enough)}
        each |= {"margin": planning.margin(r, shares, N, enough)}
        sizes, powers = ([*held.values()] for held in (whole.samples, whole.powers))
        promised = {"promise": [*study.PROMISES], "M": sizes, "power": powers}
        tables, meanings = {"plan": each, "promises": promised}, [_MEANINGS, _PROMISED]
    drawn = {"r": r, "exposure": shares, "samples": tables["plan"]["M"]} | how
    tables |= beside
    names = {name for table in tables.values() for name in table}
    meanings[0] = {name: said for name, said in _MEANINGS.items() if name in names}
    return Answer(tables, drawn, meanings=meanings, words=PRIVATE if beside else "")


def _graded(
    N: int, r: float | None, exposure: np.ndarray, given: Mapping[str, Any], settings: Iterable[Any]
) -> Answer:
    """The plan for graded classes with gaps."""
    from hopfed.theory.graded_planning import ClassLaw, plan

    rates = given.get("rates")
    law = ClassLaw(None if rates == "symmetric" else rates, r, given.get("missing", 0.0))
    with err.status("planning"):
        found = plan(law, exposure, N, *settings)
    columns = {name: getattr(found, field) for name, field in _FIELDS.items()}
    tables = {"plan": {"exposure": exposure} | columns}
    return Answer(tables, {}, meanings=[_MEANINGS], turned=True)


@click.command("spectrum", cls=Command)
@click.argument("file", type=PATH)
@click.option("--null", default="", help=NULLS)
@option("--level", "False-alarm rate.", FINITE, 0.01)
@option("--columns", "Or standardised, or raw.", default="centred")
@option("--ignore", "Columns to leave out.", multiple=True, metavar="COLUMN,...")
@option("--n-rows", "FILE is a covariance of so many rows.", WHOLE)
@option("--draws", "Most scrambled matrices for an eigenvalue.", WHOLE)
@option("--seed", "Of what is drawn.", SEED, 0)
@json_option
@figure_option
@overwrite_option
def spectrum_command(
    file: Path, figure: Path | None, as_json: bool, ignore: tuple[str, ...], **options: Any
) -> None:
    """Count the components of a table beyond its noise.

    FILE holds a number in each cell, or a gap. Each component has a p-value; what the null takes
    for granted is checked, and the status is "doubtful" where it does not hold.

    Example: hopfed spectrum returns.csv --columns standardised --figure spectrum.pdf
    """
    from hopfed.spectral.spectrum import spectrum
    from hopfed.tables.formats import read_numbers

    left = [name for part in ignore for name in part.split(",")]
    try:
        with naming_options():
            found = spectrum(read_numbers(file, ignore=left), **options)
    except ArgumentError as error:
        if error.argument != "X":
            raise
        raise DataError(f"{file}: the table must be {error.rule}, got {error.got}") from None
    if figure is not None:
        from hopfed.figures import save

        save(found.plot(), figure)
    if as_json:
        return print_json(found.to_dict())
    columns = (found.eigenvalues, found.p_values, found.overlaps, found.overlap_errors)
    numbers = list(zip(*(held[:LISTED] for held in columns), strict=False))[: found.n_components]
    rows = [(k, *(f"{x:.3g}" for x in row)) for k, row in enumerate(numbers, start=1)]
    if rows:
        print_table(("component", "eigenvalue", "p-value", "squared overlap", "error"), rows)
    rest = "" if len(found.p_values) == found.n_components else f"; p = {found.p_values[-1]:.2g}"
    out.print(
        f"{found.n_components} components above the edge of {found.edge:.4g}, of "
        f"{found.shape[1]:,} columns and {found.shape[0]:,} degrees of freedom (null "
        f"{found.null}, level {found.level:g}); the next eigenvalue is noise{rest}"
    )
    for line in (f"status: {found.status}", *found.advice):
        out.print(line)
    say_wrote(figure)
