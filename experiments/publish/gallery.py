"""Make the pictures of figures/gallery by the commands in its README.

``python -m hopfed.experiments.publish.gallery`` runs the commands of each picture that is missing,
one after the other, in a temporary folder. It works on a checkout, not on an installed package.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hopfed._lib.outputs import replacing
from hopfed.errors import HopfedError
from hopfed.experiments.publish import run_script

FOLDER = Path(__file__).parents[2] / "figures" / "gallery"
COLOURS = 256  # number of colours of a stored picture


def picture_commands(folder: Path = FOLDER) -> dict[str, list[str]]:
    """Name of each picture of the gallery -> its commands, the last of which writes NAME.png.

    The commands stand below its caption. A picture without commands is of the experiment of its
    name: its caption ends with the preset, quick if left out, and data of the folder HOPFED_DATA.
    """
    found, home = {}, os.path.abspath(os.environ.get("HOPFED_DATA", "."))
    for section in re.split("(?m)^## ", (folder / "README.md").read_text())[1:]:
        name, caption = section.split("\n")[0], section.split("\n")[2]
        preset, data = re.findall(r"(?:`(default|paper)? ?([^ `]*)`)?$", caption)[0]
        made = f"hopfed run {name} --preset {preset or 'quick'} --out {name}.h5"
        made += f" --set data={shlex.quote(os.path.join(home, data))}" if data else ""
        drawn = f"hopfed figure {name}.h5 --out {name}.png"
        found[name] = re.findall(r"(?m)^    \$ (.*)$", section) or [made, drawn]
    return found


def make_picture(name: str, commands: Sequence[str], folder: Path = FOLDER) -> None:
    """Run the commands of a picture of the gallery, and store it with few colours."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as place:
        for command in commands:
            program, *words = shlex.split(command)
            words = [sys.executable, *(["-m", "hopfed"] * (program == "hopfed")), *words]
            done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                raise HopfedError(f"{command}: {reason}")
        path = folder / f"{name}.png"
        with Image.open(Path(place, path.name)) as image, replacing(path) as temporary:
            few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
            few.save(temporary, optimize=True)


def main(folder: Path = FOLDER) -> None:
    """Make the missing pictures of the gallery."""
    for name, commands in picture_commands(folder).items():
        if not (folder / f"{name}.png").is_file():
            print(f"{name}: {commands[0]}", flush=True)
            make_picture(name, commands, folder)


if __name__ == "__main__":
    run_script(lambda _: main())
