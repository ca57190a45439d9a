"""What commands say of their own accord, for somebody who sees them for the first time."""

import numpy as np

from hopfed.hopfield.channel import draw_examples, rademacher


def test_a_dry_run_says_first_what_matters(hopfed, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    rng = np.random.default_rng(2)
    rows = draw_examples(rademacher(2, 60, rng), 900, 0.6, rng)[0]
    np.save(tmp_path / "mine.npy", rows)
    given = "join", "--data", tmp_path / "mine.npy", "--dry-run"
    for options, words in (
        (("--trust-server",), "can learn single rows of yours"),
        (("--epsilon", "2"), "tell of a row what epsilon 2 and delta 1e-05 say"),
    ):
        text, _ = hopfed.done(*given, *options)
        assert words in " ".join(text.split())
        assert text.endswith("Nothing was sent.\n")
        assert "gaps" not in text
    rows[:9, 0] = 0
    np.save(tmp_path / "mine.npy", rows)
    assert "These rows have gaps" in hopfed(*given, "--trust-server")[1]
    assert not (tmp_path / "home").exists()


def test_a_long_setting_is_shown_by_its_beginning(hopfed, tmp_path):
    path, run = tmp_path / "wide.csv", tmp_path / "run.h5"
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 2, (60, 150))
    lines = [",".join(f"question {j}" for j in range(150))]
    path.write_text("\n".join([*lines, *(",".join(map(str, row)) for row in rows)]))
    assert hopfed("recover", path, "--out", run)[0] == 0
    out, _ = hopfed.done("show", run)
    assert "question 3" in out
    assert "question 140" not in out
    assert "..." in out
