"""With epsilon one noisy table leaves, and nothing about the rows beside it."""

import numpy as np
from asking import N, ask, known, method, signs, site
from federations import private_patterns

from hopfed import kernels
from hopfed.federation.messages import digest
from hopfed.hopfield.batches import Batches, Elsewhere
from hopfed.hopfield.ledger import Ledger, Terms
from hopfed.tables.examples import as_examples


def test_with_epsilon_one_noisy_table_leaves_and_nothing_else(tmp_path):
    """Whatever is asked, in whatever order: counts with noise, and how many rows these are of."""
    rows = signs(300)
    node = site(tmp_path, rows, epsilon=1.0)
    asked = [private(2), *(method(r, groups=g) for r in (1, 2) for g in (0, 4)), private(2, 0.5)]
    asked += [private(1), private(2, 1.0, 1e-6), private(2, 2.0), private(2)]
    basis, patterns = {"basis": np.eye(N, 2, dtype="f4")}, known(rows[:3])
    replies = []
    for i, each in enumerate(asked):
        for t in range(2):
            for exchange, down in enumerate(({}, basis, patterns)):
                replies.append(ask(node, each, t, exchange, None, down, client=i))
    sent = [reply.message for reply in replies if reply.message]
    assert all(set(up) == {"counts", "examples"} for up in sent)
    assert len(sent) == 4
    assert len({digest(up) for up in sent}) == 2
    order = Ledger(tmp_path / "privacy").charge(as_examples(rows), Terms(1.0, 1e-5, 2))[0]
    x = kernels.unpack(Batches((order,), 2).examples(0, 0)).astype(int)
    noise = sent[0]["counts"] - (x.T @ x)[np.tri(N, k=-1, dtype=bool)]
    scale = private(2).client.mechanism.scale
    assert 0.8 * scale < noise.std() < 1.2 * scale


def private(rounds, epsilon=1.0, delta=1e-5):
    return private_patterns(Elsewhere(rounds), N, epsilon, delta)
