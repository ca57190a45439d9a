"""Every public name says what it is, names what it takes, and has an example that runs.

The examples themselves are run by test_doctests.py.
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from reference import members, modules, names, notation, unnamed, written

from hopfed.federation.contract import Engine, Method

CONTRACT = (Method, Engine)  # its methods are described there, by whichever class they are offered


@pytest.fixture(autouse=True)
def _torch(request):
    if "hopfed.neural" in request.node.name:
        pytest.importorskip("torch", reason="torch is not installed")


def summary(text):
    """The first paragraph, as one line."""
    return " ".join(text.partition("\n\n")[0].split())


def complaints(module, name, thing):
    text = written(thing)
    if not summary(text).rstrip(")").endswith((".", ":")):
        yield f"{name}: no summary"
    if ">>> " not in text and not getattr(thing, "source", ""):  # methods are all called alike
        yield f"{name}: no example"
    shared = "\n".join(notation(module))
    missing = unnamed(thing, f"{text}\n{shared}")
    if missing:
        yield f"{name}: says nothing of {', '.join(missing)}"
    if isinstance(thing, type):
        yield from (f"{name}.{c}" for c in of_members(thing, shared))


def of_members(cls, shared):
    """What is missing in the methods of a class; its bases and the contract speak for them too."""
    about = "\n".join([shared, *map(written, cls.__mro__)])
    for name, function in members(cls):
        found = [vars(base)[name] for base in (*cls.__mro__, *CONTRACT) if name in vars(base)]
        texts = [member.__doc__ or "" for member in found]
        owners = [written(base) for base in CONTRACT if name in vars(base)]
        if not any(texts):
            yield f"{name}: no docstring"
        missing = unnamed(function, "\n".join([about, *texts, *owners]))
        if missing:
            yield f"{name}: says nothing of {', '.join(missing)}"


@pytest.mark.parametrize("name", list(modules()))
def test_every_public_name_is_documented(name):
    module = importlib.import_module(name)
    assert (module.__doc__ or "").strip()
    found = [c for public, thing in names(module) for c in complaints(module, public, thing)]
    assert found == []


def test_a_page_has_every_name_its_items_and_its_examples(tmp_path):
    pytest.importorskip("pdoc", reason="pdoc is not installed")
    wanted = ["hopfed", "hopfed.theory.spikes", "hopfed.errors"]
    code = f"import pages; print(pages.build({str(tmp_path)!r}, {wanted}))"
    command = [sys.executable, "-W", "error", "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    got = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (got.stdout.strip(), got.stderr) == ("[]", "")
    page = (tmp_path / "hopfed" / "theory" / "spikes.html").read_text()
    assert "<li><strong>kappa</strong>: spike strength in units of the bulk variance" in page
    assert 'class="gp"' in page
    assert "ArrayLike" in page
    assert "numpy._typing" not in page
    assert 'href="hopfed/theory/spikes.html"' in (tmp_path / "hopfed.html").read_text()
