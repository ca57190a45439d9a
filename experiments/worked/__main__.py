"""What there is to run: the worked examples, each with its first line."""

from __future__ import annotations

import ast
from importlib.resources import files


def main() -> None:
    """Print a line for each script of this folder."""
    for path in sorted(files("hopfed.experiments.worked").iterdir(), key=lambda p: p.name):
        if path.name.endswith(".py") and not path.name.startswith("_"):
            says = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            print(
                f"python -m hopfed.experiments.worked.{path.name[:-3]}\n    {says.splitlines()[0]}"
            )


if __name__ == "__main__":
    main()
