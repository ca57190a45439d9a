"""Two small federations for the methods that share a part of one form beside models that differ."""

from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.rounds import play_round
from hopfed.neural.methods.fedral import FedRAL
from hopfed.neural.training.task import TaskSpec
from hopfed.neural.training.training import Training

TASK = TaskSpec(models=("mlp", "lenet"), clients=4, examples=300, partition="dirichlet:0.5")
SAME = TaskSpec(models=("lenet",), clients=4, examples=300, partition="dirichlet:0.5")
TRAINING = Training(lr=0.02, way="sequential")
SMALL = {"proxy": "lenet"}
P, Q = [0.5, 0.25, 0.25], [0.2, 0.2, 0.6]  # what two models answer


def make(cls, settings, task=None, training=TRAINING):
    return cls(task or (SAME if issubclass(cls, FedRAL) else TASK), training, **settings)


def play(method, rounds, participation=None, each=None):
    state, clients = None, method.task.clients
    for t in range(rounds):
        played = play_round(
            method,
            state,
            t,
            seed=0,
            clients=clients,
            engine=LocalEngine(),
            participation=participation,
        )
        state = played.state
        if each:
            each(played)
    return played
