"""Notebooks of worked examples: `make notebooks` writes them to build/notebooks."""

from __future__ import annotations

import inspect
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

NAMES = ("spectrum", "spreadsheet", "own_method")
RUN = 'if __name__ == "__main__":'


def notebook(name: str) -> str:
    """Text of the notebook of a worked example (.ipynb, format 4.5): its words, code and run."""
    script = import_module(f"hopfed.experiments.worked.{name}")
    text = inspect.getsource(script).partition('"""\n\n')[2].partition(RUN)[0].strip()
    code: dict[str, Any] = {"outputs": [], "execution_count": None, "cell_type": "code"}
    cells = [code | {"source": source} for source in (text, "main();")]
    cells.insert(0, {"cell_type": "markdown", "source": f"# {script.__doc__}"})
    named = [cell | {"id": f"cell-{k}", "metadata": {}} for k, cell in enumerate(cells)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    whole = {"cells": named, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (folder / f"{name}.ipynb").write_text(notebook(name), encoding="utf-8")
        print(folder / f"{name}.ipynb")
