"""Graded archetypes: latent classes of binary columns with gaps, at owners who keep their rows.

An entry is -1, 0 (missing) or +1; given its class the entries of a row are independent, with means
in [-1, 1]. Rows of one or several owners and a whitened spectrum come in; classes, their shares and
a verdict in words go out. Every step is a question of the server and an answer of each owner that
adds up (`owners`): the server never sees a row.
"""
