"""Attacks of somebody who wrote none of it: names with spaces, links, folders of others, pictures.

None of these files run code, lead to other files, or take the place of any.
"""

import csv
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from asking import N, ask, method, signs, site
from rogue import Rogue, request

from hopfed import read_table
from hopfed.cli import main
from hopfed.data.batches import Elsewhere
from hopfed.errors import DataError, LocalError, RunFileError
from hopfed.experiments.runner.ledger import Ledger
from hopfed.federation.engines.flower.keys import make_keys
from hopfed.federation.recipes import describe
from hopfed.federation.states import StateMap, StateStore
from hopfed.hopfield.graded.private import PrivateClasses
from hopfed.hopfield.site.released import Released
from hopfed.runs import Run
from hopfed.tables.fixed_codings import unsettled
from hopfed.tables.options import Choices
from hopfed.tables.partitions import _parts_of_path

EVIL = "open('ran', 'w').close()\nfrom torch import nn\nclass Net(nn.Module): pass\n"
SWEEP = ("sweep", "mp", "--preset", "quick", "--set", "seeds=1", "--grid")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(EVIL)
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        '" models" = ["evil.py:Net"]',
        '"models\\t" = ["evil.py:Net"]',
        '[options]\n" models" = ["evil.py:Net"]',
        '" keep" = "elsewhere/states"',
        '[options]\n"keep " = "elsewhere/states"',
    ],
)
@pytest.mark.parametrize("command", [("run",), ("tune", "--grid", "lr=0.1")])
def test_a_name_with_a_space_is_the_same_name(hopfed, folder, text, command):
    """It was looked for without the space when code was refused, and taken with it."""
    pytest.importorskip("torch")
    (folder / "s.toml").write_text(text + "\n")
    quick = ("fedavg", "--config", "s.toml", "--clients", 3, "--rounds", 1)
    status, _, words = hopfed("fl", *command, *quick)
    assert (status, words.count("\n")) == (2, 1)
    assert "names" in words
    assert not (folder / "ran").exists()
    assert not (folder / "elsewhere").exists()


def test_what_the_command_line_names_a_file_may_name(hopfed, folder):
    pytest.importorskip("torch")
    (folder / "s.toml").write_text('models = ["evil.py:Net"]\nlr = 0.1\n')
    given = ("--config", "s.toml", "--clients", 3, "--rounds", 1, "--models", "evil.py:Net")
    assert "network for inputs" in hopfed("fl", "run", "fedavg", *given)[2]
    assert (folder / "ran").exists()


@pytest.mark.parametrize("name", ["table.csv", "figure.png"])
@pytest.mark.parametrize("link", [False, True])
def test_a_sweep_takes_the_place_of_no_other_file(hopfed, folder, name, link):
    """Its table and its figure have names that nobody gave."""
    (folder / "out").mkdir()
    mine = folder / "mine" if link else folder / "out" / name
    mine.write_text("my own,1\n")
    if link:
        (folder / "out" / name).symlink_to(mine)
    status, _, words = hopfed(*SWEEP, "N=40", "--out", "out")
    assert (status, words.count("\n")) == (2, 1)
    assert mine.read_text() == "my own,1\n"
    assert os.listdir(folder / "out") == [name]


def test_a_sweep_goes_on_in_its_own_folder_and_follows_no_link(hopfed, folder):
    assert hopfed(*SWEEP, "N=40", "--out", "out")[0] == 0
    shutil.copy("out/N=40.h5", "mine.h5")
    (folder / "out" / "N=50.h5").symlink_to(folder / "mine.h5")
    before = (folder / "mine.h5").read_bytes()
    status, _, words = hopfed(*SWEEP, "N=40,50", "--seeds", 2, "--out", "out")
    assert status == 1
    assert "a link" in words
    assert (folder / "mine.h5").read_bytes() == before


def test_no_reason_in_the_table_of_a_sweep_is_a_formula(hopfed, folder):
    assert hopfed(*SWEEP, "N=40,50", "--out", "out")[0] == 0
    run = Run.load("out/N=50.h5")
    replace(run, config=run.config | {"N_test": "1;=HYPERLINK(1)"}).save("out/N=50.h5")
    assert hopfed(*SWEEP, "N=40,50", "--out", "out")[0] == 1
    with open("out/table.csv", newline="", encoding="utf-8") as file:
        reason = list(csv.DictReader(file))[1]["status"]
    assert "HYPERLINK" in reason
    assert ";=" not in reason


