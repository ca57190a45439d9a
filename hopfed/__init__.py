"""hopfed: recover the prototypes hidden in binary data that stay with their owners."""

from hopfed._lib.lazy_imports import lazy_names

# Public name -> module, loaded on first use, so that `import hopfed` stays light; type checkers and
# editors read __init__.pyi.
_HOMES = {
    "Archetypes": "archetypes.archetypes",
    "AssociativeMemory": "memory.associative",
    "HopfedError": "errors",
    "compare": "recovery.compare",
    "load": "archetypes.run_file",
    "read_table": "tables.reading",
    "recover": "recovery.recover",
    "simulate": "hopfield.federation",
    "spectrum": "spectral.spectrum",
}
__all__ = [*_HOMES]

# Modules that are there after `import hopfed` alone.
_MODULES = ("kernels", "sklearn", "testing", "theory")
_found, __dir__ = lazy_names(__name__, homes=_HOMES | dict.fromkeys(_MODULES, ""))


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("hopfed")
    return _found(name)
