"""Bring your own federated method: FedAvg with server momentum, compared with FedAvg.

    python -m hopfed.experiments.worked.own_method

A method is `answer` of a client, which trains and returns a message, and `play` of the server.
FedAvg's server averages messages, and `moved` makes its next state of the mean: here the mean
update is added to a velocity, by which the global model moves (Hsu, Qi and Brown, 2019). The
command line also accepts a class by its module or file:

    hopfed fl run hopfed.experiments.worked.own_method:FedAvgM --set beta=0.7
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hopfed._lib.settings import require
from hopfed.experiments import fl
from hopfed.experiments.machinery.runner import execute
from hopfed.federation.contract import State
from hopfed.federation.messages import Message
from hopfed.neural.methods.fedavg import FedAvg

OWN = "hopfed.experiments.worked.own_method:FedAvgM"


@dataclass(frozen=True)
class FedAvgM(FedAvg):
    """FedAvg with server momentum.

    Attributes
    ----------
    beta : share of the velocity that remains after a round; 0 is FedAvg.
    """

    beta: float = 0.5

    name: ClassVar[str] = "fedavgm"
    source: ClassVar[str] = "Hsu et al., 2019"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.beta < 1, "beta", "in [0, 1)", self.beta)

    def moved(self, state: State, mean: Message, share: float) -> State:  # noqa: ARG002
        """Move the global model by the velocity, which stays with the server, not to the mean."""
        old = self.started(state)
        step = {n: self.beta * state.get(f"server/{n}", 0.0) + (mean[n] - old[n]) for n in old}
        new = {n: (old[n] + step[n]).astype(old[n].dtype) for n in old}
        return new | {f"server/{n}": v for n, v in step.items()}


def main(rounds: int = 8) -> dict[str, float]:
    """Worked example of your own method: train it and FedAvg on digits, and print accuracies."""
    found = {}
    for method, options in (("fedavg", ""), (OWN, "beta=0"), (OWN, "beta=0.5")):
        config = fl.Config(
            method=method, options=options, models=("mlp",), clients=5, rounds=rounds, lr=0.02
        )
        label = options or method
        found[label] = execute(fl, config).summary["test"][0]
        print(f"{label:10} {100 * found[label]:.1f} % of the test examples right")
    return found


if __name__ == "__main__":
    main()
