"""Associative memory: patterns are stored and recalled.

Patterns or an operator come in; the states in which the memory comes to rest go out.
"""
