"""HTML page and tables about runs.

Run files come in; rows of numbers and one HTML file go out.
"""

from hopfed._lib.lazy import offers

__getattr__, __dir__ = offers(__name__, __path__)
