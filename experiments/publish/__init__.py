"""Tables of results in README.md and experiments/README.md, the gallery, and notebooks."""

import sys
from collections.abc import Callable, Sequence

from hopfed.errors import HopfedError


def run_script(main: Callable[[Sequence[str]], None]) -> None:
    """Run a script of the package `publish` with command-line arguments; an error is one line."""
    try:
        main(sys.argv[1:])
    except HopfedError as error:
        sys.exit(f"error: {error}")
