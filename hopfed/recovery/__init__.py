"""One call from examples, in one place or several, to archetypes.

Examples of one or more clients go in; archetypes, the spectrum and the traffic come out.
"""

from hopfed._lib.lazy_imports import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __path__)
