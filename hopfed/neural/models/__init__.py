"""Architectures by name, each split into a feature extractor and a classification head.

    base        Model and Shape: what a model is, and what it is built for
    plain       MLP, LeNet, CNN-1..5 of FedSSA, AlexNet, VGG-11
    residual    ResNet-18 and 34, MobileNet-v2
    recurrent   the two-layer LSTM for characters
    registry    MODELS, build, assign

All are defined here in a form for small images, run under ``torch.func.vmap`` with stacked
parameters, and hold no layer that draws numbers: dropout, which some of the originals have, would
take its masks from the global generator.
"""

from __future__ import annotations

from importlib.util import find_spec

from hopfed.errors import BackendError

if find_spec("torch") is None:
    raise BackendError("neural methods need PyTorch: pip install 'hopfed[neural]'")

from hopfed.neural.models.base import Model, Shape
from hopfed.neural.models.registry import MODELS, assign, build

__all__ = ["MODELS", "Model", "Shape", "assign", "build"]
