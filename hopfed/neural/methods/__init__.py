"""Federated methods by name, one file each."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

from hopfed.errors import ArgumentError

# Name on the command line -> (module, class).
METHODS = {
    "standalone": ("standalone", "Standalone"),
    "hebbian": ("hebbian", "Hebbian"),
    "standalone-bias": ("standalone_bias", "StandaloneBias"),
    "fedavg": ("fedavg", "FedAvg"),
    "fedavg+": ("fedavg_plus", "FedAvgPlus"),
    "fedprox": ("fedprox", "FedProx"),
    "fedh2l": ("fedh2l", "FedH2L"),
    "agg": ("agg", "AGG"),
    "fedmd": ("fedmd", "FedMD"),
    "fedavg-prior": ("fedavg_prior", "FedAvgPrior"),
    "knn-per": ("knn_per", "KNNPer"),
    "clustered-fl": ("clustered_fl", "ClusteredFL"),
    "ditto": ("ditto", "Ditto"),
    "fedrep": ("fedrep", "FedRep"),
    "apfl": ("apfl", "APFL"),
    "pfedgp": ("pfedgp", "PFedGP"),
    "lg-fedavg": ("lg_fedavg", "LGFedAvg"),
    "fedclassavg": ("fedclassavg", "FedClassAvg"),
    "fedssa": ("fedssa", "FedSSA"),
    "sohip": ("sohip", "SoHip"),
    "fedproto": ("fedproto", "FedProto"),
    "fd": ("fd", "FD"),
    "fml": ("fml", "FML"),
    "fedkd": ("fedkd", "FedKD"),
    "fedmrl": ("fedmrl", "FedMRL"),
    "fedral": ("fedral", "FedRAL"),
    "pfedes": ("pfedes", "PFedES"),
}


def method(name: str) -> Any:
    """Return the class of the method `name`; ``module:Class`` names a method of your own.

    Raises
    ------
    ArgumentError : there is no such method; the message suggests the nearest name.

    Examples
    --------
    >>> method("fedavg").name
    'fedavg'
    """
    if ":" in name:
        return _yours(*name.split(":", 1))
    if name not in METHODS:
        near = get_close_matches(name, METHODS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ArgumentError("method", f"one of {', '.join(METHODS)}{hint}", repr(name))
    module, cls = METHODS[name]
    return getattr(import_module(f"hopfed.neural.methods.{module}"), cls)


def _yours(module: str, name: str) -> Any:
    from hopfed.neural.method import NeuralMethod

    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ArgumentError("method", f"importable as module:Class ({error})", name) from None
    if not (isinstance(found, type) and issubclass(found, NeuralMethod)):
        raise ArgumentError("method", "a subclass of NeuralMethod", f"{module}:{name}")
    return found
