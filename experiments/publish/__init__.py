"""Tables of results and the gallery, written from finished runs.

Run files come in; `experiments/README.md`, `kernels/README.md` and `figures/gallery` go out.
"""
