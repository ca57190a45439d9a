"""Classes of rows: where they start, how they are fitted, and how many there are.

Owners and a whitened spectrum come in; classes with means and shares, and the channel that explains
the rows as well with the fewest numbers, go out.
"""
