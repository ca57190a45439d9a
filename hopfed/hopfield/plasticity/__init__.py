"""How much of a batch is new to a client, and so how much weight its operator gets.

A batch and the archetypes of the last broadcast come in; one weight in [0, 1] goes out.
"""
