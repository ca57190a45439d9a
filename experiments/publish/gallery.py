"""Make the pictures of figures/gallery, and their index.

``python -m hopfed.experiments.publish.gallery`` runs the commands of each picture of pictures.toml
that is missing, one after the other, in a temporary folder; with names it makes these anew. It
works on a checkout, not on an installed package.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hopfed._lib.outputs import replacing
from hopfed._lib.settings import require
from hopfed.errors import HopfedError
from hopfed.experiments.publish import run

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
    made = f"hopfed run {name} --preset {start} --out {name}.h5"
    drawn = f"hopfed figure {name}.h5 --out {name}.png"
    first, *rest = picture.get("commands", [made, drawn])
    data = picture.get("data")
    return [first + (f" --set data={shlex.quote(str(Path(home, data)))}" if data else ""), *rest]


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
        drawn = Path(place, f"{picture['name']}.png")
        with Image.open(drawn) as image, replacing(folder / drawn.name) as temporary:
            few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
            few.save(temporary, optimize=True)


def index(folder: Path = FOLDER) -> str:
    """Return the text of the index of all existing pictures."""
    parts = [HEAD]
    for picture in (p for p in PICTURES if (folder / f"{p['name']}.png").is_file()):
        name, caption, made = picture["name"], picture["caption"], list[str]()
        if "commands" in picture:
            made = ["\n".join(f"    $ {command}" for command in commands(picture))]
        elif more := f"{picture['preset'].replace('quick', '')} {picture.get('data', '')}".strip():
            caption += f" `{more}`"  # the head says how it is made
        parts += [f"## {name}\n\n{caption}\n\n![{name}]({name}.png)", *made]
    return "\n\n".join(parts) + "\n"


def main(wanted: Sequence[str] = (), folder: Path = FOLDER) -> None:
    """Make missing pictures, or those that are wanted, and the index."""
    known = {picture["name"]: picture for picture in PICTURES}
    for name in wanted:
        require(name in known, "NAME", "a picture of pictures.toml", name)
    missing = [name for name in known if not (folder / f"{name}.png").is_file()]
    for name in wanted or missing:
        print(f"{name}: {commands(known[name])[0]}", flush=True)
        make(known[name], folder)
        (folder / "README.md").write_text(index(folder))


if __name__ == "__main__":
    run(main)
