"""What the server of a Hopfield federation remembers from round to round.

Operators, projections and votes of a round come in; evidence, its counted spectrum and the
remembered archetypes go out.
"""
