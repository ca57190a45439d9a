"""Federated methods with neural networks (PyTorch, the extra `neural`).

    data        datasets, and their division among clients
    models      architectures by name, each a feature extractor and a head
    training    local training, evaluation, and the cost of a model
    memory      stores, prototypes and retrieval, which a client combines with its network
    methods     the federated methods by name; `method` holds their base class

Importing this package alone imports none of these modules, so it does not need PyTorch.
"""

from hopfed._lib.lazy_imports import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __path__)
