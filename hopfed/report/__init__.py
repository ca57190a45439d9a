"""HTML page and tables about runs.

Run files come in; rows of numbers and one HTML file go out.
"""

from hopfed._lib.lazy_imports import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __path__)
