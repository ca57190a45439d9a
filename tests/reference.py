"""What is public: the modules that the reference has a page for, and the names in them.

A name is public if it stands in the `__all__` of such a module, or, where there is none, if it is
a class or a function that the module defines, without an underscore.
"""

import dataclasses
import importlib
import inspect
import pkgutil
import re

PUBLIC = """
hopfed hopfed.recovery.recover hopfed.recovery.compare hopfed.sklearn hopfed.archetypes.archetypes
hopfed.archetypes.overlap hopfed.hopfield.federation hopfed.spectral.operators
hopfed.spectral.eigenpairs hopfed.spectral.rank hopfed.runs hopfed.errors
hopfed.tables.reading hopfed.tables.table hopfed.tables.coding
hopfed.hopfield hopfed.hopfield.channel hopfed.hopfield.example_sources
hopfed.hopfield.byzantine_guard hopfed.hopfield.pattern_channel hopfed.hopfield.noise
hopfed.theory hopfed.theory.* hopfed.kernels hopfed.federation hopfed.federation.contract
hopfed.federation.messages
hopfed.federation.rounds hopfed.federation.engines
hopfed.neural.method hopfed.neural.methods hopfed.neural.methods.* hopfed.neural.training.task
hopfed.neural.training.job hopfed.neural.training.losses hopfed.neural.data
hopfed.neural.models hopfed.memory.associative hopfed.memory.rules
"""


def modules():
    """Names of the public modules; `package.*` are those in it without an underscore."""
    for entry in PUBLIC.split():
        package = entry.removesuffix(".*")
        if package == entry:
            yield entry
            continue
        for found in pkgutil.iter_modules(importlib.import_module(package).__path__):
            if not found.name.startswith("_"):
                yield f"{package}.{found.name}"


def names(module):
    """Public classes and functions of a module, by name."""
    listed = getattr(module, "__all__", None)
    for name in vars(module) if listed is None else listed:
        thing = getattr(module, name)
        own = listed is not None or getattr(thing, "__module__", None) == module.__name__
        if not name.startswith("_") and own and callable(thing):
            yield name, thing


def members(cls):
    """Public methods and properties that a class itself defines, by name."""
    for name, thing in vars(cls).items():
        function = getattr(thing, "__func__", getattr(thing, "fget", thing))
        if not name.startswith("_") and inspect.isfunction(function):
            yield name, function


def written(thing):
    """The docstring of a function or a class itself, not one that a class inherits or is given."""
    text = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
    made = isinstance(thing, type) and (text or "").startswith(f"{thing.__name__}(")
    return "" if made or not text else inspect.cleandoc(text)


def parameters(thing):
    """Names of what a function takes, or of what a class is made of."""
    if dataclasses.is_dataclass(thing) or hasattr(thing, "_fields"):
        found = list(vars(thing).get("__annotations__", {}))
        kept = getattr(thing, "_fields", None) or {f.name for f in dataclasses.fields(thing)}
        found = [name for name in found if name in kept]
    elif not isinstance(thing, type):
        found = list(inspect.signature(thing).parameters)
    elif "__init__" in vars(thing) and not getattr(thing, "_is_protocol", False):
        found = list(inspect.signature(vars(thing)["__init__"]).parameters)
    else:
        found = []
    return [name for name in found if name not in ("self", "cls") and not name.startswith("_")]


def unnamed(thing, text):
    """Parameters of `thing` that `text` does not name."""
    return [p for p in parameters(thing) if not re.search(rf"(?<!\w){p}(?!\w)", text)]


def notation(module):
    """Section "Parameters" of a module's docstring: what all its functions call by one name."""
    return re.split(r"\nParameters\n-+\n", module.__doc__ or "", maxsplit=1)[1:]
