"""`hopfed demo`: letters hidden in noise at five clients, and their recovery."""

from __future__ import annotations

import time
from pathlib import Path

from hopfed.cli import options as kinds
from hopfed.cli.options import command, option
from hopfed.cli.printing import err, out, say_wrote
from hopfed.cli.recover import print_recovery

SIZE = 48  # pixels of a side
PICTURE = "File of the picture: .png, .pdf or .svg."


@command("demo")
@option("--seed", "Seed of all draws.", kinds.SEED, 0)
@option("--figure", PICTURE, kinds.OutputFile(kinds.FIGURE), Path("demo.png"))
@kinds.overwrite_option
@kinds.device_option("it is computed")
def demo_command(seed: int, figure: Path, device: str) -> None:
    """Hide 26 letters in noise at five clients, and recover them.

    Example: hopfed demo --figure letters.png
    """
    from hopfed.experiments.shared.silhouettes import letters_over_clients

    with err.status("drawing letters and flipping a quarter of all pixels") as status:
        letters, examples, subsets = letters_over_clients(seed, SIZE)
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
        order = score.best.argsort(kind="stable")
        save(examples_and_patterns(drawn, patterns[order]), figure)
    for c, (rows, subset) in enumerate(zip(examples, subsets, strict=True), start=1):
        out.print(f"client {c}: {len(rows):,} noisy examples of the letters {subset}")
    out.print()
    print_recovery(recovery, seconds)
    out.print(
        f"compared with the truth: {score.found()} of {len(letters)} letters at |m| >= 0.99, "
        f"{score.false_discoveries} false discoveries"
    )
    say_wrote(figure)
