"""Tables as people have them: columns with names, words for yes and no, ids, gaps.

In come files, frames and arrays; out goes a `Table`: rows packed to bits, names of columns and
rows, the coding that made +-1 of the cells, and a line for everything that is odd.
"""

from hopfed._lib.lazy import offers

__getattr__, __dir__ = offers(__name__, __path__)
