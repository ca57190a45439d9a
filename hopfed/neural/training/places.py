"""Parameters beside their network, on the device where it computes."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

__all__: list[str] = []


def beside(params: Mapping[str, Tensor], net: nn.Module) -> dict[str, Tensor]:
    """Return parameters on the device of a network."""
    first = next(net.parameters(), None)
    return {n: t if first is None else t.to(first.device) for n, t in params.items()}
