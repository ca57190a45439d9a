"""hopfed: recover the prototypes hidden in binary data that stay with their owners."""

from importlib import import_module

# Public name -> module. Loaded on first use, so that `import hopfed` stays light; type checkers and
# editors read __init__.pyi.
_PUBLIC = {
    "Archetypes": "hopfed.archetypes.archetypes",
    "AssociativeMemory": "hopfed.memory.associative",
    "HopfedError": "hopfed.errors",
    "compare": "hopfed.recovery.compare",
    "load": "hopfed.archetypes.storage",
    "read_table": "hopfed.tables.reading",
    "recover": "hopfed.recovery.recover",
    "simulate": "hopfed.hopfield.federation",
    "spectrum": "hopfed.spectral.spectrum",
}

# Modules that are there after `import hopfed` alone.
_MODULES = ("kernels", "sklearn", "testing", "theory")

__all__ = [*_PUBLIC]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("hopfed")
    if name in _MODULES:
        return import_module(f"hopfed.{name}")
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'hopfed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
