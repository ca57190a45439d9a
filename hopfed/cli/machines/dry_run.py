"""`hopfed join --dry-run`: what has left a client, what would, and the most a server may ask.

The record and the ledger in HOPFED_HOME are read, and nothing is written.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hopfed.cli.machines.serve import ASKING
from hopfed.cli.printing import human_bytes, out, shown, table
from hopfed.cli.tables.reading import by_code
from hopfed.errors import HopfedError

TRUST = {  # what needs --trust-server, and why
    "classes": "whoever runs a server to which you answer about classes without noise can learn "
    "single rows of yours: it names the classes, and subtracts the answers",
    "questions": "whoever runs a server whose questions you answer can learn single rows of yours: "
    "it names the directions and patterns, and reads rows off the answers as digits",
}
READ = 10  # codings that are printed
SHOWN = 10  # rounds of which the past is printed


def _print_reading(held: Any) -> None:
    """Print how the columns of a table are read, by all owners alike, and what is odd."""
    names, codes = held.coding.names, map(str, held.coding.codes)
    out.print(f"{len(held):,} rows; columns are read so, and must be by all owners:")
    for code, columns in by_code(dict(zip(names, codes, strict=True)))[:READ]:
        out.print(f"  {shown(code)}: {shown(columns)}")
    for line in held.notes:
        out.print(f"  {shown(line)}")
    out.print("")


def show(
    held: Any,
    rows: Any,
    lying: Any,
    limits: Any,
    epsilon: float | None,
    delta: float,
    settings: tuple[str, ...],
    others: bool = False,
) -> None:
    """Print three lines, what is recorded, a round of these examples alone, and the worst case.

    The rows are given as their table, as records know them, and as they lie in the file.
    """
    from hopfed._lib.home_folder import home
    from hopfed._lib.settings import with_settings
    from hopfed.experiments import find
    from hopfed.hopfield.site.budget import Ledger
    from hopfed.hopfield.site.consent import Owner
    from hopfed.hopfield.site.released import Released

    ledger = Ledger(home() / "privacy", look=True, others=others)
    released = Released.of(home() / "released", rows, look=True)
    terms, dealt = ledger.terms(rows), released.rounds
    filed = Released.of(home() / "released", lying, look=True)
    past = released if dealt is not None else filed
    noted = terms is None or released.terms is not None  # else by a version that noted no noise
    exact = (noted and released.exact) or (filed != released and filed.exact)
    _print_summary(rows.shape, limits, epsilon, exact)
    _print_reading(held)
    if epsilon is not None:
        ledger.check(rows)
    _print_past(rows, limits, epsilon, ledger, past, exact)
    own = [f"columns={rows.shape[1]}"]
    if epsilon is not None:
        own += [f"epsilon={epsilon if terms is None else terms.epsilon}"]
        own += [f"delta={delta if terms is None else terms.delta}"]
    rounds = limits.rounds or dealt or (terms.rounds if terms is not None else 0)
    own += [f"rounds={rounds}"] if rounds else []
    own += ASKING if limits.sets else []
    own += ["graded=yes"] if limits.classes else []
    own = [setting for setting in own if not _named(setting, settings)]
    config = with_settings(find("serve").Config(), [*own, *settings])
    owner = Owner(rows, 1, epsilon, delta, ledger, limits, released)
    _print_round(config, owner)
    if dealt is not None and not limits.rounds:
        limits = replace(limits, rounds=dealt)
    _print_worst(rows.shape, limits, None if epsilon is None else (epsilon, delta))


def _print_summary(
    shape: tuple[int, int], limits: Any, epsilon: float | None, exact: bool = False
) -> None:
    """Print in three lines what would leave, how many numbers, and who could learn something.

    exact : whether the rows left without noise before.
    """
    rounds = limits.most_rounds(*shape)
    if not rounds:
        return
    noisy = epsilon is not None
    what = "for every pair of columns, in how many rows they agree, with the sum of every column"
    if noisy:
        what = "for every pair of columns, in how many rows they agree, with noise for epsilon "
        what += f"{epsilon:g}"
    more = ["answers about directions and patterns that the server names"] * bool(limits.sets)
    more += ["sums over classes of rows that the server names"] * bool(limits.classes)
    what = "; ".join([what, *more])
    out.print(f"What would leave: {what}. No row, and no name of a column.")
    most = limits.noisy_numbers if noisy and limits.classes else limits.numbers
    exchanges = limits.classes or (3 if limits.sets else 1)
    out.print(
        f"How much: at most {most(shape[1]):,} numbers about any row, in at most {exchanges} "
        f"exchange(s) of each of up to {rounds} round(s)."
    )
    who = f"of sums over {shape[0] // rounds:,} rows or more"
    if noisy:
        who = f"of a single row no more than epsilon {epsilon:g} says"
        if exact:
            who += ", but for what left without noise before, which noise takes nothing back of"
    elif limits.sets or limits.classes:
        who = "of single rows, if it wants to (--trust-server)"
    out.print(
        f"Who could learn anything: whoever runs the server, {who}; other clients only the "
        "archetypes that all are told in the end.\n"
    )


def _print_past(
    rows: Any, limits: Any, epsilon: float | None, ledger: Any, released: Any, exact: bool
) -> None:
    """Print what left about these rows before, what was promised, and what that rules out."""
    terms, dealt, sent = ledger.terms(rows), released.rounds, released.sent
    if dealt is None and terms is None:
        out.print(
            "By the record in HOPFED_HOME nothing has left about exactly these rows and columns "
            "yet. Other forms of the table, with other columns or rows, are not looked for."
        )
    if dealt is not None:
        out.print(
            f"By the record in HOPFED_HOME these rows are dealt over {dealt} round(s): refused is "
            f"whoever asks for another number."
        )
    noisy = epsilon is not None and limits.classes
    most = limits.noisy_numbers(rows.shape[1]) if noisy else limits.numbers(rows.shape[1])
    for t, (numbers, answers) in list(sent.items())[:SHOWN]:
        named = ", ".join(f"{count} by {step}" for step, count in answers.items())
        out.print(f"    round {t}: {numbers:,} of {most:,} numbers have left; answers: {named}")
    if len(sent) > SHOWN:
        out.print(f"    and {len(sent) - SHOWN} round(s) more")
    given = [answers.get(s, 0) for _, answers in sent.values() for s in ("projections", "votes")]
    if limits.sets and max(given, default=0) >= limits.sets:
        out.print("Their questions are spent in part: refused is a set that was not asked before.")
    if terms is not None:
        out.print(
            f"By the ledger in HOPFED_HOME they are released with {terms}: the same is answered "
            "with the same bits, and refused are any other terms."
        )
    if epsilon is not None and exact:
        out.print("They left without noise before, and noise takes nothing of that back.")
    if epsilon is None and ledger.released(rows):
        out.print("They have a privacy budget: refused is every request, join --epsilon.")
    out.print("")


def _named(setting: str, settings: tuple[str, ...]) -> bool:
    name = setting.partition("=")[0]
    return any(each.partition("=")[0].strip() == name for each in settings)


def _print_round(config: Any, owner: Any) -> None:
    """Play a round with these examples alone, and print every array that would leave."""
    from hopfed.federation.engines import Outcome
    from hopfed.federation.engines.local import LocalEngine
    from hopfed.federation.faults import Fault, TooFewClientsError
    from hopfed.federation.rounds import play_round
    from hopfed.hopfield.site.inventory import inventory

    grid = table("exchange", "array", "type", "shape", "size", "what it reveals")
    grid.columns[-1].justify = "left"
    refusals: list[str] = []

    class Owned(LocalEngine):
        def step(self, method: Any, calls: Any) -> Any:
            (call,) = calls
            try:
                agreed = owner.adapt(method)
                state, up, _ = agreed.client_step(call.state, call.down, call.context)
            except HopfedError as error:
                refusals.append(f"exchange {call.context.exchange} is refused: {error}")
                return [Outcome(fault=Fault.RAISED, reason=str(error))]
            for name, kind, shape, size, reveals in inventory(method, up):
                bytes_ = human_bytes(size)
                grid.add_row(str(call.context.exchange), name, kind, shape, bytes_, reveals)
            return [Outcome(state, up)]

    try:
        played = play_round(config.make(), None, 0, seed=0, clients=1, engine=Owned())
    except TooFewClientsError as error:  # refused at once
        why = refusals[0] if refusals else error
        out.print(f"A server that asks as supposed here gets nothing: {why}\n", markup=False)
        return
    out.print(grid, markup=False)
    for words in refusals:
        out.print(words, markup=False)
    up, rounds = human_bytes(int(played.traffic.up[0])), config.rounds
    others = (
        " With other owners' data it names other directions and patterns, so the sizes of later "
        "exchanges may differ."
    )
    out.print(
        f"\n{up} in each of {rounds} round(s), {owner.rows.shape[0]:,} examples dealt out over "
        f"them, if the server asks so.{others if owner.limits.sets else ''}\n"
    )


def _print_worst(shape: tuple[int, int], limits: Any, budget: tuple[float, float] | None) -> None:
    """Print the most that any server may ask, in every exchange of every round."""
    from hopfed.hopfield.site.inventory import worst

    rounds = limits.most_rounds(*shape)
    if not rounds:
        out.print("No server may ask anything: the batches would be too small.\nNothing was sent.")
        return
    private = budget is not None
    lines = worst(shape, limits, private)
    M, N = shape
    most = limits.noisy_numbers(N) if private and limits.classes else limits.numbers(N)
    batch = M // rounds
    out.print(f"The worst that any server may ask, in each of up to {rounds} round(s):\n")
    grid = table("exchange", "arrays", "numbers, at most", "rows behind each, at least", "reveals")
    grid.columns[1].justify = grid.columns[-1].justify = "left"
    for line in lines:
        numbers, rows = f"{line.numbers:,}", f"{line.rows:,}"
        grid.add_row(str(line.exchange), line.arrays, numbers, rows, line.reveals)
    out.print(grid, markup=False)
    out.print(
        f"\nAt most {most:,} numbers in all about any row, over all rounds and federations "
        f"(--most-numbers), and none from fewer than {min(line.rows for line in lines):,} rows."
    )
    if limits.classes and budget is not None:
        out.print(
            f"All answers together are ({budget[0]:g}, {budget[1]:g})-private for every row, "
            "whatever is asked: each question is charged, and its noise is made for that."
        )
    if limits.classes and not private:
        out.print(
            "Of two answers about classes the difference may rest on one row: "
            f"{_trusting('classes')}"
        )
    if limits.sets:
        out.print(
            f"An answer to a question may hold single rows as digits: {_trusting('questions')}"
        )
    if not private:
        out.print(
            f"No batch is answered in which a column, or two, set fewer than {limits.smallest_set} "
            "rows apart from the others (--smallest-set), or rare values give rows away."
        )
        _print_insiders(batch, N)
    if batch < N and not private:
        out.print(
            f"Batches of {batch:,} rows have fewer rows than the {N:,} columns: in principle their "
            "operator determines them, and the fewer rows, or the more alike, the less work it is "
            "to find them (--smallest-batch, --epsilon)."
        )
    out.print("Nothing was sent.")


def _trusting(name: str) -> str:
    return (
        f"{TRUST[name]}. So it needs --trust-server, for servers of people to whom you would show "
        "the rows."
    )


def _print_insiders(batch: int, columns: int) -> None:
    """Print what somebody who knows a row already learns from a batch."""
    from hopfed.hopfield.leaks.known_rows import told_member, told_value

    member, value = (100 * told(batch, columns) for told in (told_member, told_value))
    out.print(
        f"Whoever knows a row can tell whether it is in a batch of {batch:,} rows, and is right in "
        f"{member:.0f} of 100 cases; whoever knows all of it but one value can guess that, and is "
        f"right in {value:.0f} of 100 (chance is 50; the columns have nothing in common): more "
        "rows hide more (--smallest-batch, --epsilon)."
    )
