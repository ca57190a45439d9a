"""Notebooks of worked examples: `make notebooks` writes them to build/notebooks."""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

NAMES = ("spectrum", "spreadsheet", "own_method")
PACKAGE = "hopfed.experiments.worked"


def cells(name: str) -> Iterator[tuple[str, str]]:
    """Kind and text of each cell: what the script says, its imports, its definitions, its run."""
    text = inspect.getsource(import_module(f"{PACKAGE}.{name}"))
    lines, tree = text.splitlines(), ast.parse(text)
    yield "markdown", f"# {ast.get_docstring(tree)}"
    above: list[str] = []  # imports and constants, which share a cell
    for node in tree.body[1:-1]:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        above.append("\n".join(lines[first - 1 : node.end_lineno]))
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            *others, definition = above
            yield from (("code", part) for part in ("\n".join(others), definition) if part)
            above = []
    yield "code", "main();"


def notebook(name: str) -> str:
    """Text of the .ipynb of a worked example, of format 4.5."""
    held = []
    for k, (kind, text) in enumerate(cells(name)):
        cell: dict[str, object] = {"cell_type": kind, "id": f"cell-{k}", "metadata": {}}
        cell["source"] = text
        if kind == "code":
            cell |= {"outputs": [], "execution_count": None}
        held.append(cell)
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    whole = {"cells": held, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (folder / f"{name}.ipynb").write_text(notebook(name), encoding="utf-8")
        print(folder / f"{name}.ipynb")