def test_networks_are_kept_where_nobody_else_keeps_anything(hopfed, folder):
    """The folder of a seed was removed, whatever was in it."""
    pytest.importorskip("torch")
    from hopfed.experiments.shared.kept_networks import _require_ours

    thesis = folder / "work" / "seed-0" / "thesis.txt"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("of years")
    quick = ("--preset", "quick", "--set", "keep=work", "--set", "models=mlp:4")
    resumed = ("--resume", "--out", "new.h5")
    for command in (("run", "fl"), ("run", "fl", *resumed)):
        status, _, words = hopfed(*command, *quick)
        assert (status, words.count("\n")) == (2, 1)
    status, _, words = hopfed("sweep", "fl", *quick, "--grid", "lr=0.1,0.2", "--out", "out")
    assert (status, words.count("\n")) == (2, 1)
    assert "keep must be left out" in words
    assert thesis.read_text() == "of years"
    with pytest.raises(RunFileError, match=r"thesis\.txt"):
        _require_ours(folder / "none", thesis.parent)
    (folder / "link").symlink_to(folder / "none")
    with pytest.raises(RunFileError, match="a link"):
        _require_ours(folder / "link")
    (folder / "ours").mkdir()
    for name in ("model.json", "everyone.pt", "client-12.safetensors"):
        (folder / "ours" / name).touch()
    _require_ours(folder / "ours")


def test_states_of_a_run_take_no_other_file_away(tmp_path):
    others = tmp_path / "others"
    others.mkdir(mode=0o755)
    kept = [others / "00000001.state", others / "of the union.state"]
    for path in kept:
        path.write_text("mine")
    (tmp_path / "run.h5.states").symlink_to(others)
    with pytest.raises(RunFileError, match="a link"):
        Ledger("fl", {"seeds": 1}, dict, by_round=True, rounds=1, path=tmp_path / "run.h5")
    store = StateStore(others, budget=0)
    (others / "00000002.state").symlink_to(tmp_path / "precious")
    (tmp_path / "precious").write_text("mine")
    store._count = 1
    store.keep(StateMap.of({0: {"w": np.zeros(10)}}))
    assert (tmp_path / "precious").read_text() == "mine"
    store.close()
    assert list(others.iterdir()) == [kept[1]]


def test_nobody_else_reaches_workers_on_this_machine():
    """Whoever reached their scheduler had it run any code, and its pages were for every machine."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    import psutil

    from hopfed._lib.cluster import cluster

    with cluster("local", 1) as client:
        assert client.submit(abs, -2).result(timeout=60) == 2
        me = psutil.Process()
        listening = [
            c.laddr
            for process in (me, *me.children(recursive=True))
            for c in process.net_connections()
            if c.status == psutil.CONN_LISTEN
        ]
        assert {address.ip for address in listening} == {"127.0.0.1"}
        scheduler = client.scheduler.address
        assert scheduler.startswith("tls://")
        stranger = distributed.Security.temporary()
        for address, keys in ((scheduler.replace("tls", "tcp"), None), (scheduler, stranger)):
            with pytest.raises(OSError):  # noqa: PT011  (of several kinds, in many words)
                distributed.Client(address, security=keys, timeout=1)


@pytest.mark.parametrize("given", ["sent", "sent/*.csv", "sent/**/*.csv"])
def test_a_folder_of_tables_leads_to_no_other_file(folder, given):
    (folder / "sent").mkdir()
    (folder / "private").mkdir()
    for path in ("sent/a.csv", "private/b.csv"):
        Path(path).write_text("tea,ale\nyes,no\nno,no\n")
    assert [part.what for part in _parts_of_path(given)] == ["sent/a.csv"]
    (folder / "sent" / "b.csv").symlink_to("a.csv")
    assert len(_parts_of_path(given)) == 2
    (folder / "sent" / "b.csv").unlink()
    (folder / "sent" / "b.csv").symlink_to("../private/b.csv")
    with pytest.raises(DataError, match="a link that leads out of"):
        _parts_of_path(given)


def test_a_picture_has_no_program_run(folder, monkeypatch):
    """Pillow looks at the bytes: of PostScript called .jpg it has a program make a picture."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    from hopfed.neural.data.folders import domains

    (folder / "bin").mkdir()
    (folder / "bin" / "gs").write_text(f"#!/bin/sh\ntouch {folder}/ran\necho 10.0\n")
    (folder / "bin" / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    for domain in ("photo", "sketch"):
        for name in ("cat", "dog"):
            (folder / "sent" / domain / name).mkdir(parents=True)
            image.new("RGB", (8, 8)).save(folder / "sent" / domain / name / "0.jpg")
    assert domains(folder / "sent", 8).inputs.shape == (4, 3, 8, 8)
    script = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n{} loop\n%%EOF\n"
    (folder / "sent" / "photo" / "cat" / "0.jpg").write_text(script)
    with pytest.raises(DataError):
        domains(folder / "sent", 8)
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mean": [0.0] * 7, "std": [1.0] * 7}, "mean is not a number for each of 1 channels"),
        ({"shape": [1, 10**6, 10**6]}, "of memory"),
        ({"models": ["lstm:1000000"] * 3, "images": False, "tokens": 9, "mean": None, "std": None},
         "of memory"),
    ],
)  # fmt: skip
def test_kept_networks_that_fit_nothing_are_one_line(hopfed, folder, change, words):
    torch = pytest.importorskip("torch")
    from hopfed.experiments.shared.kept_networks import read

    quick = ("--models", "mlp:4", "--clients", 3, "--rounds", 1, "--keep", "states")
    assert hopfed("fl", "run", "fedavg", *quick)[0] == 0
    about = folder / "states" / "seed-0" / "model.json"
    whole = json.loads(about.read_text())
    about.write_text(json.dumps(whole | change))
    with pytest.raises(DataError, match=words):
        read(about.parent, 0)
    about.write_text(json.dumps(whole))
    torch.save({"w": Path("a file")}, about.parent / "everyone.pt")
    with pytest.raises(DataError, match="not a file of weights alone") as said:
        read(about.parent, 0)
    assert "weights_only" not in str(said.value), "no advice to let it run code"


