"""The shape of the house: who imports whom, what `import hopfed` costs, one copy of each module."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Module or package -> what of hopfed it may import. A name stands for itself and all below it.
LOW = {"errors", "arrays", "rng"}
CORE = LOW | {"kernels", "theory"}
MAY_IMPORT = {
    "errors": set(),
    "theory": {"errors", "theory"},
    "arrays": {"errors"},
    "rng": {"errors"},
    "config": {"errors"},
    "limits": {"errors"},
    "outputs": {"errors"},
    "runs": {"errors", "limits", "outputs"},
    "kernels": {"arrays", "errors", "kernels"},
    "rows": CORE,
    "operators": CORE | {"rows"},
    "sketch": CORE | {"operators", "rows"},
    "tridiagonal": CORE,
    "spectrum": CORE | {"operators", "rows", "sketch", "tridiagonal"},
    "sharpen": CORE,
    "shuffle": CORE | {"operators", "spectrum"},
    "sample": CORE | {"operators"},
    "rank": CORE | {"sample", "sharpen", "shuffle"},
    "subspace": CORE | {"rank", "spectrum"},
    "select": CORE | {"subspace"},
    "lam": CORE,
    "joint": CORE | {"select", "subspace"},
    "ica": CORE | {"select", "subspace"},
    "search": CORE | {"lam", "select", "spectrum", "subspace"},
    "verdict": {"rank", "select", "spectrum", "theory"},
    "factorize": CORE
    | {"ica", "joint", "rank", "search", "select", "spectrum", "subspace", "verdict"},
    "recent": set(),
    "data": LOW | {"config", "kernels", "data", "limits", "recent"},
    "exchange": CORE | {"federation", "joint", "operators", "rows", "sample", "spectrum"},
    "recovery": CORE
    | {"config", "data", "exchange", "federation", "factorize", "joint", "operators", "rank"}
    | {"sample", "search", "spectrum"},
    "metrics": {"errors"},
    "agreement": CORE | {"config", "rows"},
    "novelty": CORE | {"operators", "rank", "sample", "spectrum"},
    "plasticity": CORE | {"agreement", "config", "novelty", "rows"},
    "aggregate": {"arrays", "errors"},
    "memory": LOW,
    "workers": set(),
    "discrete_gaussian": CORE | {"config"},
    "privacy": CORE | {"config", "operators", "sketch"},
    "private_recovery": CORE
    | {"config", "factorize", "privacy", "rank", "sample", "search", "spectrum"},
    "neural": LOW
    | {"aggregate", "config", "data", "federation", "limits", "memory", "neural", "recent"}
    | {"recovery", "runs"},
    "federation": LOW | {"runs", "workers"},
    "hopfield": CORE
    | {"aggregate", "agreement", "config", "data", "discrete_gaussian", "exchange", "factorize"}
    | {"federation", "joint"}
    | {"operators", "plasticity", "privacy", "private_recovery", "rank", "recent", "runs"}
    | {"rows", "sample", "search", "select", "sketch", "spectrum"},
    "recovery_run": {"recovery", "runs"},
    "figures": {"errors", "figures", "outputs", "runs", "theory"},
}
TOP = {"__main__", "bench", "cli", "experiments", "report", "results"}  # may import all below them


def modules():
    for folder, prefix in (
        ("hopfed", ""),
        ("kernels", "kernels."),
        ("theory", "theory."),
        ("experiments", "experiments."),
        ("figures", "figures."),
    ):
        for path in sorted((ROOT / folder).rglob("*.py")):
            relative = path.relative_to(ROOT / folder).with_suffix("")
            yield prefix + ".".join(relative.parts), path


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == "hopfed":
                yield from (f"hopfed.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize(("name", "path"), list(modules()), ids=lambda x: str(x))
def test_imports_go_downward(name, path):
    room = name.partition(".")[0]
    if room in TOP or room == "__init__":
        return
    assert room in MAY_IMPORT, f"give {room} a line in MAY_IMPORT"
    rooms = {m.split(".")[1] for m in imported(path) if m.startswith("hopfed.")}
    assert rooms <= MAY_IMPORT[room] | {room}


def test_no_module_imports_the_folders_as_packages_of_their_own():
    for name, path in modules():
        tops = {m.partition(".")[0] for m in imported(path)}
        assert not tops & {"kernels", "theory", "experiments", "figures"}, name


def test_import_is_light():
    code = (
        "import sys, time; t = time.perf_counter(); import hopfed; t = time.perf_counter() - t;"
        "heavy = {'numba', 'matplotlib', 'h5py', 'torch', 'cupy', 'sklearn', 'flwr'};"
        "heavy &= set(sys.modules);"
        "print(heavy, t < 0.3)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["set()", "True"]


def test_every_package_is_listed_for_the_wheel():
    import tomllib

    listed = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    )
    found = {
        "hopfed" + ("." + name.rpartition(".__init__")[0] if "." in name else "")
        for name, path in modules()
        if path.name == "__init__.py"
    }
    assert listed == {f.rstrip(".") for f in found}


def test_the_picture_in_contributing_is_true():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    lines = text.partition("```text\n")[2].partition("```")[0].strip().splitlines()
    # Names stand left of the gap of three spaces that sets off what they are.
    level = {name: -i for i, line in enumerate(lines) for name in line.split("   ")[0].split()}
    for name, path in modules():
        top = name.split(".")[0]
        if top == "__init__":
            continue
        assert top in level, f"{top} is not in the picture"
        for module in imported(path):
            if module.startswith("hopfed.") and module.split(".")[1] in level:
                below = module.split(".")[1]
                assert level[below] <= level[top], f"{name} imports {module}, which is above it"
