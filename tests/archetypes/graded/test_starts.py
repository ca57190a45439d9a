"""Starts of the search for classes."""

import numpy as np
import pytest
import sklearn.cluster

from hopfed.archetypes import class_questions


@pytest.mark.parametrize(("points", "threads"), [(500, 1), (400_000, 2)])
def test_small_problems_are_clustered_by_one_thread(monkeypatch, points, threads):
    """Threads of OpenMP wait for each other, twenty times as long where a core is busy."""
    pool = class_questions._openmp()  # not that of a library which other tests load later
    used = []

    def fit(self, X, sample_weight):
        used.append(max(library["num_threads"] for library in pool.info()))
        self.cluster_centers_, self.labels_ = X[: self.n_clusters], np.zeros(len(X), int)
        return self

    monkeypatch.setattr(sklearn.cluster.KMeans, "fit", fit)
    rows = np.random.default_rng(0).normal(size=(points, 3))
    with pool.limit(limits=2):
        class_questions.clusters(rows, np.ones(points), 20, 0, starts=1)
        after = max(library["num_threads"] for library in pool.info())
    assert (used, after) == ([threads], 2)
