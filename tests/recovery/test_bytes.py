"""Bytes: what owners send of an operator, and all of it against the rows in bits."""

import json

import numpy as np

from hopfed.cli import main
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.recovery.recover import run_recovery


def parts(M, N, owners=3, K=2):
    rng = np.random.default_rng(0)
    xi = rademacher(K, N, rng)
    return [draw_examples(xi, M, 0.8, rng)[0] for _ in range(owners)]


def test_owners_send_counts_once_and_products_of_many_columns():
    few = run_recovery(parts(400, 200), seed=0, channel="symmetric").traffic.up
    counts = 2 * 200 * 201 // 2
    rest = 4 * 200 + 4 * 10 * 10  # column sums, and what follows of few directions
    assert counts < few.min() <= few.max() < counts + rest
    wide = run_recovery(parts(60, 3000), seed=0, channel="symmetric")
    assert wide.traffic.up.max() < 4 * 3000 * 64 * wide.exchanges


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
