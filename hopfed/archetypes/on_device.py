"""Signal eigenvectors on a device, and what the host knows of the patterns that came from there."""

from __future__ import annotations

import numpy as np

from hopfed._lib.arrays import Array, all_to_host, like, namespace


class Held:
    """Signal eigenvectors where they were computed.

    Patterns come to the host together with their coefficients, in one copy. The host scores,
    compares and fits them from these, without asking the device again.

    Parameters
    ----------
    vectors : (N, K) of the device.
    """

    def __init__(self, vectors: Array):
        self.vectors = vectors
        self.basis = namespace(vectors).astype(vectors, np.float32)
        self._known: dict[bytes, np.ndarray] = {}

    def put(self, patterns: np.ndarray) -> Array:
        """Copy patterns (C, N) to the device, where they are float32."""
        there = like(np.asarray(patterns, np.int8), self.basis)
        return namespace(there).astype(there, self.basis.dtype)

    def fetch(self, states: Array, *more: Array) -> tuple[np.ndarray, ...]:
        """Copy patterns (C, N) and whatever else to the host, in one piece; patterns are int8."""
        small = namespace(states).astype(states, np.int8)
        patterns, coefficients, *others = all_to_host(small, states @ self.basis, *more)
        self._remember(patterns, coefficients)
        return patterns, *others

    def coefficients(self, patterns: np.ndarray) -> np.ndarray:
        """``V^T sigma`` of patterns (C, N): (C, K) float32; the device is asked for new ones."""
        known = [self._known.get(key) for key in _keys(patterns)]
        new = [i for i, row in enumerate(known) if row is None]
        if new:
            (found,) = all_to_host(self.put(patterns[new]) @ self.basis)
            self._remember(patterns[new], found)
        rows = [self._known[key] for key in _keys(patterns)]
        return np.array(rows, np.float32).reshape(len(rows), self.basis.shape[1])

    def _remember(self, patterns: np.ndarray, coefficients: np.ndarray) -> None:
        self._known.update(zip(_keys(patterns), coefficients.copy(), strict=True))


def _keys(patterns: np.ndarray) -> list[bytes]:
    return [row.tobytes() for row in np.packbits(np.asarray(patterns) > 0, axis=1)]
