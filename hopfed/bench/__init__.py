"""`hopfed bench`: the same work done two ways, in one process, as ratios."""
