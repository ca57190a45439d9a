"""`python -m hopfed` is `hopfed`."""

from hopfed.cli import main

if __name__ == "__main__":
    main()