@pytest.mark.parametrize("answers", [[1], [["votes"]], [["votes", 1, "b"]], {"a": 1}, "votes"])
def test_a_damaged_record_is_named_to_its_owner(tmp_path, answers):
    assert not ask(site(tmp_path), method()).fault
    (path,) = (tmp_path / "released").glob("*.json")
    held = json.loads(path.read_text())
    held["batches"]["0"]["answers"] = answers
    path.write_text(json.dumps(held))
    assert ask(site(tmp_path), method()).reason == (
        "this client cannot answer, and has told its owner why"
    )
    with pytest.raises(LocalError, match="put back a copy"):
        Released(path).rounds  # noqa: B018


def test_a_first_row_of_entries_is_not_taken_for_names_in_silence(tmp_path):
    (tmp_path / "a.csv").write_text("yes,maybe,no,later\nyes,no,no,yes\nno,yes,no,yes\n")
    table = read_table(tmp_path / "a.csv")
    assert table.shape == (2, 4)
    assert (
        "the first row was taken for names of columns, but the rows below hold 'yes', 'no'"
        in table.notes[0]
    )
    assert unsettled(table.coding, Choices()) == ["yes", "no"]
    (tmp_path / "a.csv").write_text("f,tea,no.\n1,yes,no\n0,no,no\n")
    table = read_table(tmp_path / "a.csv")
    assert not any("first row" in note for note in table.notes)
    assert unsettled(table.coding, Choices()) == []


def test_every_refusal_is_a_line_in_the_owners_log(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    make_keys(tmp_path, 1, ["127.0.0.1"])
    np.save(tmp_path / "a.npy", signs(900))
    recipe, _ = describe(method())
    asked = [
        ({"recipe": describe(PrivateClasses(Elsewhere(1), N, 4.0))[0]}, "agreed to no epsilon"),
        ({"recipe": describe(method(rounds=5))[0]}, "2 round(s) at most"),
        ({"recipe": recipe, "exchange": 1}, "answers no questions"),
        ({"recipe": '["made", "os:system", {}]'}, "is not made here"),
        ({"recipe": describe(method(columns=30))[0]}, "has 30 columns"),
    ]
    tricks = [request(**call) for call, _ in asked] + [request(last=True)]
    with Rogue(tmp_path, tricks) as server:
        given = ("--data", "a.npy", "--ca", "ca.pem", "--key", "client-0.key")
        monkeypatch.chdir(tmp_path)
        main(["join", *given, "--server", server.address, "--patience", "60"])
    lines = [line for line in capsys.readouterr().err.splitlines() if "not answered" in line]
    assert len(lines) == len(asked)
    for line, (_, words) in zip(lines, asked, strict=True):
        assert words in line
