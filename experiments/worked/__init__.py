"""Worked examples: scripts to read from top to bottom, to run, and to change."""
