"""Files of somebody else: equal names, and formulas."""

from pathlib import Path
from threading import Event

import pytest
from asking import ask, method, signs, site

from hopfed.cli.machines import join
from hopfed.errors import HopfedError
from hopfed.federation.machines import client
from hopfed.hopfield.site.budget import Ledger
from hopfed.tables.source import named
from hopfed.tables.writers import numbered, text_cell


def test_equal_names_are_numbered_in_no_time_and_one_line():
    """Twenty thousand took a minute, and as many lines."""
    names, notes = named(
        ["x"] * 50_000 + [f"y ({k})" for k in range(2, 20_000)] + ["y"] * 20_000, "a"
    )
    assert len(set(names)) == len(names) == 89_998
    assert names[1] == "x (2)"
    assert len(notes) == 1
    assert "'x (2)' here; 69,997 more are numbered, too" in notes[0]
    assert len(set(numbered(["x"] * 50_000))) == 50_000
    assert len(named(["x" * 300, "y" * 300, "z" * 300], "a")[1]) == 1


@pytest.mark.parametrize("before", ["", "\ufeff", "\u200b", " \u2060", "\u00ad\u200e", "\x00"])
@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_what_some_spreadsheets_take_for_a_formula_is_text(before, sign):
    text = f"{before}{sign}cmd()"
    assert text_cell(text) == f"'{text}"
    assert text_cell(f"a;{text}") == f"a;'{text}"


def test_other_words_stay_as_they_are():
    for text in ("tea", "\u200btea", "-5", "+1.5e3", "a=b", "\ufeffa+b"):
        assert text_cell(text) == text


def test_a_client_says_each_reason_once(tmp_path, monkeypatch):
    """A server may ask what is refused as often as it likes."""
    said, nodes = [], []

    class Process:
        def __init__(self, server, authority, keys, node, folder, patience, say):
            nodes.append(node)
            self.finished = Event()

        def run(self):
            for t in range(20):
                ask(nodes[0], method(columns=41), t=t)

    monkeypatch.setenv("HOPFED_HOME", str(tmp_path))
    monkeypatch.setattr(client, "ClientProcess", Process)
    monkeypatch.setattr(client, "client_folder", lambda *_: tmp_path)
    monkeypatch.setattr(join, "say", said.append)
    monkeypatch.setattr("hopfed.federation.machines.keys.client_key", lambda _: (b"", b"a"))
    monkeypatch.setattr("hopfed.federation.machines.keys.read", lambda *_: b"")
    owner = site(tmp_path / "other", signs(400))
    rows = owner.adapt.__closure__[0].cell_contents.rows
    where = {"server": "127.0.0.1:1", "ca": Path("ca"), "key": Path("key"), "patience": 1.0}
    wished = {"epsilon": None, "delta": 1e-5, "out_file": None, "coding": None}
    with pytest.raises(HopfedError, match=r"without a result; .* the federation has 41 columns"):
        join._join(rows, (), None, Ledger(tmp_path / "privacy"), **where, **wished)
    assert sum("not answered" in words for words in said) == 1
