"""With trust in the server its questions read rows off; without it operators leave."""

import numpy as np
import pytest
from asking import Sites, ask, method, refused, rows_in, signs, site

from hopfed.cli import main
from hopfed.experiments import serve
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.site.consent import Owner
from hopfed.hopfield.site.limits import Limits
from hopfed.tables.examples import as_examples

N, M, GROUPS, EACH, BITS = 40, 2_000, 4, 3, 5  # columns in a direction, and bits of each


def pairs():
    """Rows whose first two columns differ in three of them, and the next two in one in 200."""
    rows, few = signs(M, N).copy(), np.array([17, 801, 1402])
    rows[:, 1], rows[:, 3] = rows[:, 0], rows[:, 2]
    rows[few, 1] *= -1
    rows[np.arange(100, M, 200), 3] *= -1
    return rows, few


def directions():
    """One that adds both pairs, and others that hold the remaining columns as digits."""
    basis = np.zeros((N, 1 + -(-(N - 2) // EACH)))
    basis[:4, 0] = np.array([1, -1, 2, -2]) / 4
    for i, column in enumerate(range(2, N)):
        basis[column, 1 + i // EACH] = 2.0 ** -(1 + BITS * (i % EACH))
    return basis.astype("f4")


def read_off(sums, width):
    """Guess the row of each group that is alone among those of the first pair."""
    guesses = set()
    for triangle in sums.astype(float):
        table = np.zeros((width, width))
        table[np.tri(width, dtype=bool)] = triangle
        both = round(table[0, 0] * 4)  # one for a row of the first pair, four for one of the second
        alone, others = both % 4, both // 4
        if alone != 1:
            continue
        found = []
        for told in table[1:, 0] * 2 * 2.0 ** (1 + BITS * (EACH - 1)):
            left, digits = round(told), []
            for _ in range(EACH):
                digit = (left + 2 ** (BITS - 1)) % 2**BITS - 2 ** (BITS - 1)
                digits.append(1 if ((digit - 1) // 2 - others) % 2 == 0 else -1)
                left = (left - digit) >> BITS
            found += digits[::-1]
        row = np.array([1, -1, *found[: N - 2]])
        guesses |= {tuple(row), tuple(-row)}
    return guesses


def test_a_server_that_is_trusted_reads_a_row_off_digit_by_digit_and_no_other_does(tmp_path):
    rows, few = pairs()
    basis, asked = directions(), method(groups=GROUPS)

    def guesses(**limits):
        node = site(tmp_path / str(limits), rows, smallest_batch=0, **limits)
        started = ask(node, asked)
        assert not started.fault, started.reason
        assert set(started.up) == {"examples", "counts", "columns", "weight"}
        return ask(node, asked, 0, 1, started.state, {"basis": basis})

    reply = guesses(trust_server=True)
    assert not reply.fault, reply.reason
    assert (reply.up["sizes"] > 0).sum() > 1
    assert rows_in(rows[few], read_off(reply.up["groups"], basis.shape[1])) >= 1
    refused(guesses(trust_server=False), "join --questions N, with --trust-server")


def test_questions_need_trust_in_the_server(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    np.save(tmp_path / "mine.npy", signs(400))
    arguments = ["join", "--data", str(tmp_path / "mine.npy"), "--questions", "1"]

    def failed(*more):
        with pytest.raises(SystemExit) as end:
            main([*arguments, *more])
        assert end.value.code == 2
        return " ".join(capsys.readouterr().err.split())

    words = failed()
    assert "--questions must be given with --trust-server" in words
    assert "can learn single rows" in words
    assert "--server must be given" in failed("--trust-server")
    main([*arguments, "--dry-run"])
    words = " ".join(capsys.readouterr().out.split())
    assert "can learn single rows" in words
    assert "So it needs --trust-server" in words
    assert "votes, voters" in words


def test_who_does_not_trust_takes_part_with_operators_where_questions_are_asked():
    rng = np.random.default_rng(0)
    xi = rademacher(3, N, rng)
    rows = [as_examples(draw_examples(xi, 500, 0.8, rng)[0]) for _ in range(3)]
    limits = Limits(questions=1, smallest_batch=50)
    engine = Sites([Owner(x, 1 + c, limits=limits) for c, x in enumerate(rows)])
    config = serve.Config(columns=N, clients=3, minimum=3, groups=4, votes=True)
    arrays, _ = serve.play(config, config.make(), 0, 0, None, engine)
    assert int(arrays["archetypes/number"]) == 3
    assert {(exchange, client) for exchange, client, _ in engine.refusals} == {
        (1, 0),
        (1, 1),
        (1, 2),
    }
    assert all("with --trust-server" in words for *_, words in engine.refusals)
