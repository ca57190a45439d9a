"""Make the pictures of figures/gallery, and their index.

``python -m hopfed.experiments.publish.gallery`` runs the commands of each picture of pictures.toml
that is missing or has other settings, one after the other, in a temporary folder. If it is stopped
and started again, it continues with the next picture. With names it makes these pictures; with run
files it draws them, and such a picture stays until it is asked for by name or with ``--all``. A
picture contains the commands that made it. The command works on a checkout, not on an installed
package.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path, PurePath
from typing import Any

import click

from hopfed._lib.outputs import replacing
from hopfed._lib.settings import to_plain
from hopfed.errors import HopfedError
from hopfed.experiments import find, preset
from hopfed.experiments.publish.results import changes
from hopfed.runs import Run

FOLDER = Path(__file__).parents[2] / "figures" / "gallery"
COLOURS = 256  # number of colours of a stored picture
KEY = "hopfed"  # key of the metadata in a picture: commands, settings, and whether there is more
HEAD = (
    "# Gallery\n\nMade by `make gallery`: pictures of quick and default presets, and some of "
    "longer runs. Each comes with the commands that make it again, in an empty folder. A picture "
    "shows what a reader needs first, in at most six panels; where there are more, `--whole` draws "
    "them all."
)

Made = dict[str, Any]


def _known() -> list[Made]:
    """The pictures; those of an experiment have the commands that follow from it."""
    text = Path(__file__).with_name("pictures.toml").read_text(encoding="utf-8")
    pictures: list[Made] = tomllib.loads(text)["picture"]
    for picture in pictures:
        name, start = picture["name"], picture.get("preset")
        run = f"hopfed run {name} --preset {start} --out {name}.h5"
        picture.setdefault("commands", [run, f"hopfed figure {name}.h5 --out {name}.png"])
        picture.setdefault("experiment", name if start else "")
    return pictures


PICTURES = _known()


def stale(picture: Made, folder: Path = FOLDER) -> bool:
    """Return whether `picture` is missing, or was made with other settings."""
    made = made_with(folder / f"{picture['name']}.png")
    return made is None or made["settings"] not in ("", digest(picture))


def digest(picture: Made) -> str:
    """Digest of the commands and the preset of a picture; the code is not included."""
    parts: list[Any] = [picture["commands"]]
    if picture["experiment"]:
        parts.append(to_plain(preset(find(picture["experiment"]), picture["preset"])))
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def made_with(path: Path) -> Made | None:
    """Return the metadata in the picture at `path`; None without a picture or metadata."""
    from PIL import Image

    if not path.is_file():
        return None
    with Image.open(path) as image:
        words = image.info.get(KEY)
    made: Made | None = None if words is None else json.loads(words)
    return made


def make(picture: Made, folder: Path = FOLDER) -> None:
    """Run the commands of `picture`, and store it with few colours."""
    from PIL import Image, PngImagePlugin

    with tempfile.TemporaryDirectory() as place:
        for command in picture["commands"]:
            program, *words = shlex.split(os.path.expandvars(command))
            words = [sys.executable, *(["-m", "hopfed"] * (program == "hopfed")), *words]
            done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                raise HopfedError(f"{command}: {reason}")
        told = picture.get("told", picture["commands"])
        settings = "" if "told" in picture else digest(picture)
        made = {"commands": told, "settings": settings, "more": "--whole" in done.stdout}
        text = PngImagePlugin.PngInfo()
        text.add_text(KEY, json.dumps(made))
        drawn = Path(place) / f"{picture['name']}.png"
        with Image.open(drawn) as image, replacing(folder / drawn.name) as temporary:
            few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
            few.save(temporary, optimize=True, pnginfo=text)


def here(picture: Made) -> Made:
    """A picture with the commands of this machine; they use the real data if these exist."""
    first, *rest = picture["commands"]
    home, data = os.environ.get("HOPFED_DATA", ""), picture.get("data")
    if data and home and (Path(home) / data).is_file():
        first += f" --set data=$HOPFED_DATA/{data}"
    return picture | {"commands": [first, *rest]}


def of_runs(paths: list[Path]) -> Made:
    """The picture of one or several run files of one kind."""
    runs = [Run.load(path, complete=True) for path in paths]
    kind = runs[0].kind
    files = [f"{run.config['method'] if kind == 'fl' else kind}.h5" for run in runs]
    told = [f"{command_of(run)} --out {file}" for run, file in zip(runs, files, strict=True)]
    told.append(f"hopfed figure {' '.join(files)} --out {kind}.png")
    where = shlex.join(str(path.absolute()) for path in paths)
    command = f"hopfed figure {where} --out {kind}.png"
    return {"name": kind, "commands": [command], "told": told}


def command_of(run: Run) -> str:
    """Return the command that makes such a run, from the nearest preset."""
    config = {name: _base(value) for name, value in run.config.items()}
    experiment, words = find(run.kind), f"hopfed run {run.kind}"
    starts = {f" --preset {name}": preset(experiment, name) for name in experiment.PRESETS}
    if run.kind == "fl":
        words, starts = f"hopfed fl run {config.pop('method')}", {"": experiment.Config()}
    options = {start: changes(config, to_plain(held)) for start, held in starts.items()}
    nearest = min(options, key=lambda start: len(options[start]))
    return " ".join([words + nearest, *options[nearest]])


def _base(value: Any) -> Any:
    """Return a path without its folder, because folders of other machines are meaningless."""
    return PurePath(value).name if isinstance(value, str) and "/" in value else value


def index(folder: Path = FOLDER) -> str:
    """Return the text of the index of all existing pictures."""
    parts = [HEAD]
    for picture in PICTURES:
        name = picture["name"]
        if not (folder / f"{name}.png").is_file():
            continue
        made = made_with(folder / f"{name}.png") or {"commands": picture["commands"]}
        commands = "\n".join(f"    $ {command}" for command in made["commands"])
        parts.append(f"## {name}\n\n{picture['caption']}\n\n![{name}]({name}.png)\n\n{commands}")
        if made.get("more"):
            parts.append(f"`{made['commands'][-1]} --whole` draws all panels.")
    return "\n\n".join(parts) + "\n"


@click.command()
@click.argument("wanted", nargs=-1, metavar="[NAME|RUN.h5]...")
@click.option("--all", "everything", is_flag=True, help="Make all pictures again.")
@click.option("--folder", type=click.Path(path_type=Path), default=FOLDER, help="Their folder.")
def main(wanted: tuple[str, ...], everything: bool, folder: Path) -> None:
    """Make missing and outdated pictures, or the pictures NAMEs, or draw run files.

    Example: python -m hopfed.experiments.publish.gallery bbp drift.h5
    """
    groups: dict[str, list[Path]] = {}
    for word in wanted:
        if word.endswith(".h5"):
            groups.setdefault(Run.load(word).kind, []).append(Path(word))
    named = {word for word in wanted if not word.endswith(".h5")}
    unknown = sorted(named - {picture["name"] for picture in PICTURES})
    if unknown:
        raise click.UsageError(f"there is no picture {unknown[0]!r}")
    todo = [
        here(p)
        for p in PICTURES
        if everything or p["name"] in named or (not wanted and stale(p, folder))
    ]
    todo += map(of_runs, groups.values())
    failures = []
    for count, picture in enumerate(todo, start=1):
        click.echo(f"[{count}/{len(todo)}] {picture['name']}: {picture['commands'][0]}")
        began = time.monotonic()
        try:
            make(picture, folder)
            click.echo(f"    {time.monotonic() - began:.0f} s")
        except HopfedError as error:
            failures.append(f"{picture['name']}: {error}")
    (folder / "README.md").write_text(index(folder))
    if failures:
        raise click.ClickException("\n".join(failures))


if __name__ == "__main__":
    main()
