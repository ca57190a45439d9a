"""`Tensors`: a dataset on a device, where batches are normalised and augmented."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from hopfed._lib.random import derive
from hopfed._lib.settings import require
from hopfed.errors import BackendError
from hopfed.neural.data.partitions import Partition, Rows

# Examples in a forward pass without gradients. On a CPU the allocator reuses the memory of 64
# examples; with 128 to 512, every pass gets new pages, and takes 1.6 to 1.8 times as long.
ON_CPU, ON_DEVICE = 64, 1024
PADDING = 4  # pixels on each side of an augmented image, before the crop back to its size


@dataclass(frozen=True, eq=False)
class Tensors:
    """Inputs and labels of a whole dataset on one device; uint8 images keep their type."""

    inputs: Tensor = field(repr=False)  # images (n, channels, height, width), or tokens
    labels: Tensor = field(repr=False)  # (n,) int64
    mean: Tensor | None = None  # (channels, 1, 1), subtracted from images; None for tokens
    std: Tensor | None = None

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self.inputs.device

    def rows(self, index: np.ndarray) -> Tensor:
        """Return an index array as a tensor on the device."""
        return torch.as_tensor(np.array(index, dtype=np.int64), device=self.device)

    def batch(self, rows: Tensor, draws: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return inputs of `rows` (...), normalised, and augmented with `draws`; and labels."""
        inputs, labels = self.inputs[rows], self.labels[rows]
        if self.mean is None or self.std is None:
            return inputs.long(), labels
        inputs = inputs if draws is None else augment_images(inputs, draws)
        return (inputs.float() - self.mean) / self.std, labels

    def batches(self, index: np.ndarray) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield inputs and labels of examples in order; one empty batch without examples."""
        size = ON_CPU if self.device.type == "cpu" else ON_DEVICE
        for i in range(0, max(len(index), 1), size):
            yield self.batch(self.rows(index[i : i + size]))


def augment_images(images: Tensor, draws: torch.Generator) -> Tensor:
    """Crop image tensors (n, channels, height, width) at random after padding; mirror half."""
    n, (height, width), device = len(images), images.shape[-2:], images.device

    def draw(high: int) -> Tensor:
        return torch.randint(high, (n, 1), generator=draws, device=draws.device).to(device)

    rows = torch.arange(height, device=device) + draw(2 * PADDING + 1)
    columns = torch.arange(width, device=device).expand(n, width)
    columns = torch.where(draw(2) == 1, width - 1 - columns, columns) + draw(2 * PADDING + 1)
    padded = torch.nn.functional.pad(images, [PADDING] * 4)
    image = torch.arange(n, device=device)[:, None, None]
    # Indexing with arrays on both sides of the channel axis moves that axis to the end.
    return padded[image, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def to_tensors(
    partition: Partition, device: str | torch.device = "cpu", scaling: str = "train", seen: int = 0
) -> Tensors:
    """Copy the dataset of `partition` to `device` as `Tensors`, with moments that scale images."""
    dataset, place = partition.dataset, open_device(device)
    inputs = torch.from_numpy(np.array(dataset.inputs)).to(place)
    labels = torch.from_numpy(np.array(dataset.labels)).to(place)
    if not dataset.is_images:
        return Tensors(inputs, labels)
    channels, both = dataset.shape[0], (np.zeros(1), np.ones(1))
    if scaling == "train":
        both = channel_moments(dataset.inputs, partition.train[: seen or len(partition)])
    elif given := check_scaling(scaling):
        both = np.array(given[0]), np.array(given[1])
        rule = f"one number, or one for each of the {channels} channels"
        require({len(m) for m in both} <= {1, channels}, "scaling", rule, scaling)
    columns = [torch.from_numpy(np.broadcast_to(m, channels).astype(np.float32)) for m in both]
    return Tensors(inputs, labels, *(c.to(place)[:, None, None] for c in columns))


def check_scaling(scaling: str) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Return the numbers of tensors' scaling "MEAN:STD", None for a word; else ArgumentError."""
    if scaling in ("auto", "train", "none"):
        return None
    try:
        mean, std = (tuple(map(float, part.split(","))) for part in scaling.split(":"))
        sound = bool(np.isfinite([*mean, *std]).all()) and min(std) > 0
    except ValueError:
        sound = False
    rule = "auto, train, none or MEAN:STD of finite numbers, such as 0.5:0.25, or per channel"
    require(sound, "scaling", rule, repr(scaling))
    return mean, std


def open_device(device: str | torch.device) -> torch.device:
    """Return PyTorch's device for a dataset's tensors; BackendError if it is not available."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        raise BackendError(f"device {device}: {str(error).splitlines()[0]}") from None


def channel_moments(images: np.ndarray, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation per channel, float64, to scale tensors; deviation 1 if constant."""
    sums, count = np.zeros((2, images.shape[1])), 0
    for own in rows:
        values = images[own].astype(np.float64)
        sums += values.sum(axis=(0, 2, 3)), (values**2).sum(axis=(0, 2, 3))
        count += values[:, 0].size
    mean, square = sums / count
    variance = np.maximum(square - mean**2, 0.0)
    return mean, np.where(variance > 1e-12 * square, np.sqrt(variance), 1.0)


def torch_generator(seed: int, *path: str | int) -> torch.Generator:
    """Return torch's generator for tensors, of the stream `path` under `seed` (`_lib.random`)."""
    return torch.Generator().manual_seed(derive(seed, *path))
