"""Write the tables of results in the READMEs from kept summaries, which are their only source.

``python -m hopfed.experiments.publish.results RUN.h5 ...`` keeps the summaries of runs with the
code, one small JSON file each in ``experiments/summaries``, and rewrites the tables, each between
two comments with its name. Their rows are in `rows.toml`. A field of a row, such as ``{slope|3}``,
is a key of the summary, or ``config/`` and a setting. The words after the bar set the format: a
number of decimals, ``%`` (times 100), ``+`` (with its sign), ``mean`` (without the spread of a
pair) or ``range`` (smallest and largest of a list).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hopfed._lib.outputs import replacing
from hopfed.errors import HopfedError
from hopfed.experiments.publish import run_script
from hopfed.runs import Run

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "summaries"
ROWS = tomllib.loads(Path(__file__).with_name("rows.toml").read_text(encoding="utf-8"))["row"]
KEPT = ("kind", "config", "summary", "provenance")
DIGITS = 6  # significant digits of kept numbers; further ones would differ by machine

_FIELD = re.compile(r"\{([^{}|]+)(?:\|([^{}]*))?\}")

Summary = dict[str, Any]


def keep_summary(path: Path, folder: Path = FOLDER) -> str:
    """Keep a run's summary for published results, under its kind, or KIND_PART by its file."""
    held = Run.load(path, complete=True)
    name = path.stem if path.stem.startswith(f"{held.kind}_") else held.kind
    with replacing(folder / f"{name}.json") as temporary:
        temporary.write_text(summary_text({part: getattr(held, part) for part in KEPT}))
    return name


def summary_text(kept: Summary) -> str:
    """Text of a summary kept for published results: rounded numbers, and paths without folders."""
    text = re.sub(r'": "/[^"]*/', '": "', json.dumps(kept))
    short = json.loads(text, parse_float=lambda digits: float(f"{float(digits):.{DIGITS}g}"))
    return json.dumps(short, indent=1, sort_keys=True) + "\n"


def read_summary(name: str, folder: Path = FOLDER) -> Summary:
    """Return the summary of published results kept under `name`; HopfedError if there is none."""
    path = folder / f"{name}.json"
    if not path.exists():
        raise HopfedError(f"no summary of {name} is kept")
    kept: Summary = json.loads(path.read_text())
    return kept


def fill_template(template: str, kept: Mapping[str, Any]) -> str:
    """Return `template` of published results with its fields filled in from a kept summary."""
    parts = {"config": kept["config"], **kept["summary"]}
    inner = {k: part for k, part in parts.items() if isinstance(part, Mapping)}
    held = {f"{k}/{name}": v for k, part in inner.items() for name, v in part.items()} | parts

    def filled(field: re.Match[str]) -> str:
        if field[1] not in held:
            raise HopfedError(f"no {field[1]!r} in the kept summary of {kept['kind']}")
        return _text(held[field[1]], field[2] or "")

    return _FIELD.sub(filled, template)


def format_number(value: float, digits: int = 0, signed: bool = False) -> str:
    """Return `value` as in published results: no leading zero, no decimals of whole numbers."""
    value = round(value, 12)  # 100 times a share may miss a whole number by a bit
    whole = value == int(value)
    text = f"{value:{'+' if signed else ''},.{0 if whole else digits}f}"
    return re.sub(r"^([+-]?)0\.", r"\1.", text)


def markdown_table(*lines: Iterable[str]) -> str:
    """Return a table of published results in Markdown, of its headings and rows."""
    head, *rows = map(list, lines)
    marked = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in marked)


def summary_of_row(row: Mapping[str, str]) -> Summary:
    """Kept summary of the run of a row of published results."""
    return read_summary("_".join(filter(None, (row["experiment"], row.get("part")))))


def claims_table(which: str) -> str:
    """Return one table of published results: claims, the paper's values, and the measured ones."""
    cells = [("`hopfed run`", "claim or question", "measured here")]
    for row in (row for row in ROWS if row["table"] == which):
        claim, proposed = (
            fill_template(row[name], summary_of_row(row)) for name in ("claim", "proposed")
        )
        setting = f" ({row['setting']})" if "setting" in row else ""
        shown = f"`{row['command']}`{setting}" if "command" in row else ""
        paper = f" (paper: {row['paper']})" if "paper" in row else ""
        cells.append((shown, claim + paper, proposed))
    return markdown_table(*cells)


def highlights_table() -> str:
    """Return the table of the strongest published results, for the first page."""
    cells = [("claim", "measured", "experiment")]
    for row in (row for row in ROWS if "headline" in row):
        claim, value = (
            fill_template(row[name], summary_of_row(row)) for name in ("headline", "headline_value")
        )
        cells.append((claim, value, f"`hopfed run {row['experiment']}`"))
    return markdown_table(*cells)


def _text(value: Any, how: str) -> str:
    """A value of a summary, in the format that its field gives."""
    words = how.split()
    digits = next((int(word) for word in words if word.isdecimal()), 0)
    factor = 100 if "%" in words else 1

    def one(x: float, signed: bool = "+" in words) -> str:
        return format_number(factor * x, digits, signed)

    if "range" in words:
        return f"{one(min(value))} to {one(max(value))}"
    if isinstance(value, list):
        middle, spread = value
        alone = "mean" in words or spread is None
        return one(middle) + ("" if alone else f"±{one(spread, signed=False)}")
    return value if isinstance(value, str) else one(value)


# File -> name of a section -> function that writes it.
PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"results": highlights_table},
    "experiments/README.md": {
        "federation": lambda: claims_table("theory and the Hopfield federation"),
        "neural": lambda: claims_table("neural methods"),
    },
}


def render(text: str, sections: Mapping[str, Callable[[], str]]) -> str:
    """Return `text` with every section of published results between its comments rewritten."""
    for name, make in sections.items():
        begin, end = f"<!-- {name} -->\n", f"\n<!-- /{name} -->"
        parts = re.split(f"{begin}.*?{end}", text, flags=re.DOTALL)
        if len(parts) != 2:
            raise HopfedError(f"the page must hold one place for {name!r}")
        text = f"{begin}\n{make()}\n{end}".join(parts)
    return text


def main(runs: Iterable[str]) -> None:
    """Keep the summaries of run files, then rewrite the published tables of results."""
    for path in map(Path, runs):
        print(f"kept the summary of {keep_summary(path)}")
    for page, sections in PAGES.items():
        path = ROOT / page
        path.write_text(render(path.read_text(), sections))
        print(f"wrote {page}")


if __name__ == "__main__":
    run_script(main)
