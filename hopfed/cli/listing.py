"""`hopfed list`: the experiments and their settings, without loading NumPy for the first."""

from __future__ import annotations

from dataclasses import fields

import click

from hopfed.cli.printing import named, out, print_table
from hopfed.experiments import CLAIMS, find, minutes, preset, presets


@click.command("list")
@click.argument("name", required=False)
def list_command(name: str | None) -> None:
    """List the experiments, or the settings of the one called NAME.

    Example: hopfed list bbp
    """
    if name is None:
        for each, (claim, source) in CLAIMS.items():
            out.print(named(each, claim))
            out.print(f"    {source}", style="dim")
        return
    from hopfed._lib.settings import describe
    from hopfed.experiments.settings import annotated

    experiment = find(name)
    out.print(f"{experiment.__doc__.strip()}\n")
    words = annotated(experiment.Config)
    texts = {}
    for start in presets(experiment):
        config = preset(experiment, start)
        texts[start] = {f.name: describe(getattr(config, f.name)) for f in fields(config)}
    rows = [(n, *(each[n] for each in texts.values()), words[n][1]) for n in texts["default"]]
    print_table(("setting", *texts, ""), rows)
    out.print(f"\nminutes: {', '.join(f'{n} {m:g}' for n, m in minutes(name).items())}")
