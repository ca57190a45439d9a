"""Tables of results and the gallery, written from finished runs.

Run files come in; `README.md`, `experiments/README.md` and `figures/gallery` go out.
"""

import sys
from collections.abc import Callable, Sequence

from hopfed.errors import HopfedError


def run(main: Callable[[Sequence[str]], None]) -> None:
    """Run a script with the words of its command; an error is one line."""
    try:
        main(sys.argv[1:])
    except HopfedError as error:
        sys.exit(f"error: {error}")
