"""Tables as people have them: columns with names, words for yes and no, ids, gaps."""

from hopfed._lib.lazy_imports import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __path__)
