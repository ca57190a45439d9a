"""Owners of rows, and how a server asks them: questions go down, answers that add up come back.

Rows with gaps and the variables that their columns belong to come in; sums over all owners go out.
"""
