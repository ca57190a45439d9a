"""Weights of networks from files and into files."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install hopfed[neural]")

from hopfed.errors import DataError  # noqa: E402
from hopfed.neural.models import build  # noqa: E402
from hopfed.neural.models.networks import plain_names, write_tensors  # noqa: E402
from hopfed.neural.training.task import TaskSpec, task_of  # noqa: E402

CONV = """
from torch import nn

class Conv(nn.Sequential):  # of 7 classes whatever it is asked
    def __init__(self):
        super().__init__()
        self.maps, self.relu = nn.Conv2d(1, 4, 3), nn.ReLU(inplace=True)
        self.norm = nn.BatchNorm2d(4)
        self.flat = nn.Flatten()
        self.out = nn.Linear(4 * 36, 7)
"""


pytestmark = [
    pytest.mark.filterwarnings("ignore::hopfed.neural.training.task.ScalingWarning"),
    pytest.mark.filterwarnings("ignore::hopfed.neural.models.networks.HeadWarning"),
]


@pytest.fixture
def nets(tmp_path):
    """Path of a file with a network."""
    file = tmp_path / "nets.py"
    file.write_text(CONV)
    return file


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_weights_come_from_a_file(nets, tmp_path, suffix):
    if suffix == "safetensors":
        safe = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    source = build(f"{nets}:Conv", channels=1, size=8, classes=7, seed=3)
    held = plain_names(source.state_dict(), source)
    assert "out.weight" in held
    path = tmp_path / f"w.{suffix}"
    torch.save(held, path) if suffix == "pt" else safe.save_file(held, str(path))
    spec = TaskSpec(models=(f"{nets}:Conv",), clients=2, examples=100, weights=(str(path),))
    made = task_of(spec).model(0)
    for n, t in made.state_dict().items():
        ours = source.state_dict()[n]
        assert torch.equal(t, ours) if n.startswith("features.") else t.shape != ours.shape
    with pytest.raises(DataError, match=r"not of this network: lacks \d+ of 6: "):
        task_of(TaskSpec(models=("mlp",), clients=2, examples=100, weights=(str(path),)))
    (tmp_path / "broken.pt").write_bytes(b"no weights")
    with pytest.raises(DataError, match=r"broken\.pt"):
        task_of(TaskSpec(clients=2, examples=100, weights=(str(tmp_path / "broken.pt"),)))


def test_pickled_code_in_a_file_of_weights_is_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "was here"), "w"))

    torch.save({"features.1.weight": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(DataError, match=r"evil\.pt"):
        task_of(TaskSpec(clients=2, examples=100, weights=(str(tmp_path / "evil.pt"),)))
    assert not (tmp_path / "was here").exists()


def test_kept_weights_are_read_back(tmp_path):
    model = build("lenet", channels=1, size=8, classes=10, seed=5)
    path = write_tensors(tmp_path, "lenet", model.state_dict())
    spec = TaskSpec(models=("lenet",), clients=2, examples=100, weights=(str(path),))
    for n, t in task_of(spec).model(0).state_dict().items():
        assert torch.equal(t, model.state_dict()[n])
