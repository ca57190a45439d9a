"""Federated methods by name."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

from hopfed.errors import ArgumentError

# Name on the command line -> module:class; a module is loaded when its method is asked for.
METHODS = {
    "standalone": "standalone:Standalone",
    "hebbian": "hebbian:Hebbian",
    "afl": "hebbian:AFL",
    "ranpac": "hebbian:RanPAC",
    "safle": "hebbian:SAFLe",
    "standalone-bias": "standalone:StandaloneBias",
    "fedavg": "fedavg:FedAvg",
    "fedavg+": "fedavg:FedAvgPlus",
    "fedprox": "fedavg:FedProx",
    "fedh2l": "fedh2l:FedH2L",
    "agg": "stepwise:AGG",
    "fedmd": "stepwise:FedMD",
    "fedavg-prior": "fedavg:FedAvgPrior",
    "knn-per": "knn_per:KNNPer",
    "scaffold": "drift:Scaffold",
    "feddyn": "drift:FedDyn",
    "moon": "drift:MOON",
    "fedbn": "fedavg:FedBN",
    "fedper": "fedavg:FedPer",
    "fedbabu": "fedavg:FedBABU",
    "per-fedavg": "adapting:PerFedAvg",
    "pfedme": "adapting:PFedMe",
    "fedala": "adapting:FedALA",
    "clustered-fl": "clustered_fl:ClusteredFL",
    "ditto": "pairs:Ditto",
    "fedrep": "fedavg:FedRep",
    "apfl": "pairs:APFL",
    "pfedgp": "pfedgp:PFedGP",
    "lg-fedavg": "lg_fedavg:LGFedAvg",
    "fedclassavg": "lg_fedavg:FedClassAvg",
    "fedssa": "fedssa:FedSSA",
    "sohip": "sohip:SoHip",
    "fedproto": "fedproto:FedProto",
    "fd": "fedproto:FD",
    "fedgh": "server_trained:FedGH",
    "fedtgp": "server_trained:FedTGP",
    "fedgen": "server_trained:FedGen",
    "fml": "pairs:FML",
    "fedkd": "fedkd:FedKD",
    "fedmrl": "pairs:FedMRL",
    "fedral": "pairs:FedRAL",
    "pfedes": "pairs:PFedES",
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
    module, _, cls = METHODS[name].partition(":")
    return getattr(import_module(f"hopfed.neural.methods.{module}"), cls)


def first_round(name: str, **settings: Any) -> Any:
    """Play the first round of a method: two clients with 200 digits and a network of dense layers.

    Parameters
    ----------
    name : as in `method`.
    settings : of the method itself.

    Returns
    -------
    `hopfed.federation.rounds.Played`.

    Examples
    --------
    >>> sorted(first_round("fedprox", mu=0.1).client_metrics)
    ['flops', 'loss']
    """
    from hopfed.federation.engines.local import LocalEngine
    from hopfed.federation.rounds import play_round
    from hopfed.neural.training.task import TaskSpec

    made = method(name)(TaskSpec(models=("mlp",), clients=2, examples=200), **settings)
    return play_round(made, None, 0, seed=0, clients=2, engine=LocalEngine())


def _yours(module: str, name: str) -> Any:
    from hopfed.neural.method import NeuralMethod

    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ArgumentError("method", f"importable as module:Class ({error})", name) from None
    if not (isinstance(found, type) and issubclass(found, NeuralMethod)):
        raise ArgumentError("method", "a subclass of NeuralMethod", f"{module}:{name}")
    return found
