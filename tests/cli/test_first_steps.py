"""What people type first, or by mistake: a page, or one line that says what is wrong."""

import os

import numpy as np
import pytest


def test_without_a_command_the_page_of_commands_comes(hopfed):
    for group in ((), ("theory",), ("fl",)):
        status, text, error = hopfed(*group)
        assert (status, text) == (2, "")
        assert error.startswith("Usage: hopfed")
        assert "\n  -h, --help" in error


@pytest.mark.parametrize("epsilon", ["nan", "inf", "0", "-1"])
def test_a_budget_that_is_none_is_refused_before_anything_is_said(hopfed, tmp_path, epsilon):
    """With inf a server might have asked for as little noise as it liked."""
    np.save(tmp_path / "a.npy", np.eye(4, dtype=bool))
    status, text, error = hopfed(
        "join", "--data", tmp_path / "a.npy", "--epsilon", epsilon, "--dry-run"
    )
    assert (status, text) == (2, "")
    assert "--epsilon" in error


def test_a_table_is_no_run_file(hopfed, tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,0\n")
    for command in ("show", "report", "figure"):
        status, _, error = hopfed(command, tmp_path / "a.csv")
        assert status == 2
        assert "a.csv: not a readable run file of hopfed, but a table" in error


def test_what_a_run_says_of_columns_is_not_said_again(hopfed, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (60, 6))
    text = "q0,q1,q2,q3,q4,q5\n" + "\n".join(",".join(map(str, row)) for row in rows)
    (tmp_path / "a.csv").write_text(text)
    run = tmp_path / "run.h5"
    assert hopfed("recover", tmp_path / "a.csv", "--out", run)[0] == 0
    for given, shown in ((("--id", ""), "--id must be left out"), (("--ignore", "q1"), "got q1")):
        status, _, error = hopfed("assign", run, tmp_path / "a.csv", "--out", "x.csv", *given)
        assert status == 2
        assert shown in error


def test_the_parts_are_shown_where_the_system_does_not_say_which_cores(hopfed, monkeypatch):
    """As on macOS, where the command ended in a traceback."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    status, text, _ = hopfed("doctor")
    assert status == 0
    assert f"cores {os.cpu_count()}" in " ".join(text.split())


def test_the_page_of_commands_cuts_no_sentence_off(hopfed):
    status, text, _ = hopfed("--help")
    assert status == 0
    assert not [line for line in text.partition("Commands:")[2].splitlines() if "..." in line]
