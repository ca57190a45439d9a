"""What people type first, or by mistake: a page, or one line that says what is wrong."""

import os


def test_without_a_command_the_page_of_commands_comes(hopfed):
    for group in ((), ("theory",), ("fl",)):
        status, text, error = hopfed(*group)
        assert (status, text) == (2, "")
        assert error.startswith("Usage: hopfed")
        assert "\n  -h, --help" in error


def test_a_table_is_no_run_file(hopfed, tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,0\n")
    for command in ("show", "report", "figure"):
        status, _, error = hopfed(command, tmp_path / "a.csv")
        assert status == 2
        assert "a.csv: not a readable run file of hopfed, but a table" in error


def test_the_parts_are_shown_where_the_system_does_not_say_which_cores(hopfed, monkeypatch):
    """As on macOS, where the command ended in a traceback."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    status, text, _ = hopfed("doctor")
    assert status == 0
    assert f"cores {os.cpu_count()}" in " ".join(text.split())
