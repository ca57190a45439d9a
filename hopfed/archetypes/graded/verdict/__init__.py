"""Whether classes are the right model: what they leave unexplained, against what chance leaves.

A fit and its owners come in; statistics beside those of tables drawn from the fit, and a verdict in
words, go out.
"""
