"""Running the command line inside a test."""

import pytest

from hopfed.cli import main


@pytest.fixture
def hopfed(capsys):
    """Run `hopfed ARGUMENTS`; answer (exit status, stdout, stderr)."""

    def call(*arguments):
        status = 0
        try:
            main([str(a) for a in arguments])
        except SystemExit as stop:
            status = stop.code or 0
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call
