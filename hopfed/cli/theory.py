"""`hopfed theory` and `spectrum`: closed-form predictions, and components of a table in noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypeAlias, get_type_hints

import click
import numpy as np

from hopfed._lib.settings import require
from hopfed.cli import HelpfulGroup, load_words
from hopfed.cli import options as kinds
from hopfed.cli.options import Command, ParsedText, option
from hopfed.cli.printing import err, finish_command, out, print_table
from hopfed.errors import ArgumentError, DataError
from hopfed.theory.planning import FALSE_ALARM

PRIVATE = {"after epsilon": "from operators with noise, of all clients' rows; M above is the least"}
# Argument of a law -> its option, where that has another name.
ARGUMENTS = {"false_alarm": "alpha", "delta": "level", "exposures": "exposure", "qualities": "r"}
Columns = Mapping[str, Any]  # name -> array or number, broadcast against each other

# Types of options: an annotation holds the parser of a text, and the help.
Whole: TypeAlias = Annotated[Any, kinds.WHOLE]
Real: TypeAlias = Annotated[Any, kinds.FINITE]
Number: TypeAlias = Annotated[Any, kinds.NUMBER]  # may be infinite
Many: TypeAlias = Annotated[Any, kinds.NUMBERS]
Sites: TypeAlias = Annotated[Whole, "Sites."]
Examples: TypeAlias = Annotated[Whole, "Examples."]
Seed: TypeAlias = Annotated[Any, kinds.SEED, "Seed of the simulation."]
Variance: TypeAlias = Annotated[Real, "Noise variance."]
Levels: TypeAlias = Annotated[Many, "Levels at which to give quantiles."]
Power: TypeAlias = Annotated[Real, "Power of the test."]
Alpha: TypeAlias = Annotated[Real, "False-alarm rate."]

NULLS = (
    "gaussian, entries, permutation, flips or shifts.  [default: entries, or a scrambling that "
    "suits the rows]"
)
LISTED = 40  # components; --json has all
WIDE = 9  # columns, above which a table is printed with a line for each of them
DRAWS = 1_000  # draws of a spectrum: errors of its means are a thirtieth of the deviations


class Answer(NamedTuple):
    """Tables, arguments of their figure, meanings of names, and tables for --json alone."""

    tables: Mapping[str, Columns]
    drawn: dict[str, Any]
    meanings: tuple[Mapping[str, str], ...] = ()
    beside: Mapping[str, Columns] = MappingProxyType({})


@click.group("theory", cls=HelpfulGroup)
def theory_command() -> None:
    """Print random-matrix predictions: tables, --json, or a --figure.

    Example: hopfed theory spike --N 400 --M 1600 --r 0.2 --exposure 0.5,0.3,0.2
    """


@contextmanager
def naming_options() -> Iterator[None]:
    """For `hopfed theory`: let errors name the option of the command, not the law's argument."""
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
            tables, drawn, meanings, beside = law(**given)

        def draw() -> Any:
            from hopfed.figures import theory

            return getattr(theory, law.__name__)(**drawn)

        said = {title: _rows(columns) for title, columns in {**tables, **beside}.items()}
        show = partial(_print, tables, meanings)
        finish_command({"as_json": as_json, "figure": figure}, said, show, draw)

    made: Callable[..., Any] = kinds.json_option(kinds.figure_option(kinds.overwrite_option(run)))
    hints = get_type_hints(law, include_extras=True)
    for name, argument in reversed([*signature(law).parameters.items()]):
        kind, words = hints[name].__metadata__
        needed = argument.default is Parameter.empty
        flags = f"--{name.rstrip('_').replace('_', '-')} {name}"
        made = option(flags, words, kind, None if needed else argument.default, required=needed)(
            made
        )
    return theory_command.command(law.__name__, cls=Command)(made)


def _rows(columns: Columns) -> list[dict[str, Any]]:
    """Rows of a table, of columns that are broadcast against each other."""
    arrays = np.broadcast_arrays(*(np.asarray(c) for c in columns.values()))
    flat = [np.atleast_1d(a).ravel().tolist() for a in arrays]
    return [dict(zip(columns, row, strict=True)) for row in zip(*flat, strict=True)]


