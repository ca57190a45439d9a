"""`hopfed join --dry-run`: what would leave a site, and the worst that a server may ask."""

from __future__ import annotations

from typing import Any

from hopfed.cli.output import human_bytes, out, table


def show(
    rows: Any, limits: Any, epsilon: float | None, delta: float, settings: tuple[str, ...]
) -> None:
    """Print the messages of a round, played with these examples alone, and the worst case."""
    from hopfed._lib.settings import with_settings
    from hopfed.experiments import find
    from hopfed.federation.engines.local import LocalEngine
    from hopfed.federation.rounds import play_round
    from hopfed.hopfield.consent import Owner

    own = [f"columns={rows.shape[1]}"]
    if epsilon is not None:
        own += [f"epsilon={epsilon}", f"delta={delta}"]
    if limits.rounds and not any(s.partition("=")[0].strip() == "rounds" for s in settings):
        own.append(f"rounds={limits.rounds}")
    if not limits.questions:
        own += [s for s in ("groups=0", "votes=no") if not _named(s, settings)]
    config = with_settings(find("serve").Config(), [*own, *settings])
    method = Owner(rows, 1, epsilon, delta, limits=limits).adapt(config.make()).method
    sent: list[Any] = []

    class Recorded(LocalEngine):
        def step(self, method: Any, calls: Any) -> Any:
            outcomes = super().step(method, calls)
            sent.append(outcomes[0].message)
            return outcomes

    played = play_round(method, None, 0, seed=0, clients=1, engine=Recorded())
    _print_round(method, sent)
    up, rounds = int(played.traffic.up[0]), config.rounds
    out.print(
        f"\n{human_bytes(up)} in each of {rounds} round(s), {rows.shape[0]:,} examples dealt out "
        f"over them, if the server asks so. With other owners' data it names other directions and "
        f"patterns, so the sizes of later exchanges may differ.\n"
    )
    _print_worst(rows.shape, limits, epsilon is not None)


def _named(setting: str, settings: tuple[str, ...]) -> bool:
    name = setting.partition("=")[0]
    return any(each.partition("=")[0].strip() == name for each in settings)


def _print_round(method: Any, sent: list[Any]) -> None:
    from hopfed.hopfield.inventory import inventory

    grid = table("exchange", "array", "type", "shape", "size", "what it reveals")
    grid.columns[-1].justify = "left"
    for exchange, message in enumerate(sent):
        for name, kind, shape, size, reveals in inventory(method, message):
            grid.add_row(str(exchange), name, kind, shape, human_bytes(size), reveals)
    out.print(grid, markup=False)


def _print_worst(shape: tuple[int, int], limits: Any, private: bool) -> None:
    """Print what the worst of all servers may ask, in every exchange of every round."""
    from hopfed.hopfield.inventory import worst

    lines = worst(shape, limits, private)
    M, N = shape
    rounds, most = limits.most_rounds(M, N), limits.numbers(N)
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
    if not private:
        out.print(
            f"No batch is answered in which a column, or two, set fewer than {limits.smallest_set} "
            "rows apart from the others (--smallest-set)."
        )
    if batch < N and not private:
        out.print(
            f"Batches of {batch:,} rows have fewer rows than the {N:,} columns: in principle their "
            "operator determines them, and the fewer rows, the less work it is to find them "
            "(--smallest-batch, --epsilon)."
        )
    out.print("Nothing was sent.")
