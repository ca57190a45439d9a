"""Where work is done: words, HOPFED_DEVICE, packed rows on their way, and what is not there."""

import sys

import numpy as np
import pytest
from emulator.device import Emulated, HostArray
from helpers import rest_slow, sample

from hopfed import kernels, recover
from hopfed.cli.options import choose_place
from hopfed.errors import ArgumentError, BackendError, DataError
from hopfed.kernels.cuda import device as devices
from hopfed.kernels.examples import as_examples
from hopfed.kernels.place import Place, adopt_array, place_named
from hopfed.spectral.operators import FactorOperator


@pytest.fixture
def opened(device, monkeypatch):
    """`cuda` opens the device of the tests."""
    monkeypatch.setattr(devices, "cuda", lambda ordinal=0: device)
    return device


@pytest.mark.parametrize(
    "word", ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "CUDA", "cuda:1 ", "cpu:0"]
)
def test_other_words_are_refused(word):
    with pytest.raises(ArgumentError, match=r"device must be cpu, cuda or cuda:N"):
        place_named(word)


def test_a_command_asks_the_option_then_the_environment_then_takes_the_processor(monkeypatch):
    monkeypatch.delenv("HOPFED_DEVICE", raising=False)
    assert choose_place(None) == Place()
    monkeypatch.setenv("HOPFED_DEVICE", "cuda:3")
    assert choose_place(None) == Place(3)
    assert choose_place("cpu") == Place()
    monkeypatch.setenv("HOPFED_DEVICE", "tpu")
    with pytest.raises(ArgumentError, match="HOPFED_DEVICE must be cpu, cuda or cuda:N"):
        choose_place(None)


@pytest.mark.parametrize("gaps", [False, True])
def test_packed_rows_go_there_and_back(opened, gaps):
    x = sample(2, 70, 30, 0.8, 0)[1]
    if gaps:
        x[3, 5] = x[9, 65] = 0
    rows = kernels.pack_masked(x)
    here, there = Place(), Place(0)
    assert here.put(rows) is rows
    moved = there.put(rows)
    assert not isinstance(moved.home, np.ndarray)
    assert there.put(moved) is moved
    np.testing.assert_array_equal(kernels.unpack(here.put(moved)), x)


@pytest.mark.parametrize("owners", rest_slow([3, 1], 1))
def test_recover_works_where_it_is_told(opened, owners):
    xi, x = sample(3, 120, 400, 0.9, 1)
    parts = np.array_split(x, owners)
    here = recover(parts, seed=1)
    there = recover(parts, seed=1, device="cuda")
    back = recover([opened.xp.asarray(part) for part in parts], seed=1, device="cpu")
    assert here.status == there.status == "ok"
    np.testing.assert_array_equal(there.patterns, here.patterns)
    np.testing.assert_allclose(there.scores, here.scores, rtol=1e-4)
    np.testing.assert_array_equal(back.patterns, here.patterns)
    np.testing.assert_array_equal(back.scores, here.scores)  # the processor did it, bit for bit


def test_the_examples_are_moved_once(monkeypatch):
    device, up = Emulated(), []
    monkeypatch.setattr(devices, "cuda", lambda ordinal=0: device)
    x = sample(3, 120, 400, 0.9, 1)[1]
    parts = [kernels.pack(x[:150]), kernels.pack(x[150:])]
    there = [Place(0).put(part) for part in parts]
    for given in (there, parts, there):  # the first measures which ways are fastest
        with device.counted() as copies:
            assert recover(given, seed=1, device="cuda:0").status == "ok"
        up.append(copies["up"])
    assert up[1] == up[2] + 2


class Tensor:
    """A tensor of PyTorch on a device, as far as others see it."""

    is_cuda = True

    def __init__(self, held, free=False):
        self.held, self.free, self.shape = held, free, held.shape

    def __array__(self, *_, **__):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **_):
        if not self.free:
            raise BufferError("Can't export tensors that require gradient")
        return self.held.__dlpack__()

    def detach(self):
        return Tensor(self.held, free=True)


def test_tensors_on_a_device_stay_there(monkeypatch):
    device = Emulated()
    monkeypatch.setattr(devices, "cuda", lambda ordinal=0: device)
    x = sample(3, 120, 400, 0.9, 1)[1]
    for dtype in (np.int8, np.float32):
        tensor = Tensor(x.astype(dtype))
        rows = as_examples(tensor)
        assert isinstance(rows.signs, HostArray)
        np.testing.assert_array_equal(rows.signs.get(), kernels.pack(x).signs)
    assert FactorOperator.from_examples(tensor).rows.home.device is device
    there = recover([Tensor(x[:150]), Tensor(x[150:])], seed=1)
    np.testing.assert_array_equal(there.patterns, recover([x[:150], x[150:]], seed=1).patterns)
    x[3, 5] = 7
    with pytest.raises(DataError, match="got 7 at row 4, column 6"):
        recover(Tensor(x))


@pytest.mark.gpu
def test_tensors_of_pytorch_on_a_gpu_stay_there(device):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no device")
    x = sample(3, 120, 400, 0.9, 1)[1]
    rows = as_examples(torch.tensor(x, dtype=torch.float32, device="cuda", requires_grad=True))
    np.testing.assert_array_equal(rows.signs.get(), kernels.pack(x).signs)


def test_what_lies_on_the_host_is_left_to_numpy():
    x = sample(2, 20, 30, 0.9, 1)[1]
    assert adopt_array(x) is x
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(as_examples(torch.tensor(x)).signs, kernels.pack(x).signs)


def test_without_cupy_one_line_says_what_to_install(monkeypatch):
    devices.cuda.cache_clear()
    monkeypatch.setitem(sys.modules, "cupy", None)
    x = np.array([[1, -1], [1, 7]])  # what is wrong with the examples comes second
    with pytest.raises(
        BackendError, match=r"a CUDA device needs CuPy.*pip install 'hopfed\[cuda"
    ) as e:
        recover(x, device="cuda")
    assert "\n" not in str(e.value)
