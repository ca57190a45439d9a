"""Bytes: the smaller form of an operator, and all of them against the rows in bits."""

import json

import numpy as np
import pytest

from hopfed.archetypes import moments
from hopfed.cli import main
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.recovery.recover import run_recovery


def parts(M, N, owners=3, K=2):
    rng = np.random.default_rng(0)
    xi = rademacher(K, N, rng)
    return [draw_examples(xi, M, 0.8, rng)[0] for _ in range(owners)]


@pytest.mark.parametrize(("M", "N"), [(12, 200), (48, 200), (60, 200), (400, 200)])
def test_clients_send_counts_or_all_factors_whichever_are_fewer_bytes(M, N):
    sent = run_recovery(parts(M, N), seed=0, channel="symmetric").traffic.up
    counts, factors = 2 * N * (N + 1) // 2, 4 * M * (N + 1)
    rest = 4 * N + 4 * 10 * 10  # column sums, and what follows of few directions
    assert min(counts, factors) < sent.min()
    assert sent.max() < min(counts, factors) + rest


def test_wide_tables_of_few_rows_send_factors_once_and_find_the_same():
    few, masked = (
        run_recovery(parts(40, 3000, 5), seed=0, channel="symmetric", masked=masked)
        for masked in (False, True)  # behind a mask single operators are not seen
    )
    assert few.traffic.up.max() < 0.7 * masked.traffic.up.max()
    np.testing.assert_array_equal(few.archetypes.patterns, masked.archetypes.patterns)
    assert few.traffic.up.max() == pytest.approx(4 * 40 * 3001, rel=0.05)


def test_a_count_in_whitened_coordinates_over_wide_tables_sends_factors_once(monkeypatch):
    asked, factors = [], moments.factors
    monkeypatch.setattr(moments, "factors", lambda *told: asked.append(1) or factors(*told))
    rng = np.random.default_rng(2)
    T = rng.uniform(-1, 1, (3, 1500))
    y = rng.integers(3, size=600)
    x = np.where(rng.random((600, 1500)) < (1 + T[y]) / 2, 1, -1)
    x[rng.random(x.shape) < 0.1] = 0
    found = run_recovery(np.array_split(x, 3), seed=0)
    assert len(found.archetypes) == 3
    assert len(asked) == 3


def test_rows_in_bits_are_said_beside_what_was_sent(tmp_path, capsys):
    tables = parts(60, 200)
    gaps = [np.where(np.random.default_rng(1).random(x.shape) < 0.1, 0, x) for x in tables]
    for rows, planes in ((tables, 1), (gaps, 2)):
        assert run_recovery(rows, seed=0).raw_nbytes == [planes * 60 * 200 // 8] * 3
    files = [str(tmp_path / f"{owner}.npy") for owner in range(2)]
    for file, rows in zip(files, tables, strict=False):
        np.save(file, rows)
    main(["recover", *files, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["bytes_raw"] == [1500] * 2
    main(["recover", *files])
    words = " ".join(capsys.readouterr().out.split())
    times = sum(told["bytes_sent"]) / 3000
    assert f" of bits ({times:.1f} times less)" in words
    main(["recover", files[0]])
    assert "one owner, so nothing was exchanged" in " ".join(capsys.readouterr().out.split())
