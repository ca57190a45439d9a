"""From a session of owners' rows to archetypes and a verdict on them, and uses of archetypes.

Sums over rows go in: a spectrum and its rank, sums over groups and classes. Patterns or classes
come out, with their shares, scores, errors and a status; then rows are assigned and completed.
"""

from hopfed._lib.lazy_imports import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __path__)