def _print(tables: Mapping[str, Columns], meanings: tuple[Mapping[str, str], ...]) -> None:
    """Print tables, and the meanings of their columns, a line for each name."""
    for place, columns in enumerate(tables.values()):
        lines = [list(columns), *([*map(format_cell, row.values())] for row in _rows(columns))]
        heads, *rest = zip(*lines, strict=True) if len(columns) > WIDE else lines
        if place:
            out.print("")
        print_table(heads, rest)
    for held in meanings:
        width = max(map(len, held))
        out.note("", *(f"{name:<{width}}  {meaning}" for name, meaning in held.items()))


def format_cell(value: Any) -> str:
    """Print a number, a truth value or a word in a table of `hopfed theory`."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if np.isnan(value):
        return "-"
    return f"{int(value)}" if value == np.round(value) and abs(value) < 1e12 else f"{value:.6g}"


@prediction
def mp(
    q: Annotated[Many, "Aspect ratio N / M."] = "0.5", variance: Variance = 1.0, p: Levels = None
) -> Answer:
    """Print the Marchenko-Pastur law: edges, atom, median, quantiles.

    Example: hopfed theory mp --q 0.25,1 --p 0.5,0.99
    """
    from hopfed.theory import marchenko_pastur as law

    lower, upper = law.edges(q, variance)
    edges = {"q": q, "lower": lower, "upper": upper, "atom": law.atom(q)}
    edges["median_nonzero"] = law.median_nonzero(q, variance)
    tables: dict[str, Columns] = {"edges": edges}
    if p is not None:
        tables["quantiles"] = {"q": q[:, None], "p": p, "x": law.quantile(p, q[:, None], variance)}
    return Answer(tables, {"q": q, "variance": variance})


@prediction
def tw(
    beta: Annotated[Whole, "1 (real) or 2 (complex)."] = 1,
    p: Levels = "0.5,0.9,0.95,0.99,0.999",
    N: Annotated[Whole, "Sites: with --M, quantiles as eigenvalues of real data too."] = None,
    M: Examples = None,
) -> Answer:
    """Print the Tracy-Widom law: quantiles, moments; noise thresholds.

    Example: hopfed theory tw --p 0.95,0.99 --N 400 --M 1600
    """
    from hopfed.theory import tracy_widom as law

    require(beta in (1, 2), "--beta", "1 or 2", beta)
    quantiles: dict[str, Any] = {"p": p, "quantile": law.quantile(p, beta)}
    require((N is None) == (M is None), "--N and --M", "given together", "one of them")
    if N is not None:
        require(beta == 1, "--beta", "1 with --N and --M, whose data are real", beta)
        centre, scale = law.wishart_scaling(M, N)
        quantiles["eigenvalue"] = (centre + scale * quantiles["quantile"]) / M
    tables = {"quantiles": quantiles, "moments": law.moments(beta)._asdict()}
    return Answer(tables, {"beta": beta})


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
    """Print eigenvalue and overlap of archetypes, or the inverse.

    The first tables are laws of large matrices, in which an archetype below the threshold cannot be
    seen. If the size is given, another table predicts all strengths together for matrices of this
    size, on both sides of the threshold: mean, deviation, and the power of the test at --alpha.

    Example: hopfed theory spike --kappa 0.5,1,2 --q 0.5
    """
    from hopfed.theory import _check, spikes

    sized = N is not None and M is not None
    require(q is None or not sized, "--q", "left out beside --N and --M", q)
    require(q is not None or sized, "--q", "given, or --N and --M", "neither")
    if q is None:
        q = float(_check.count("N", N)) / float(_check.count("M", M))
    given = not (kappa is exposure is eigenvalue is None)
    require(given, "--kappa", "given, or --exposure with --r and --N", "neither")
    whole = 0 if exposure is None else exposure.sum()
    require(whole <= 1 + 1e-9, "--exposure", "shares that sum to at most 1", f"{whole:g}")
    require(r is None or 0 < r < 1, "--r", "a number in (0, 1)", r)
    if kappa is None and exposure is not None:
        known = r is not None and N is not None
        require(known, "--exposure", "given together with --r and --N", exposure)
        kappa = spikes.spike_strength(r, exposure, N)
    if variance is None:
        variance = 1.0 if r is None else 1 - r**2

    threshold = spikes.threshold(q)
    edge = spikes.outlier(threshold, q, variance)
    tables: dict[str, Columns] = {"bulk": {"q": q, "edge": edge, "threshold": threshold}}
    if kappa is not None:
        found = {
            "kappa": kappa,
            "detectable": kappa > threshold,
            "eigenvalue": spikes.outlier(kappa, q, variance),
            "overlap": spikes.overlap(kappa, q),
        }
        if M is not None:
            found["eigenvalue_sd"] = spikes.outlier_sd(kappa, q, M, variance, exposure=exposure)
        tables["spikes"] = found
        size = N or (M and round(q * M)), M or (N and round(N / q))
        tables |= _at_this_size(kappa, exposure, size, (variance, alpha), seed)
    if eigenvalue is not None:
        strength = spikes.strength(eigenvalue, q, variance)
        tables["inverse"] = {"eigenvalue": eigenvalue, "kappa": strength}
    return Answer(tables, {"q": q, "variance": variance, "kappa": kappa})


def _at_this_size(
    kappa: np.ndarray, exposure: Any, size: tuple[Any, Any], how: tuple[float, float], seed: int
) -> dict[str, Columns]:
    """Predictions for all strengths together, at a size where it is known."""
    from hopfed.theory import spiked

    least = len(kappa) * (1 if exposure is None else 2)  # rows that all archetypes need
    if not all(size):
        return {}
    if len(kappa) >= min(size) or least > size[1]:
        err.print(f"no prediction at this size: {len(kappa)} archetypes need more sites and rows")
        return {}
    order = np.argsort(-kappa, kind="stable")
    shares = None if exposure is None else np.broadcast_to(exposure, kappa.shape)[order]
    drawn = spiked.predict(kappa[order], *size, *how, shares, DRAWS, seed)
    held = {n: getattr(drawn, n) for n in ("eigenvalue", "eigenvalue_sd")}
    held |= {n: getattr(drawn, n).diagonal() for n in ("overlap", "overlap_sd")}
    return {"at_this_size": {"kappa": kappa[order], **held, "power": drawn.power}}


@prediction
def phase(
    N: Sites,
    M: Examples,
    r: Annotated[Many, "Qualities."] = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9",
    exposure: Annotated[Many, "Exposures to place in the diagram."] = None,
    power: Power = 0.9,
    alpha: Alpha = FALSE_ALARM,
) -> Answer:
    """Print exposures seen at each quality, by N sites and M examples.

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
        Any, kinds.number_list(kinds.NUMBER), "Dreaming times; 0 is Hebb's rule, inf the projector."
    ] = "0,0.1,0.5,1,2,5,10,inf",
    alpha: Annotated[Many, "Loads at which to give the magnetisation."] = None,
    temperature: Annotated[Many, "Temperatures at which to give Hebb's capacity."] = None,
) -> Answer:
    """Print the number of archetypes that an associative memory holds.

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
    cues: Annotated[Whole, "Number of cues for each load and share."] = 40,
    seed: Seed = 0,
) -> Answer:
    """Simulate and print the damage that a memory repairs, by load.

    The edge of the basin is the share of turned sites at which half of the cues come back to an
    overlap of .9, and nearer than they were; `edge_above` where all --flips are repaired. The table
    also has the overlap from undamaged cues, measured and predicted; for layers, the share of
    mixtures that they take apart.

    Example: hopfed theory basins --rule dense --set n=4 --N 60 --loads 0.5,2 --figure basins.pdf
    """
    from hopfed._lib.settings import with_settings
    from hopfed.memory.basins import basins as swept
    from hopfed.memory.rules import rule_named

    chosen = with_settings(rule_named(rule), [part for part in set_.split(",") if part])
    with err.status("recalling"):
        found = swept(chosen, int(N), loads, flips, cues=int(cues), seed=seed)
    first = {"load": found.loads, "patterns": found.patterns, "edge": found.edge}
    last = (found.edge == found.flips[-1]) & (found.recalled[:, -1] >= 0.5)
    optional = {"edge_above": np.where(last, found.edge, np.nan)}
    optional |= {"edge_by_theory": found.law_edge, "apart": found.apart}
    first |= {name: held for name, held in optional.items() if not np.isnan(held).all()}
    first |= {"overlap": found.overlap[:, 0], "overlap_by_theory": found.law}
    each = {"load": found.loads[:, None], "flips": found.flips, "recalled": found.recalled}
    recalled = {"recalled": each | {"overlap": found.overlap}}
    return Answer({"basins": first}, {"found": found}, beside=recalled)


_EXPOSURES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
_MEANINGS, _PROMISED = load_words()["plan"], load_words()["promises"]  # name -> meaning
_FIELDS = {"M_boundary": "boundary", "M": "samples"} | {n: n for n in list(_MEANINGS)[3:]}


def _rates(text: str) -> tuple[float, float]:
    """Two numbers above 0."""
    found = kinds.NUMBERS.parse(text).tolist()
    require(len(found) == 2 and min(found) > 0, "", "two numbers above 0, A,B", repr(text))
    return found[0], found[1]


@prediction
def plan(
    N: Sites,
    r: Annotated[Real, "Quality of the examples; required without --rates A,B."] = None,
    exposure: Annotated[Many, "Shares of the examples. [default: 0.5 to 0.01]"] = None,
    K: Annotated[Whole, "Number of archetypes, all of equal exposure."] = None,
    power: Power = 0.9,
    alpha: Alpha = FALSE_ALARM,
    missing: Annotated[Real, "Share of entries that are not observed. [default: 0]"] = None,
    rates: Annotated[
        Any,
        ParsedText("rates", _rates),
        "A,B: parameters of a Beta law of each class's column rates. [default: flips of --r]",
    ] = None,
    M: Annotated[Whole, "Number of rows at hand, to predict what they show."] = None,
    epsilon: Annotated[Number, "Privacy budget of every client, inf for none."] = None,
    delta: Annotated[Number, "With --epsilon: delta of the noise. [default: 1e-5]"] = None,
    clients: Annotated[Whole, "With --epsilon: clients with equal data. [default: 1]"] = None,
    rounds: Annotated[Whole, "With --epsilon: releases it covers. [default: 1]"] = None,
) -> Answer:
    """Print how many examples a study needs for its archetypes.

    Shares that sum to at most 1 are those of one study. M is then for seeing each archetype with
    probability --power; in the second table for seeing all of them, and for patterns that `hopfed
    recover` calls "ok" (resolved). The count is that of `recover` at the same --alpha. Of shares
    with a larger sum each is taken alone, by a formula that is right to .06.

    With --missing, --rates or --M each share is a class beside one with the rest of the rows, and
    the answer includes how well its rows are assigned and its means are known. Try --rates 1,1
    --missing 0.2 --N 100 --exposure 0.3,0.1.

    With --epsilon the plan is also for operators that clients release with noise, once or --rounds
    times; M is then for all clients together.

    Example: hopfed theory plan --r 0.6 --N 1000 --K 20
    """
    graded = {"missing": missing, "rates": rates, "M": M}
    private = {"epsilon": epsilon, "delta": delta, "clients": clients, "rounds": rounds}
    beside = [("epsilon", name) for name in graded]
    kinds.refuse_both(("K", "exposure"), *(("figure", n) for n in (*private, *graded)), *beside)
    asked = {name: value for name, value in private.items() if value is not None}
    known = epsilon is not None or not asked
    require(known, "--epsilon", f"given beside --{next(iter(asked), '')}", "none")
    require(K is None or K > 0, "--K", "at least 1", K)
    if exposure is None:
        exposure = np.array(_EXPOSURES) if K is None else np.full(K, 1 / K)
    if any(value is not None for value in graded.values()):
        from hopfed.theory import graded_planning

        law = rates, r, missing or 0.0
        with err.status("planning"):
            found = graded_planning.plan(
                graded_planning.ClassLaw(*law), exposure, N, power, alpha, 0, M
            )
        columns = {name: getattr(found, field) for name, field in _FIELDS.items()}
        return Answer({"plan": {"exposure": exposure} | columns}, {}, (_MEANINGS,))
    require(r is not None, "--r", "given, or --rates A,B", "neither")
    how = {"N": N, "power": power, "false_alarm": alpha}
    return _plain(r, exposure, how, asked)


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
    if private:  # first, to report its errors at once
        held = {"epsilon": None, "delta": 1e-5, "clients": 1, "rounds": 1} | private
        z = noise.noise_multiplier(held["epsilon"], held["delta"], held["rounds"])
        beside = {"privacy": held | {"noise_multiplier": z}}
        if z > 0:  # without noise the plan is the one above
            found = noise.plan(r, shares, multiplier=z, clients=held["clients"], **how)
            least = noise.minimal_samples(r, shares, N, z, held["clients"])
            beside["private_plan"] = columns(least, found)
    promised: tuple[Mapping[str, str], ...] = ()
    if exposure.sum() > 1 + 1e-9:
        tables = {"plan": columns(boundary, planning.plan(r, shares, **how))}
    else:  # one study of all archetypes: each share, and three promises
        with err.status("planning"):
            whole = study.promises(r, exposure, N, how["power"], how["false_alarm"])
        place = np.searchsorted(-whole.exposures, -shares)
        M = whole.each[place]
        enough = np.minimum(M, study.MOST)
        each = {
            "exposure": shares,
            "M_boundary": boundary,
            "M": M,
            "power": whole.each_power[place],
            "overlap": spikes.overlap(spikes.spike_strength(r, shares, N), N / enough),
            "margin": planning.margin(r, shares, N, enough),
        }
        sizes, powers = ([*held.values()] for held in (whole.samples, whole.powers))
        made = {"promise": [*study.PROMISES], "M": sizes, "power": powers}
        tables, promised = {"plan": each, "promises": made}, (_PROMISED,)
    drawn = {"r": r, "exposure": shares, "samples": tables["plan"]["M"]} | how
    tables |= beside
    names = {name for table in tables.values() for name in table}
    meanings = {name: said for name, said in _MEANINGS.items() if name in names}
    return Answer(tables, drawn, (meanings, *promised, *[PRIVATE] * ("private_plan" in beside)))


@kinds.command("spectrum")
@click.argument("file", type=kinds.PATH)
@click.option("--null", default="", help=NULLS)
@option("--level", "False-alarm rate.", kinds.FINITE, 0.01)
@option("--columns", "Centred, standardised or raw.", default="centred")
@option("--ignore", "Columns to leave out.", multiple=True, metavar="COLUMN,...")
@option("--n-rows", "Number of rows, if FILE is their covariance.", kinds.WHOLE)
@option("--draws", "Largest number of scrambled matrices for an eigenvalue.", kinds.WHOLE)
@option("--seed", "Seed of random draws.", kinds.SEED, 0)
@kinds.json_option
@kinds.figure_option
@kinds.overwrite_option
def spectrum_command(
    file: Path, figure: Path | None, as_json: bool, ignore: tuple[str, ...], **options: Any
) -> None:
    """Count components of a table beyond noise by random-matrix theory.

    FILE holds a number in each cell, or a gap. Each component has a p-value; the assumptions of
    the null are checked, and the status is "doubtful" where they do not hold.

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

    def show() -> None:
        columns = (found.eigenvalues, found.p_values, found.overlaps, found.overlap_errors)
        numbers = zip(*(held[: min(found.n_components, LISTED)] for held in columns), strict=True)
        if rows := [(k, *(f"{x:.3g}" for x in row)) for k, row in enumerate(numbers, start=1)]:
            print_table(("component", "eigenvalue", "p-value", "squared overlap", "error"), rows)
        whole = len(found.p_values) == found.n_components
        rest = "" if whole else f"; p = {found.p_values[-1]:.2g}"
        number = f"{found.n_components} component{'s' * (found.n_components != 1)}"
        out.print(
            f"{number} above the edge of {found.edge:.4g}, of "
            f"{found.shape[1]:,} columns and {found.shape[0]:,} degrees of freedom (null "
            f"{found.null}, level {found.level:g}); the next eigenvalue is noise{rest}"
        )
        out.note(f"status: {found.status}", *found.advice)

    finish_command({"as_json": as_json, "figure": figure}, found.to_dict(), show, found.plot)
