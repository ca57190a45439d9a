"""`hopfed theory plan`: how many examples detect an archetype, and what they show of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from hopfed.cli.numbers import FINITE, NUMBER, WHOLE, Numbers
from hopfed.cli.predictions.tables import Columns, cell, numbers, output_options, show
from hopfed.cli.printing import err, out, table
from hopfed.errors import ArgumentError
from hopfed.theory.planning import FALSE_ALARM

if TYPE_CHECKING:
    from hopfed.theory.graded_planning import ClassLaw, GradedPlan

_PRIVATE = ("epsilon", "delta", "clients", "rounds")
_GRADED = ("missing", "rates", "samples", "simulate", "seed")
_MOST_ENTRIES = 100_000_000  # of a simulated table
_MOST_DRAWS = 10_000
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


class Rates(click.ParamType):
    """`symmetric`, or two numbers above 0: a tuple, or None for symmetric."""

    name = "rates"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, float] | str:
        """Parse `value`."""
        if isinstance(value, tuple) or value == "symmetric":
            return value
        found = Numbers().convert(value, param, ctx).tolist()
        if len(found) != 2 or min(found) <= 0:
            self.fail(f"{value!r} is not 'symmetric' or two numbers above 0, A,B", param, ctx)
        return found[0], found[1]


@click.command("plan")
@click.option("--r", type=FINITE, help="Quality of the examples; needed but for rates A,B.")
@numbers("--exposure", "exposure", "Shares of the examples. [default: 0.5 to 0.01]")
@click.option("--K", "equal", type=WHOLE, help="So many archetypes of equal exposure instead.")
@click.option("--N", "sites", type=WHOLE, required=True, help="Sites.")
@click.option("--power", type=FINITE, default=0.9, show_default=True, help="Of the test.")
@click.option(
    "--alpha", type=FINITE, default=FALSE_ALARM, show_default=True, help="False-alarm rate."
)
@click.option("--stronger", type=WHOLE, default=0, show_default=True, help="Stronger archetypes.")
@click.option("--missing", type=FINITE, help="Share of entries that are not observed. [default: 0]")
@click.option(
    "--rates",
    type=Rates(),
    metavar="A,B",
    help="Parameters of a Beta law of each class's column rates; or symmetric: flips of --r.",
)
@click.option("--M", "samples", type=WHOLE, help="Rows at hand: what do they show?")
@click.option("--simulate", type=WHOLE, metavar="DRAWS", help="Also draw tables and compare.")
@click.option("--seed", type=WHOLE, help="Of the simulation. [default: 0]")
@click.option("--epsilon", type=NUMBER, help="Privacy budget of every client, inf for none.")
@click.option("--delta", type=NUMBER, help="With --epsilon. [default: 1e-5]")
@click.option("--clients", type=WHOLE, help="With --epsilon: clients with equal data. [default: 1]")
@click.option("--rounds", type=WHOLE, help="With --epsilon: releases it covers. [default: 1]")
@output_options
def plan_command(exposure: Any, equal: int | None, sites: int, **options: Any) -> None:
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
    exposure = _shares(exposure, equal)
    private = [name for name in _PRIVATE if options[name] is not None]
    graded = [name for name in _GRADED if options[name] is not None]
    if private and options["epsilon"] is None:
        raise ArgumentError("--epsilon", f"given beside --{private[0]}", "none")
    if (private or graded) and options["figure"] is not None:
        flag = "M" if graded == ["samples"] else (private or graded)[0]
        raise ArgumentError("--figure", f"left out beside --{flag}", options["figure"])
    if private and graded:
        flag = "M" if graded[0] == "samples" else graded[0]
        raise ArgumentError("--epsilon", f"left out beside --{flag}", options["epsilon"])
    if graded:
        _graded(exposure, sites, options)
    elif options["r"] is None:
        raise ArgumentError("--r", "given, or --rates A,B", "neither")
    else:
        _plain(exposure, sites, options)


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
    if together:
        tables = _together(r, exposure, shares, arguments)
    else:
        plan = planning.plan(r, shares, **arguments)
        tables = {"plan": _plan_columns(shares, boundary, plan)}
    samples = tables["plan"]["M"]
    if options["epsilon"] is not None:
        defaults = {"delta": 1e-5, "clients": 1, "rounds": 1}
        given = {name: options[name] for name in defaults if options[name] is not None}
        tables |= _private_plan(r, shares, options["epsilon"], defaults | given, arguments)
    show(tables, options, "plan", r=r, exposure=shares, samples=samples, **arguments)
    if not options["as_json"]:
        held = {name for columns in tables.values() for name in columns}
        _explain({name: said for name, said in _MEANINGS.items() if name in held})
        if together:
            _explain(_PROMISED)
        if options["epsilon"] is not None:
            out.print(
                "\nThe second table is of operators with noise, of all clients' rows together."
            )


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
    promised = {
        "promise": list(study.PROMISES),
        "M": list(found.samples.values()),
        "power": list(found.powers.values()),
    }
    return {"plan": each, "promises": promised}


def _private_plan(
    r: float,
    exposure: np.ndarray,
    epsilon: float,
    budget: Mapping[str, Any],
    arguments: Mapping[str, Any],
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
    with err.status("planning"):
        found = plan(
            law,
            exposure,
            sites,
            options["power"],
            options["alpha"],
            options["stronger"],
            options["samples"],
        )
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
