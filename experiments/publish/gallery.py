"""Make the pictures of figures/gallery, and their index.

``python -m hopfed.experiments.publish.gallery`` runs the commands of each picture of pictures.toml
that is missing, one after the other, in a temporary folder; with names it makes these anew. If it
is stopped and started again, it continues with the next picture. It works on a checkout, not on an
installed package.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

import click

from hopfed._lib.outputs import replacing
from hopfed.errors import HopfedError

FOLDER = Path(__file__).parents[2] / "figures" / "gallery"
COLOURS = 256  # number of colours of a stored picture
HEAD = (
    "# Gallery\n\nMade by `make gallery`, or `hopfed run NAME --preset PRESET --out NAME.h5` and "
    "`hopfed figure NAME.h5 --out NAME.png`; behind the caption stand data, and a PRESET that is "
    "not `quick`."
)


TABLE = tomllib.loads(Path(__file__).with_name("pictures.toml").read_text(encoding="utf-8"))
PICTURES: list[dict[str, Any]] = TABLE["picture"]


def commands(picture: dict[str, Any], home: str = "") -> list[str]:
    """The commands of a picture, with its data, which lie in the folder `home`."""
    name, start = picture["name"], picture.get("preset")
    run = f"hopfed run {name} --preset {start} --out {name}.h5"
    drawn = f"hopfed figure {name}.h5 --out {name}.png"
    first, *rest = picture.get("commands", [run, drawn])
    if data := picture.get("data"):
        first += f" --set data={shlex.quote(str(Path(home, data)))}"
    return [first, *rest]


def make(picture: dict[str, Any], folder: Path = FOLDER) -> None:
    """Run the commands of `picture`, and store it with few colours; data are in HOPFED_DATA."""
    from PIL import Image

    home = os.path.abspath(os.environ.get("HOPFED_DATA", "."))
    with tempfile.TemporaryDirectory() as place:
        for command in commands(picture, home):
            program, *words = shlex.split(command)
            words = [sys.executable, *(["-m", "hopfed"] * (program == "hopfed")), *words]
            done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                raise HopfedError(f"{command}: {reason}")
        drawn = Path(place) / f"{picture['name']}.png"
        with Image.open(drawn) as image, replacing(folder / drawn.name) as temporary:
            few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
            few.save(temporary, optimize=True)


def index(folder: Path = FOLDER) -> str:
    """Return the text of the index of all existing pictures."""
    parts = [HEAD]
    for picture in PICTURES:
        name, caption, plain = picture["name"], picture["caption"], "commands" not in picture
        if (folder / f"{name}.png").is_file():
            if plain:  # the head says how it is made
                more = picture["preset"].replace("quick", ""), picture.get("data", "")
                caption += f" `{' '.join(filter(None, more))}`" if any(more) else ""
            parts.append(f"## {name}\n\n{caption}\n\n![{name}]({name}.png)")
            if not plain:
                parts.append("\n".join(f"    $ {command}" for command in commands(picture)))
    return "\n\n".join(parts) + "\n"


@click.command()
@click.argument("wanted", nargs=-1, metavar="[NAME]...")
@click.option("--folder", type=click.Path(path_type=Path), default=FOLDER, help="Their folder.")
def main(wanted: tuple[str, ...], folder: Path) -> None:
    """Make missing pictures, or the pictures NAMEs.

    Example: python -m hopfed.experiments.publish.gallery bbp drift
    """
    known = {picture["name"]: picture for picture in PICTURES}
    if unknown := sorted(set(wanted) - set(known)):
        raise click.UsageError(f"there is no picture {unknown[0]!r}")
    missing = [name for name in known if not (folder / f"{name}.png").is_file()]
    failures = []
    for name in wanted or missing:
        click.echo(f"{name}: {commands(known[name])[0]}")
        began = time.monotonic()
        try:
            make(known[name], folder)
            click.echo(f"    {time.monotonic() - began:.0f} s")
        except HopfedError as error:
            failures.append(f"{name}: {error}")
    (folder / "README.md").write_text(index(folder))
    if failures:
        raise click.ClickException("\n".join(failures))


if __name__ == "__main__":
    main()
