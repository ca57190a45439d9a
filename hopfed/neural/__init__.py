"""Federated methods with neural networks (PyTorch, the extra `neural`).

    models      architectures by name, each a feature extractor and a head
    cost        parameters, bytes and floating-point operations of a model
    data        datasets, and how they are divided over clients

The package itself imports none of them, and so no PyTorch.
"""
