"""`hopfed list`: the experiments and their settings, without loading NumPy for the first."""

from __future__ import annotations

from dataclasses import fields

import click

from hopfed.cli.printing import named, out, table
from hopfed.experiments import CLAIMS, PRESET_NAMES, find, minutes, preset, presets


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
    out.print(experiment.__doc__.strip())
    known = {start: preset(experiment, start) for start in presets(experiment)}
    three, words = [known.pop(start) for start in PRESET_NAMES], annotated(experiment.Config)
    grid = table("setting", *PRESET_NAMES, "")
    for setting in fields(experiment.Config):
        values = (describe(getattr(p, setting.name)) for p in three)
        grid.add_row(setting.name, *values, words[setting.name][1])
    out.print("")
    out.print(grid)
    out.print(f"\nminutes: {', '.join(f'{n} {m:g}' for n, m in minutes(name).items())}")
    for start, held in known.items():
        out.print(f"\n--preset {start}: settings that differ from default's")
        for setting in fields(experiment.Config):
            value = getattr(held, setting.name)
            if value != getattr(three[1], setting.name):
                out.print(f"    {setting.name} = {describe(value)}", markup=False)
