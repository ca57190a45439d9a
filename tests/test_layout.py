"""The layout of the packages: who imports whom, what `import hopfed` costs."""

import ast
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("kernels", "theory", "experiments", "figures")  # mapped into the namespace

# Highest floor first. A package may import from its own floor and from those below.
FLOORS = (
    {"__main__", "cli", "report"},
    {"bench", "experiments"},
    {"hopfield", "neural"},
    {"privacy", "recovery", "sklearn"},
    {"archetypes", "memory", "testing"},
    {"federation", "figures", "spectral", "tables"},
    {"_lib", "errors", "kernels", "runs", "theory"},
)
LEVEL = {room: -i for i, floor in enumerate(FLOORS) for room in floor}
# Rooms that know less than their floor would let them.
ONLY = {"figures": {"_lib", "errors", "runs", "theory"}, "theory": {"errors"}}


def modules():
    """Dotted name below `hopfed`, and path, of every module."""
    for folder in ("hopfed", *FOLDERS):
        prefix = "" if folder == "hopfed" else f"{folder}."
        for path in sorted((ROOT / folder).rglob("*.py")):
            relative = path.relative_to(ROOT / folder).with_suffix("")
            yield prefix + ".".join(relative.parts), path


def imported(path):
    """Names of the modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == "hopfed":
                yield from (f"hopfed.{alias.name}" for alias in node.names)
            else:
                yield node.module


def test_imports_go_down_or_stay_on_their_floor_and_in_no_circle():
    needs = {}
    for name, path in modules():
        room, named = name.partition(".")[0], set(imported(path))
        assert not {module.partition(".")[0] for module in named} & set(FOLDERS), name
        if room == "__init__":
            continue
        assert room in LEVEL, f"give {room} a floor"
        found = {m.split(".")[1] for m in named if m.startswith("hopfed.")} & LEVEL.keys() - {room}
        above = {other for other in found if LEVEL[other] > LEVEL[room]}
        assert not above, f"{name} imports what is above it"
        assert found <= ONLY.get(room, found), name
        needs.setdefault(room, set()).update(found)
    list(TopologicalSorter(needs).static_order())  # raises CycleError


def test_import_is_light():
    heavy = {"numba", "matplotlib", "h5py", "torch", "cupy", "sklearn", "flwr", "pyarrow", "pandas"}
    command = [sys.executable, "-c", "import sys; import hopfed; print(*sys.modules)"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not heavy & set(answer.stdout.split())


def test_every_package_is_listed_for_the_wheel():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {
        ("hopfed." + name.removesuffix("__init__")).rstrip(".")
        for name, path in modules()
        if path.name == "__init__.py"
    }
    assert set(listed) == found


def test_the_floors_in_contributing_are_these():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"(?m)^\| (\d) \| (.+) \|$", text)
    assert [int(number) for number, _ in rows] == list(range(len(FLOORS), 0, -1))
    shown = [set(re.findall(r"`(\w+)`", row)) for _, row in rows]
    assert shown == [set(floor) for floor in FLOORS]
