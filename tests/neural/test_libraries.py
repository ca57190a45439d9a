"""Encoders of torchvision, timm and Hugging Face by name."""

import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install hopfed[neural]")

from torch import nn  # noqa: E402

from hopfed.errors import HopfedError  # noqa: E402
from hopfed.neural.models.foreign import own_code  # noqa: E402
from hopfed.neural.training.task import TaskSpec, task_of  # noqa: E402


class Encoder(nn.Module):
    """What a library would make."""

    def __init__(self, channels, classes, asked):
        super().__init__()
        self.maps, self.asked = nn.Conv2d(channels, 4, 3), asked
        self.fc = nn.Linear(4, classes)

    def forward(self, x):
        logits = self.fc(self.maps(x).mean((2, 3)))
        return types.SimpleNamespace(logits=logits) if self.asked[0] == "hf" else logits


def fake(name, **names):
    module = types.ModuleType(name)
    for key, value in names.items():
        setattr(module, key, value)
    return module


@pytest.mark.parametrize("pretrained", [False, True])
@pytest.mark.parametrize("library", ["torchvision", "timm", "hf"])
def test_encoders_of_libraries_by_name(monkeypatch, library, pretrained):
    # The three libraries are large; these stand for them, with the calls that they document.
    def torchvision(name, weights, num_classes=1000):
        return Encoder(3, num_classes, ("torchvision", name, weights))

    def timm(name, pretrained, num_classes, in_chans):
        return Encoder(in_chans, num_classes, ("timm", name, pretrained))

    def from_config(config, trust_remote_code):
        assert trust_remote_code is False
        return Encoder(3, config.num_labels, ("hf", config.name, False))

    def from_pretrained(name, config, ignore_mismatched_sizes, trust_remote_code, use_safetensors):
        assert ignore_mismatched_sizes
        assert (trust_remote_code, use_safetensors) == (False, True)
        return Encoder(3, config.num_labels, ("hf", name, True))

    kinds = types.SimpleNamespace(from_config=from_config, from_pretrained=from_pretrained)
    config = types.SimpleNamespace(
        from_pretrained=lambda name, num_labels, trust_remote_code: types.SimpleNamespace(
            num_labels=num_labels, name=name, image_size=8 if trust_remote_code is False else None
        )
    )
    vision = fake("torchvision.models", get_model=torchvision)
    modules = {
        "torchvision": fake("torchvision", models=vision),
        "torchvision.models": vision,
        "timm": fake("timm", create_model=timm),
        "transformers": fake(
            "transformers", AutoConfig=config, AutoModelForImageClassification=kinds,
            AutoModelForSequenceClassification=None,
        ),
    }  # fmt: skip
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    weights = ("pretrained",) if pretrained else ()
    spec = TaskSpec(models=(f"{library}:tiny",), clients=2, examples=100, weights=weights)
    model = task_of(spec).model(0)
    asked = {"torchvision": "DEFAULT" if pretrained else None}.get(library, pretrained)
    assert model.features.net.asked == (library, "tiny", asked)
    assert model(torch.randn(2, 1, 8, 8)).shape == (2, 10)
    assert model.features.net.maps.in_channels == (1 if library == "timm" else 3)
    task_of.cache_clear()  # the next library is another


@pytest.mark.parametrize(
    "name", ["local-dir:/tmp/x", "hf-hub:some/net", "some/net", "..\\x", "a b"]
)
def test_timm_opens_no_folder_and_no_repository(monkeypatch, name):
    """Some versions of it unpickle what lies there, and a file of settings may name it."""
    opened = fake("timm", create_model=lambda *_, **__: pytest.fail("it was opened"))
    monkeypatch.setitem(sys.modules, "timm", opened)
    with pytest.raises(HopfedError, match="of timm itself: no folder, no repository"):
        task_of(TaskSpec(models=(f"timm:{name}",), clients=2, examples=100))


def test_a_folder_is_asked_for_though_a_library_would_read_it(tmp_path):
    names = ["hf:some/net", f"hf:{tmp_path}", "timm:vit", "lenet", "hf:" + "x" * 5000, "hf:a\0b"]
    assert own_code(names) == (f"hf:{tmp_path}", "hf:" + "x" * 5000, "hf:a\0b")
