"""`python -m hopfed` is `hopfed`."""

from hopfed.cli import main

main()
