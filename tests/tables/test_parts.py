"""Small parts that reading is made of: a line for each of their cases."""

import numpy as np
import pyarrow as pa
import pytest

from hopfed import kernels
from hopfed.spectral.skips import find_skips
from hopfed.tables.choosing import Choices
from hopfed.tables.coding import (
    Cells,
    Code,
    Coding,
    as_numbers,
    canonical,
    is_empty,
    level,
    meanings,
    number,
    order_levels,
    several_answers,
    spell,
)
from hopfed.tables.formats import decimal_columns, layout, sniff
from hopfed.tables.reading import describe_skips, oddities, with_words
from hopfed.tables.table import name_columns

MERGED = [["", "tea", ""], ["", "hot", "cold"], ["a", "1", "0"], ["b", "0", "0"]]
CLI = Choices(options=True)
NO_YES = Code("words", (("no", -1), ("yes", 1)))
CASES = [
    (lambda: [number(w) for w in (" 1.0", "-1e3", "1_0", "nan")], [1.0, -1000.0, None, None]),
    (lambda: [spell(v) for v in (1.0, -0.0, 1e300, None, True)], ["1", "0", "1e+300", "", "true"]),
    (lambda: [canonical(w) for w in (" YES", "1.0", "si\u0301")], ["yes", "1", "sí"]),
    (lambda: [level(w) for w in (" Oak ", "2.0", "01234")], ["Oak", "2", "01234"]),
    (lambda: meanings([["yes"], ["n"]]), {"n": -1, "yes": 1, "no": -1, "y": 1}),
    (lambda: meanings([["yes", "nein"], ["1", "0"]]), None),  # two families at one owner
    (lambda: several_answers(["bus;bike", "car"])[0], ""),  # as many answers as cells
    (lambda: several_answers(["a", "b", "a;b", "b; c"]), (";", ("a", "b", "c"))),
    (lambda: Cells(pa.array([1.0, None, 0.5, 1.0])).words, ["1", "0.5"]),
    (lambda: as_numbers(pa.array([" 1", "?", "+2.5"]), "?").tolist()[::2], [1.0, 2.5]),
    (lambda: as_numbers(pa.array(["1", "?"])), None),
    (lambda: decimal_columns([["346", "6.372", "1,5"], ["6.372", "1.5", "2"]], ";"), ({2}, {0})),
    (lambda: decimal_columns([["346", "1.5"], ["6.372", ""]], ";"), (set(), set())),
    (lambda: decimal_columns([["3.846", "346"], ["6.372", "6.372"]], ";"), (set(), {1})),
    (lambda: sniff(["a;b", "1,5;2,5", "0,5;1,5"])[0], ";"),
    (lambda: (sniff(["a  b", "1  2"])[0], sniff(["a", "1"])[0]), (" ", ",")),
    (lambda: decimal_columns([["A", "1,5", "1,500"], ["B", "2", "2,250"]], ";"), ({1}, set())),
    (lambda: layout([["Survey", ""], ["", ""], ["id", "tea"], ["1", "yes"]])[1], ["id", "tea"]),
    (lambda: layout(MERGED)[1], ["", "tea hot", "tea cold"]),
    (lambda: order_levels(["often", "never", "Sometimes"]), ("never", "Sometimes", "often")),
    (lambda: layout([["1990", "1991", "1992"], ["0", "1", ""]])[1], ["1990", "1991", "1992"]),
    (lambda: layout([["0.5", "1.5"], ["1", "0"], ["0", "1"]])[1], ["0.5", "1.5"]),
    (lambda: layout([["0.5", "1"], ["1", "0"], ["0", "1"]])[1], ["", ""]),  # 1 may be an entry
    (lambda: name_columns(["a ", "", "a"], "a.csv")[0], ("a", "column 2", "a (2)")),
    (
        lambda: CLI.spell_options(words={"9": 0, "kg": {"-9": "missing"}}, ignore=["b c"]),
        "--words 9=+0,kg=-9=missing --ignore 'b c'",
    ),
    (lambda: is_empty(Code("words", (("0", -1), ("1", 1), ("9", 0)))), True),
    (
        lambda: Coding.of_bits(("a",), True).codes[0].entries(["-1", "0", "1"]).tolist(),
        [[-1, 0, 1]],
    ),
    (lambda: with_words(Coding(("tea",), (NO_YES,)), Choices(words={"9": 0}, ignore="tea")), None),
    (lambda: Choices(ignore=("a,b", "c")).resolve_names(["a", "b"]).ignore, ("a", "b", "c")),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_a_part_does_its_part(case):
    call, due = CASES[case]
    assert call() == due


def test_what_is_skipped_is_said():
    smokes = np.repeat([1, -1], 50)
    rows = np.stack([smokes, np.where(smokes > 0, np.tile([1, -1], 50), 0)], axis=1)
    coding = Coding.of_bits(("smokes", "many"), minus=True)
    lines = describe_skips(find_skips(kernels.pack_masked(rows)), coding)
    assert lines == ["blank wherever 'smokes' is -1: 'many'"]
    rows = kernels.pack(np.array([[1, -1, 1, 1], [-1, 1, 1, 1], [1, -1, 1, -1]]))
    assert oddities(rows, Coding.of_bits(("a", "b", "c", "d"), minus=True)) == [
        "the same in every row: 'c'",
        "equal or opposite in every row: 'a' and 'b'",
    ]
