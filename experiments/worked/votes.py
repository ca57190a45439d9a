"""Votes in a parliament over three owners: its parties, and who votes against their own.

    python -m hopfed.experiments.worked.votes votes.csv

The file has a row for each member: a name, the `party`, and a column for each vote with yes, no, or
nothing where the member did not vote; such as the sixteen key votes of the House of Representatives
in 1984 (UCI Machine Learning Repository, Congressional Voting Records). Its rows are dealt to three
files, as three clerks might keep them. Parties are left out of the recovery; they name its classes,
and tell who is in one of the other party's.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import hopfed
from hopfed.errors import DataError
from hopfed.tables.options import Choices
from hopfed.tables.reading import read_tables

OWNERS = 3
SURE = 0.9  # probability from which a member is listed


@dataclass(frozen=True)
class Outcome:
    """Classes, members (K, parties) of each, and (name, party) of those surely elsewhere."""

    found: hopfed.Archetypes
    parties: list[str]
    counts: np.ndarray = field(repr=False)
    against: list[tuple[str, str]] = field(repr=False)


def deal(path: str | Path, folder: str | Path = ".") -> tuple[list[Path], list[np.ndarray]]:
    """Deal the members to files of owners; return these, and the parties of their members."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            header, *rows = [row for row in csv.reader(file) if row]
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    if "party" not in header:
        raise DataError(f"{path}: lacks the column 'party'")
    place = header.index("party")
    order = np.random.default_rng(0).permutation(len(rows))
    files, parties = [], []
    for k, part in enumerate(np.array_split(order, OWNERS), start=1):
        files.append(Path(folder) / f"clerk_{k}.csv")
        with open(files[-1], "w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([header, *(rows[i] for i in part)])
        parties.append(np.array([rows[i][place] for i in part]))
    return files, parties


def main(path: str | Path, folder: str | Path = ".") -> Outcome:
    """Recover the classes of three owners' members, and print how they lie to the parties."""
    files, parties = deal(path, folder)
    tables = read_tables(files, choices=Choices(ignore=("party",)))
    found = hopfed.recover(tables)
    print(found.summary())

    names = np.concatenate([np.arange(len(t)) if t.ids is None else t.ids for t in tables])
    answers = [found.assign(table) for table in tables]  # each owner of its own members
    archetype = np.concatenate([a.archetype for a in answers])
    sure = np.concatenate([a.probability for a in answers]) >= SURE
    known, party = np.unique(np.concatenate(parties), return_inverse=True)

    counts = np.zeros((len(found) + 1, len(known)), int)  # the last row: of no class
    np.add.at(counts, (archetype, party), 1)
    print(f"\nmembers by class: {', '.join(known)}")
    for k, row in enumerate(counts[:-1], start=1):
        print(f"  class {k}: {', '.join(map(str, row))}")
    own = counts[:-1].argmax(axis=1)
    other = (archetype >= 0) & sure & (own[archetype] != party)
    against = [(str(names[i]), str(known[party[i]])) for i in np.flatnonzero(other)]
    print(f"\nvote with the other party ({SURE:.0%} sure):")
    print("  " + "; ".join(f"{name} ({whose})" for name, whose in against))
    return Outcome(found, known.tolist(), counts[:-1], against)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2] or ["votes.csv"])
    except DataError as error:
        sys.exit(f"error: {error}")
