"""Architectures by name, each split into a feature extractor and a classification head.

    base        Model (extractor and head), and Shape (inputs and classes of a model)
    plain       MLP, LeNet, CNN-1..5 of FedSSA, AlexNet, VGG-11
    residual    ResNet-18 and 34, MobileNet-v2
    recurrent   the two-layer LSTM for characters
    registry    MODELS, build, assign

All architectures have a form for small images and run under ``torch.func.vmap`` with stacked
parameters. None contains a layer that draws random numbers. Some of the originals have dropout; it
is left out, because its masks would come from the global generator.
"""

from __future__ import annotations

from importlib.util import find_spec

from hopfed.errors import BackendError

if find_spec("torch") is None:
    raise BackendError("neural methods need PyTorch: pip install 'hopfed[neural]'")

from hopfed.neural.models.base import Model, Shape
from hopfed.neural.models.registry import MODELS, assign, build

__all__ = ["MODELS", "Model", "Shape", "assign", "build"]
