"""`hopfed demo`: a recovery of letters from several clients, in a few seconds."""

from __future__ import annotations

import time
from pathlib import Path

import click

from hopfed.cli.numbers import SEED, within
from hopfed.cli.options import device_option, file_option, option
from hopfed.cli.outputs import FIGURE, check_outputs, overwrite_option
from hopfed.cli.printing import err, out, shown


@click.command("demo")
@option("--seed", "Seed of all draws.", SEED, 0)
@option("--size", "Pixels.", within(40, 96), 48)
@file_option("--figure", "File of the picture: .png, .pdf or .svg.", default=Path("demo.png"))
@overwrite_option
@device_option("it is computed")
def demo_command(seed: int, size: int, figure: Path, device: str) -> None:
    """Hide 26 letters in noise at five clients, and recover them.

    Example: hopfed demo --figure letters.png
    """
    from hopfed.cli.tables.recover import print_recovery
    from hopfed.experiments.shared.silhouettes import letters_over_clients

    check_outputs(("--figure", figure, FIGURE))
    with err.status("drawing letters and flipping a quarter of all pixels") as status:
        letters, examples, subsets = letters_over_clients(seed, size)
        from hopfed.archetypes.overlap import retrieval
        from hopfed.figures import save
        from hopfed.figures.style import examples_and_patterns
        from hopfed.recovery.recover import run_recovery

        status.update("recovering")
        seconds = -time.perf_counter()
        recovery = run_recovery(examples, seed=seed, refit=True, device=device)
        seconds += time.perf_counter()
        status.update("drawing")
        patterns = recovery.archetypes.patterns
        score = retrieval(patterns, letters)  # the truth only sorts and scores
        drawn = [rows[i] for i in range(6) for rows in examples]
        sorted_ = patterns[score.best.argsort(kind="stable")]
        save(examples_and_patterns(drawn, sorted_, size), figure)
    for c, (rows, subset) in enumerate(zip(examples, subsets, strict=True), start=1):
        out.print(f"client {c}: {len(rows):,} noisy examples of the letters {subset}")
    out.print()
    print_recovery(recovery, seconds)
    out.print(
        f"compared with the truth: {score.found()} of {len(letters)} letters at |m| >= 0.99, "
        f"{score.false_discoveries} false discoveries"
    )
    out.print(f"wrote {shown(figure)}")
