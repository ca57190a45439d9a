"""Networks: an extractor and a head; those of the papers by name, and any `torch.nn.Module`.

    base        Model (extractor and head), and Shape (inputs and classes of a model)
    plain, residual, recurrent : the networks of the papers, for small images and for text
    adapter, foreign : networks of others, whose head is found or named
    registry    MODELS, build, assign
    weights     state dicts from and to files

All run under ``torch.func.vmap`` with stacked parameters where their layers can. None of `MODELS`
contains a layer that draws random numbers: dropout of the originals is left out, because its masks
would come from the global generator.
"""

from __future__ import annotations

from importlib.util import find_spec

from hopfed.errors import BackendError

if find_spec("torch") is None:
    raise BackendError("neural methods need PyTorch: pip install 'hopfed[neural]'")

from hopfed.neural.models.base import Model, Shape
from hopfed.neural.models.registry import MODELS, assign, build

__all__ = ["MODELS", "Model", "Shape", "assign", "build"]
