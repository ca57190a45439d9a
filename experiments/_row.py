"""A row of the two tables of experiments in README.md, filled in by `hopfed.experiments.readme`.

`claim` and `ours` are templates over the kept summary of the experiment (see `_quote`). A row whose
summary is not there yet is left out, or stands as it was `typed` by hand; a test says so when the
summary has come and the typed words must go.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from hopfed.config import describe, to_plain
from hopfed.experiments import find
from hopfed.experiments._quote import fill, number
from hopfed.experiments._summaries import Summary, read


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes
    ----------
    name : of the experiment.
    claim : what is claimed, or asked.
    ours : what came out.
    paper, aim : what the paper reports and what this project set out to reach.
    preset : that was run.
    setting : said behind the command.
    part : behind the name of the kept summary, of a run beside that of the preset.
    typed : the cells "ours" and "minutes" written by hand, until there is a summary.
    """

    name: str
    claim: str
    ours: str
    paper: str = "-"
    aim: str = "-"
    preset: str = "paper"
    setting: str = ""
    part: str = ""
    typed: tuple[str, str] | None = None

    def summary(self) -> Summary | None:
        """What is kept of its run."""
        return read(f"{self.name}_{self.part}" if self.part else self.name)

    def cells(self) -> tuple[str, str, str, str] | None:
        """Command, claim, "ours" and minutes; None while nothing is known."""
        kept = self.summary()
        if kept is not None:
            claim, ours = (fill(text, kept) for text in (self.claim, self.ours))
            return self._command(kept), claim, ours, self._minutes(kept)
        if self.typed is not None:
            return self._command(None), self.claim, *self.typed
        return None

    def _command(self, kept: Summary | None) -> str:
        """The command, with what is not as in the preset."""
        words = f"hopfed run {self.name}"
        if kept is not None:
            preset = to_plain(find(self.name).PRESETS[self.preset])
            changed = {k: v for k, v in kept["config"].items() if preset.get(k) != v}
            if "seeds" in changed:
                words += f" --seeds {changed.pop('seeds')}"
            for name, value in changed.items():
                text = f"{name}={'FILE' if str(value).endswith('.npz') else describe(value)}"
                words += f" --set {shlex.quote(text)}"
        return f"`{words}`" + (f" ({self.setting})" if self.setting else "")

    def _minutes(self, kept: Summary) -> str:
        if "minutes" in kept:
            return number(kept["minutes"], 0 if kept["minutes"] >= 10 else 1)
        return f"about {find(self.name).RECORD.minutes[self.preset]:g}"
