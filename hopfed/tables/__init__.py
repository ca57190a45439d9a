"""Tables as people have them: columns with names, words for yes and no, ids, gaps."""

from hopfed._lib.lazy import offers

__getattr__, __dir__ = offers(__name__, __path__)
