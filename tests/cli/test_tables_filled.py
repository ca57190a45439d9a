"""What `complete` writes into the gaps of files, in the way in which these are written."""

import numpy as np
import pytest


@pytest.fixture
def lab(tmp_path):
    """A file of a German spreadsheet: a column with decimal commas, and one of whole numbers."""
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=400)
    cells = np.where(kind[:, None] == np.arange(8) % 2, "ja", "nein").astype(object)
    hb = [f"{x:.1f}".replace(".", ",") for x in 9 + 5 * kind + rng.random(400)]
    mmhg = (120 + 21 * kind + rng.integers(0, 10, 400)).astype(str)
    table = np.column_stack([cells, hb, mmhg])
    table[rng.random(table.shape) < 0.1] = ""
    head = [*(f"q{j}" for j in range(8)), "hb", "mmhg"]
    path = tmp_path / "lab.csv"
    path.write_text("\n".join(";".join(row) for row in [head, *table.tolist()]) + "\n")
    return path


def test_a_filled_file_keeps_its_decimal_commas_and_is_read_again(lab, tmp_path, hopfed):
    run, out = tmp_path / "run.h5", tmp_path / "full.csv"
    cuts = ("--binarize", "hb=11.9", "--binarize", "mmhg=130.5")
    assert hopfed("recover", lab, *cuts, "--out", run)[0] == 0
    assert hopfed("complete", run, lab, "--out", out)[0] == 0
    rows = [line.split(";") for line in out.read_text().splitlines()[1:]]
    given = [line.split(";") for line in lab.read_text().splitlines()[1:]]
    assert {word for row in rows for word in row[:8]} == {"ja", "nein"}
    assert [row[8:] for row in rows] == [row[8:] for row in given]  # numbers that were cut
    assert not any("." in cell for row in rows for cell in row)
    status, said, errors = hopfed("assign", run, out, "--out", tmp_path / "rows.csv")
    assert status == 0, errors  # what was written is read again
