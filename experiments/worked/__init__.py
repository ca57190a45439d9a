"""Worked examples: each a script to read from top to bottom, run, and change."""
