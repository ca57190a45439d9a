"""Local training: one client after the other or all of one architecture at once.

Networks, data and an optimiser's settings come in; trained parameters, losses and costs go out.
"""
