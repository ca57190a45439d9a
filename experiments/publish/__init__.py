"""Tables of results and the gallery, written from finished runs.

Run files come in; `README.md`, `experiments/README.md` and `figures/gallery` go out.
"""
