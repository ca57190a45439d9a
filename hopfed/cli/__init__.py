"""The `hopfed` command."""


def main() -> None:
    """Entry point of the `hopfed` command."""
