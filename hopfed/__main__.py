"""The command `hopfed`, also as `python -m hopfed`."""

import sys


def main() -> None:
    """Run the command line, and say it in one line when it is interrupted as it loads."""
    try:
        from hopfed.cli import main as run

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
