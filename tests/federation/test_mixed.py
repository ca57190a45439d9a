"""A server that asks questions, and clients some of whom answer none: their operators count."""

import numpy as np
import pytest
from asking import Sites

from hopfed.experiments import serve
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.client import unpack_patterns
from hopfed.hopfield.site.consent import Owner
from hopfed.hopfield.site.limits import Limits
from hopfed.tables.examples import as_examples

N, M, ROUNDS = 120, 500, 2


def played(questions):
    """Four archetypes, the last of which only the last two of four clients hold."""
    rng = np.random.default_rng(0)
    xi = rademacher(4, N, rng)
    rows = [draw_examples(xi[: 3 + (c > 1)], M, 0.8, rng)[0] for c in range(4)]
    owners = [
        Owner(
            as_examples(x), 1 + c, limits=Limits(questions=q, smallest_batch=50, trust_server=True)
        )
        for c, (x, q) in enumerate(zip(rows, questions, strict=True))
    ]
    config = serve.Config(columns=N, clients=4, rounds=ROUNDS, minimum=4, groups=4, votes=True)
    engine, state = Sites(owners), None
    for t in range(ROUNDS):
        arrays, state = serve.play(config, config.make(), 0, t, state, engine)
    found = unpack_patterns(arrays["archetypes/packed"][: int(arrays["archetypes/number"])], N)
    return np.abs(found @ xi.T.astype(int)).max(axis=0) / N, len(found), engine.refusals


@pytest.mark.parametrize("questions", [(1, 1, 1, 1), (1, 1, 0, 0), (0, 0, 1, 1), (0, 0, 0, 0)])
def test_of_clients_that_answer_no_questions_the_operators_count(questions):
    """Also where nobody that votes holds an archetype: it was dropped for want of votes."""
    overlaps, number, refusals = played(questions)
    assert (overlaps == 1).all()
    assert number == 4
    silent = [c for c, q in enumerate(questions) if not q]
    assert [r[:2] for r in refusals] == [(1, c) for c in silent] * ROUNDS
    assert all("answers no questions, only operators" in r[2] for r in refusals)
