"""Files of somebody else: settings that name networks of Hugging Face, equal names, formulas."""

import json
import sys
import types
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from asking import ask, method, signs, site

from hopfed.cli.machines import join
from hopfed.errors import HopfedError
from hopfed.federation.engines.flower import client
from hopfed.runs import Run
from hopfed.tables.source import named
from hopfed.tables.writers import numbered, text_cell

QUICK = ("--clients", 2, "--rounds", 1, "--set", "examples=100")


class Configuration:
    """What transformers makes of a config.json."""

    def __init__(self, said):
        vars(self).update(said)

    def to_dict(self):
        parts = vars(self).items()
        return {k: v.to_dict() if isinstance(v, Configuration) else v for k, v in parts}


@pytest.fixture
def transformers(tmp_path, monkeypatch):
    """Stand in for transformers: notes what it was asked to make, and reads `folder`/config.json.

    Names of its hub are read from `said`. It asks on the terminal unless it is told not to.
    """
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("transformers")
    module.said, module.made = {}, []

    def configuration(name, num_labels, trust_remote_code=None):
        assert trust_remote_code is False
        path = Path(name) / "config.json"
        said = json.loads(path.read_text()) if path.is_file() else module.said
        nested = said.get("vision_config")
        parts = {"vision_config": Configuration(nested)} if nested else {}
        return Configuration({"image_size": 8, **said, **parts, "num_labels": num_labels})

    def net(config):
        from torch import nn

        return nn.Sequential(nn.Flatten(), nn.LazyLinear(config.num_labels))

    def from_config(config, trust_remote_code=None):
        module.made.append(("empty", trust_remote_code, None))
        return net(config)

    def from_pretrained(
        name, config, ignore_mismatched_sizes, trust_remote_code=None, use_safetensors=None
    ):
        assert name
        assert ignore_mismatched_sizes
        module.made.append(("weights", trust_remote_code, use_safetensors))
        return net(config)

    module.AutoConfig = types.SimpleNamespace(from_pretrained=configuration)
    kinds = types.SimpleNamespace(from_config=from_config, from_pretrained=from_pretrained)
    module.AutoModelForImageClassification = module.AutoModelForSequenceClassification = kinds
    monkeypatch.setitem(sys.modules, "transformers", module)
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "config.json").write_text(json.dumps({"image_size": 8}))
    return module


@pytest.mark.parametrize("name", ["net", "./net", "../net", "{}/net", "a/b/c", "~/net"])
@pytest.mark.parametrize("command", [("run",), ("tune", "--grid", "lr=0.1")])
def test_settings_name_no_folder_of_hugging_face(hopfed, tmp_path, transformers, name, command):
    name = "hf:" + name.format(tmp_path)
    (tmp_path / "s.toml").write_text(f"models = {json.dumps([name])}\n")
    command = ("fl", *command, "fedavg", "--config", "s.toml", *QUICK)
    status, _, words = hopfed(*command)
    assert (status, words.count("\n")) == (2, 1)
    assert f"names code to run, {name}" in words
    assert not transformers.made


def test_a_run_that_is_resumed_names_no_folder(hopfed, tmp_path, transformers):
    made = ("fl", "run", "fedavg", *QUICK, "--models", "mlp:4", "--out", "a.h5")
    assert hopfed(*made)[0] == 0
    run = Run.load(tmp_path / "a.h5")
    changed = replace(run, config=run.config | {"models": ["hf:net"], "seeds": 2}, planned=2)
    changed.save(tmp_path / "evil.h5")
    status, _, words = hopfed("run", "fl", "--resume", "--out", "evil.h5")
    assert (status, words.count("\n")) == (2, 1)
    assert "names code to run, hf:net" in words
    assert not transformers.made


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    "said",
    [
        {"model_type": "timm_wrapper"},
        {"model_type": "timm_backbone"},
        {"model_args": {"checkpoint_path": "w.pth"}},
        {"use_timm_backbone": True},
        {"backbone": "resnet50"},
        {"auto_map": {"AutoModelForImageClassification": "evil.Net"}},
        {"_attn_implementation_internal": "somebody/kernel"},
    ],
)
def test_a_configuration_of_the_hub_names_nothing_else_to_load(hopfed, transformers, said, nested):
    """Not even where the user typed its name, who cannot see what it says."""
    transformers.said = {"vision_config": said} if nested else said
    status, _, words = hopfed("fl", "run", "fedavg", *QUICK, "--models", "hf:some/net")
    assert (status, words.count("\n")) == (2, 1)
    assert "its configuration" in words
    assert not transformers.made


@pytest.mark.parametrize(
    ("name", "weights", "made"),
    [
        ("hf:some/net", "none", ("empty", False, None)),
        ("hf:some/net", "pretrained", ("weights", False, True)),
        ("hf:./net", "pretrained", ("weights", False, None)),
    ],
)
def test_no_code_is_asked_for_and_weights_are_not_unpickled(
    hopfed, transformers, name, weights, made
):
    """Of a folder that the user named, as of a file of weights, they may be of any kind."""
    transformers.said = {"backbone": None, "use_timm_backbone": False}
    hopfed("fl", "run", "fedavg", *QUICK, "--models", name, "--set", f"weights={weights}")
    assert set(transformers.made) == {made}


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
    monkeypatch.setattr("hopfed.federation.engines.flower.keys.private_key", lambda _: (b"", b"a"))
    monkeypatch.setattr("hopfed.federation.engines.flower.keys.read", lambda *_: b"")
    owner = site(tmp_path / "other", signs(400), questions=0, smallest_batch=0)
    limits = owner.adapt.__closure__[0].cell_contents.limits
    rows = owner.adapt.__closure__[0].cell_contents.rows
    where = {"server": "127.0.0.1:1", "ca": Path("ca"), "key": Path("key"), "patience": 1.0}
    wished = {"epsilon": None, "delta": 1e-5, "out_file": None, "coding": None}
    with pytest.raises(HopfedError, match=r"without a result; .* the federation has 41 columns"):
        join._join(rows, (), None, limits, **where, **wished)
    assert sum("not answered" in words for words in said) == 1
