"""Candidates of an exact search on the device where networks are trained."""

from __future__ import annotations

import numpy as np
import torch

BLOCK = 1 << 26  # largest number of distances in memory at once


class OnDevice:
    """Keys on a device, searched by comparing all pairs in float32.

    Parameters
    ----------
    keys : (n, d) float32.
    device : where they are kept.

    Examples
    --------
    >>> OnDevice(np.array([[0.0], [1.0], [3.0]], np.float32), "cpu").search(
    ...     np.array([[0.9]], np.float32), 2)[1].tolist()
    [[1, 0]]
    """

    def __init__(self, keys: np.ndarray, device: str | torch.device):
        self.keys = torch.as_tensor(np.array(keys), device=device)
        self.squares = (self.keys**2).sum(dim=1)

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return self.keys.numel() * 4 + self.squares.numel() * 4

    def search(self, queries: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Return squared distances (Q, width), less those of the queries, and rows of keys."""
        found = []
        step = max(1, BLOCK // len(self.keys))
        for i in range(0, len(queries), step):
            part = torch.as_tensor(queries[i : i + step], device=self.keys.device)
            far = self.squares - 2 * (part @ self.keys.T)
            found.append(far.topk(width, dim=1, largest=False))
        squared, rows = (torch.cat(parts).cpu() for parts in zip(*found, strict=True))
        return np.asarray(squared), np.asarray(rows)
