"""`hopfed list`: the experiments, without loading NumPy, and their settings."""

from __future__ import annotations

from dataclasses import fields

import click

from hopfed.cli.printing import bold_name, out, print_table
from hopfed.experiments import CLAIMS, PRESET_NAMES, find_experiment, minutes, preset, presets


@click.command("list")
@click.argument("name", required=False)
def list_command(name: str | None) -> None:
    """List the experiments, or the settings of the one called NAME.

    Example: hopfed list bbp
    """
    if name is None:
        for each, (claim, source) in CLAIMS.items():
            out.print(bold_name(each, claim))
            out.print(f"    {source}", style="dim")
        return
    from hopfed._lib.settings import describe
    from hopfed.experiments.machinery.settings import field_rules

    experiment = find_experiment(name)
    out.print(f"{experiment.__doc__.strip()}\n")
    words = field_rules(experiment.Config)
    held = {start: preset(experiment, start) for start in presets(experiment)}
    texts = {n: {f.name: describe(getattr(c, f.name)) for f in fields(c)} for n, c in held.items()}
    three = [texts.pop(start) for start in PRESET_NAMES]
    rows = [(n, *(each[n] for each in three), words[n][1]) for n in three[1]]
    print_table(("setting", *PRESET_NAMES, ""), rows)
    for start, settings in texts.items():
        out.print(f"\n--preset {start}: settings that differ from default's")
        for setting, text in settings.items():
            if text != three[1][setting]:
                out.print(f"    {setting} = {text}")
    out.print(f"\nminutes: {', '.join(f'{n} {m:g}' for n, m in minutes(name).items())}")
