"""Networks of extractor and head: architectures of papers by name, and any `torch.nn.Module`."""

from __future__ import annotations

from importlib.util import find_spec

from hopfed.errors import BackendError

if find_spec("torch") is None:
    raise BackendError("neural methods need PyTorch: pip install 'hopfed[neural]'")

from hopfed.neural.models.architectures import MODELS, Model
from hopfed.neural.models.networks import assign, build

__all__ = ["MODELS", "Model", "assign", "build"]
