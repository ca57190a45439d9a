"""Texts as people have them: columns, signs and names of rows, or a refusal of the column."""

import base64
import json
from pathlib import Path

import pytest

from hopfed.errors import DataError
from hopfed.kernels import unpack
from hopfed.tables.choosing import Choices
from hopfed.tables.reading import read_tables

FIXTURES = json.loads(Path(__file__).with_name("fixtures.json").read_text("utf-8"))


@pytest.mark.parametrize(
    "case", FIXTURES, ids=[f"{k}: {f['test']}" for k, f in enumerate(FIXTURES)]
)
def test_a_text_is_read_or_refused(tmp_path, case):
    path = tmp_path / f"a{case['ext']}"
    text = base64.b64decode(case["base64"]) if "base64" in case else case["text"].encode()
    path.write_bytes(text)
    choices = Choices(**{**case["told"], "ignore": tuple(case["told"].get("ignore", ()))})
    if "refused" in case:
        with pytest.raises(DataError) as caught:
            read_tables([path], choices=choices)
        said = str(caught.value)
        assert all(line.isprintable() for line in said.split("\n"))
        for name in case["refused"]:
            assert name in said
        return
    [table] = read_tables([path], choices=choices)
    signs = ["".join("-0+"[value + 1] for value in row) for row in unpack(table.held).tolist()]
    assert (list(table.columns), signs) == (case["columns"], case["signs"])
    assert (None if table.ids is None else table.ids.tolist()) == case["ids"]
