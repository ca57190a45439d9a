"""Writes the tables of results and the gallery from finished runs.

Run files come in; `experiments/README.md`, `kernels/README.md` and `figures/gallery` go out.
"""
