"""Names of a package are imported when they are first used, and stand in its `dir()` before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any


def lazy_names(
    package: str, path: Iterable[str] = (), homes: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that imports modules, or names, lazily.

    Names that the package defines, or its `__all__`, are in `dir()` too; its imports are not.
    """

    modules = {m.name: "" for m in iter_modules(path) if not m.name.startswith("_")}
    known = modules if homes is None else homes

    def named(name: str) -> Any:
        if name not in known:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{known[name] or name}")
        return getattr(module, name) if known[name] else module

    def listed() -> list[str]:
        held = vars(sys.modules[package])
        own = (
            name
            for name, thing in held.items()
            if not (name.startswith("_") or isinstance(thing, ModuleType))
            and getattr(thing, "__module__", package) == package
        )
        return sorted({*held.get("__all__", own), *known})

    return named, listed
