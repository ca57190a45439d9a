"""What cannot work is refused before any work: one line, status 2, and all files stay as they are.

Errors say what to do, also of words of other tools and of outputs that would be lost.
"""

import os

import h5py
import numpy as np
import pytest
from helpers import sample
from memory.oracle import corrupted, random_signs

from hopfed.cli import main
from hopfed.runs import Run

NEW = "a new file (--overwrite replaces this one)"
INPUT = "another file than the input"
COUNTED = "counted from the rows"
ENDS = "a .csv, .tsv, .json, .parquet, .h5 or .hdf5 file"
LINKS = {
    "run.png": "run.h5", "npz.h5": "a.npz", "linked/figure.png": "../odd.csv",
    "null.png": "/dev/null", "loop.png": "loop.png",
}  # fmt: skip
TEXTS = {
    "swept/table.csv": "my own,1\n", "text.h5": "notes",
    "old.png": "the one before", "gaps.csv": "a,b\nyes,no\nno,\n",
    "odd.csv": "c,b,a\nno,yes,maybe\n", "named.csv": "a,b,c\nyes,no,no\nno,no,yes\n",
}  # fmt: skip
# A command, and words of its error behind a colon.
CASES = f"""
recover a.h5 --out a.h5 : {INPUT}
recover a.npy --out run.h5 : {NEW}
recover a.npy --out a.npy --overwrite : --out must be {ENDS}
recover a.csv --out hard.csv : {INPUT}
recover a.csv --out home/../a.csv : {INPUT}
recover a.npy --out text.h5 --overwrite : or a run file of hopfed
recover a.npy --out a.h5 --overwrite : or a run file of hopfed
recover a.npy --out found : --out must be {ENDS}
recover a.npy --out run.h5 --figure run.png : another file than that of --out
recover a.npy --shape 5x9 : --shape must be height x width with a product of 48
recover missing.npy : no such file
recover a.npy --clients 2 --blocks 3 : --blocks must be left out beside --clients
recover *.csv : name its files, one for each owner, or read one table with --dask
recover n.csv : column 'n' holds numbers; commonest
recover n.csv --words yes : --words must be WORD=+1
assign found.h5 a.npy --out a.xlsx : --out must be a .csv, .tsv, .json or .parquet file
assign found.h5 lost.csv --out new.csv : lost.csv: no such file
store patterns.npy --out m.h5 --rule hebb --set n=4 : Hebb has no settings
store means.npy --out m.h5 --rule hebb : exponential for graded
store gaps.csv --out m.h5 : row 2, column 'b' is missing: patterns are complete
recall named.h5 gaps.csv : lacks 'c' of the coding
recall memory.h5 cues.npy --temperature hot : '--temperature': 'hot' is not a number at least 0
recall memory.h5 cues.npy --shape 9x9 --figure x.png : with a product of 100
recall factor.h5 cues.npy : factor.h5: not a readable memory: factor must be
theory plan --r .9 --N 100 --K 1 --power .99999 : --power must be at most 0.999
theory basins --set n=4 : Hebb has no settings
theory tw --beta 4 : --beta must be 1 or 2
spectrum a.csv --ignore idd : no column 'idd'; there are
run bpb : did you mean bbp?
run bbp --out bbp.h5 --resume --overwrite : left out with --resume
run bbp --resume : --resume must be given together with --out
run bbp --preset quick --out run.h5 : --overwrite replaces this one, --resume
run bbp --out bbp.h5 --resume --set N=80 : made with N = 60, not 80
run mp --out bbp.h5 --resume : not of bbp
sweep mp --preset quick --grid N=40 --out swept : table.csv
sweep mp --preset quick --grid N=40 --out linked : figure.png
show a.csv : a.csv: not a readable run file of hopfed, but a table
compare bbp.h5 : at least two run files
figure run.h5 --out old.png : {NEW}
figure half.h5 --out x.png : 1 of 3 seeds
figure dance.h5 --out x.png : no figure for runs of 'dance'
figure bbp.h5 dance.h5 --out x.png : runs of one kind, to be drawn together, got bbp, dance
bench grm : did you mean gram?
fl run fedavg --data a.npz --out npz.h5 : {INPUT}
fl run fedavg --set mu=1 : a setting of hopfed fl run, or of fedavg
join --data a.npy --out run.h5 : {NEW}
join --data a.npy --trust-server : --server must be given, unless with --dry-run
join --data a.npy : say how you take part, in one of two ways
join --data a.npy --epsilon 1 --weights n : left out with --eps
join --data a.npy --trust-server --dry-run --outcome n : there is no column 'n'
serve --keys . --out s.h5 --columns 60 --archetypes 2 : left out without graded exact sums
serve --keys . --out s.h5 --columns 60 --graded --epsilon 1 --relate n : relate must be left out
serve --keys . --out s.h5 : --columns must be given
serve --keys . --out s.h5 --columns 60 : --keys must be a file that can be read
serve --keys . --out s.h5 --columns 60 --listen here : --listen must be HOST:PORT
theory mp --figure pipe.png : not a device, a pipe or a socket
theory mp --figure null.png : not a device, a pipe or a socket
theory mp --figure folder.png : not a folder
theory mp --figure loop.png : symbolic links
theory mp --figure {"a" * 300}.png : too long
theory mp --figure a.gif : a .png, .pdf or .svg file
theory mp --figure absent/a.png : in a folder that exists
theory mp --figure /proc/a.png : must be writable
theory mp --figure run.h5/a.png : --figure must be
theory mp --q 0 : --q must be a finite number above 0, got 0.0
theory spike --q 1 --r 0.5 --N 9 --exposure 0.9,0.9 : must be shares that sum to at most 1
theory tw --N 5 : --N and --M must be given together
theory tw --N 5 --M 5 --beta 2 : --beta must be 1
theory spike --kappa 1 : --q must be given, or --N and --M
theory spike --kappa 1 --q 1 --N 2 --M 2 : --q must be left out
theory spike --q 1 --exposure 0.5 : --exposure must be given together with --r and --N
theory plan --r 0.5 --N 10 --epsilon 1 --delta 2 : --delta must be
theory plan --N 20 --r 0.5 --K 3 --exposure 0.1 : --K must be left out beside --exposure
theory plan --N 20 : --r must be given, or --rates A,B, got neither
theory plan --N 20 --rates 1,1 --epsilon 1 : --epsilon must be left out beside --rates
theory plan --N 20 --r 0.5 --M 9 --figure a.png : --figure must be left out beside --M
theory law : No such command 'law'
recover a.csv --n-classes 3 : {COUNTED}
store a.npy --weights n : elsewhere repeat each row
fl run fedavg -gr 20 : use --rounds
fl run fedavg --learning-rate .1 : use --set lr=RATE
fit a.csv : did you mean recover?
fl train : did you mean run?
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data, run files, memories, damaged ones, and links to them and to a device."""
    folder = tmp_path_factory.mktemp("refused")
    for name in ("swept", "linked", "folder.png", "home"):
        (folder / name).mkdir()
    os.mkfifo(folder / "pipe.png")
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    for link, target in LINKS.items():
        (folder / link).symlink_to(target)
    rows, xi = sample(3, 48, 300, 0.8, 0)[1], random_signs((6, 100), 1)
    arrays = {
        "a": rows, "patterns": xi, "cues": corrupted(xi, 0.15, 2),
        "means": np.full((2, 100), 0.5),
    }  # fmt: skip
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    np.savetxt(folder / "a.csv", rows, delimiter=",", fmt="%d")
    os.link(folder / "a.csv", folder / "hard.csv")
    np.savez(folder / "a.npz", images=np.zeros((4, 8, 8), np.uint8), labels=np.arange(4))
    with h5py.File(folder / "a.h5", "w") as file:
        file["examples"] = rows
    words = np.column_stack([np.where(rows > 0, "yes", "no"), np.arange(300) % 4])
    head = [*(f"q{j}" for j in range(48)), "n"]
    np.savetxt(folder / "n.csv", [head, *words], fmt="%s", delimiter=",")

    def made(*words):
        main([str(folder / w) if w.endswith((".h5", ".npy", ".csv")) else w for w in words])

    made("recover", "a.npy", "--out", "found.h5")
    made("store", "named.csv", "--out", "named.h5")
    made("store", "patterns.npy", "--out", "memory.h5", "--rule", "hebb")
    made("run", "bbp", "--set", "N=60", "--set", "M=100,200", "--seeds", "3", "--out", "bbp.h5")
    Run("recover", {}, {"x": np.ones(3)}, {"n_detected": 2}).save(folder / "run.h5")
    Run("dance", {}, {"x": np.ones(2)}, {}).save(folder / "dance.h5")
    Run("bbp", {}, {}, {}, committed=1, planned=3).save(folder / "half.h5")
    run = Run.load(folder / "memory.h5")
    factor = {"memory/factor": np.full((100, 2), np.nan)}
    Run(run.kind, run.config, run.arrays | factor, run.summary).save(folder / "factor.h5")
    return folder


def held(folder):
    """What is in a folder: names, links, and bytes."""
    inodes = {p: p.lstat().st_ino for p in folder.rglob("*")}
    return inodes, {p: p.read_bytes() for p in inodes if p.is_file()}


@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_it_is_refused(hopfed, folder, monkeypatch, case):
    line, _, words = case.partition(" : ")
    if line.startswith("fl "):
        pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOPFED_HOME", str(folder / "home"))
    before = held(folder)
    err = hopfed.refused(*line.split())
    assert all(word in err for word in words.split("; ")), err
    assert held(folder) == before
