"""Names of earlier versions still read: in run files, settings, recipes and options."""

import numpy as np
import pytest

from hopfed._lib.old_names import current_name, current_names
from hopfed._lib.settings import from_plain, with_settings
from hopfed.errors import ArgumentError
from hopfed.experiments import drift, novelty
from hopfed.federation.recipes import describe, rebuild
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.stream import ArchetypeStream
from hopfed.runs import Run


@pytest.mark.parametrize(
    ("former", "name"),
    [
        ("khat", "n_detected"),
        ("13, r=0.4/khat", "13, r=0.4/n_detected"),
        ("khat_0.5", "khat_0.5".replace("khat", "n_detected")),
        ("lost_no_lam", "lost_no_layered"),
        ("methods/ours: by class/gain", "methods/proposed: by class/gain"),
        ("state/mass2", "state/sum_sq_weights"),
        ("client/carry", "client/discount"),
        ("hours: 3", "hours: 3"),
        ("carrying", "carrying"),
        ("okhat", "okhat"),
    ],
)
def test_former_names_of_results(former, name):
    assert current_name(former) == name
    assert current_name(name) == name


def test_a_name_of_today_is_left_alone():
    assert current_names({"header": 1, "carry": 2}, known={"header": 0}) == {
        "header": 1,
        "discount": 2,
    }


def saved_by(version, path, names, summary):
    """Save and load a run of arrays as `version` wrote it."""
    made = {} if version is None else {"hopfed": version}
    Run("recover", {}, {name: np.full(2, name, "S16") for name in names}, summary, made).save(path)
    run = Run.load(path)
    return {name: str(array[0], "ascii") for name, array in run.arrays.items()}, run.summary


@pytest.mark.parametrize("version", ["0.1.0", None])
def test_run_files_of_earlier_versions_read(tmp_path, version):
    names, summary = ["a/khat", "header/weight"], {"khat": 2, "fit": 0.5}
    arrays, summary = saved_by(version, tmp_path / "old.h5", names, summary)
    assert arrays == {"a/n_detected": "a/khat", "head/weight": "header/weight"}
    assert summary == {"n_detected": 2, "explained": 0.5}


@pytest.mark.parametrize("version", ["0.2.0", "0.2.1.dev3", "1.0.0"])
def test_run_files_of_today_keep_their_names(tmp_path, version):
    names, summary = ["header", "khat"], {"khat": 2, "fit": 0.5}
    found = saved_by(version, tmp_path / "new.h5", names, summary)
    assert found == ({name: name for name in names}, summary)


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
def test_no_array_takes_the_place_of_another(tmp_path, version):
    names, summary = ["head", "header"], {"khat": 2, "n_detected": 3}
    found = saved_by(version, tmp_path / "both.h5", names, summary)
    assert found == ({name: name for name in names}, summary)


def test_settings_of_earlier_versions_read():
    with pytest.warns(FutureWarning, match="the setting carry is called discount now"):
        changed = with_settings(novelty.Config(), ["carry=0.5,0.5,0.25"])
    assert changed.discount == (0.5, 0.5, 0.25)
    warned = pytest.warns(FutureWarning, match="is called discount now")
    with warned, pytest.raises(ArgumentError, match="given once"):
        with_settings(novelty.Config(), ["carry=0.5,0.5,0.25", "discount=0.5,0.5,0.25"])
    assert from_plain(novelty.Config, {"carry": [0.5, 0.5, 0.25]}).discount == (0.5, 0.5, 0.25)
    with pytest.raises(Exception, match="--set"):
        with_settings(drift.Config(), ["carry=0.5"])


def test_recipes_of_earlier_versions_read():
    source = ArchetypeStream(np.ones((2, 40), np.int8), np.full((1, 3, 2), 0.5), 50, 0.8, seed=1)
    text, arrays = describe(HopfieldFederation(source, Encoding(40), discount=0.25))
    former = text.replace('"discount"', '"carry"')
    assert former != text
    assert rebuild(former, arrays).discount == 0.25
    with pytest.raises(Exception, match="discount must be in"):
        rebuild(former.replace('"carry": 0.25', '"carry": 2'), arrays)
