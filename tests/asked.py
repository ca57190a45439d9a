"""Methods that are played: their rounds, and a session whose clients have answered already."""

from dataclasses import fields

from torch import nn

from hopfed.experiments import fl
from hopfed.federation.contract import EVERYONE, Context
from hopfed.federation.engines import LocalEngine
from hopfed.federation.rounds import Participation, play_round
from hopfed.neural.methods import METHODS, method

TRAINED = [name for name in METHODS if name not in ("hebbian", "afl", "ranpac", "safle")]
SILENT = ("standalone", "standalone-bias", "agg")  # they send nothing


class Normed(nn.Sequential):
    """A network with batch norm, of grey images of 8 x 8."""

    def __init__(self):
        maps = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten()
        super().__init__(*maps, nn.Linear(4 * 36, 10))


def no_bias():
    """A network of grey images of 8 x 8, whose head has no bias."""
    body = nn.Flatten(), nn.Linear(64, 12), nn.Tanh()
    return nn.Sequential(*body, nn.Linear(12, 10, bias=False))


class Asked:
    def __init__(self, messages, t=0, ages=None):
        self.messages, self.ages, self.clients = messages, ages or {}, len(messages)
        self.context, self.participation = Context(0, t, 0), Participation()

    def ask(self, down=None, fold=lambda _, message: message):
        return {c: fold(c, message) for c, message in self.messages.items()}


def play(made, rounds=1, state=None, first=0, each=None, absent=(), **who):
    """The last of some rounds; `each` is shown every one, `who` is of `Participation`."""

    class Others(Participation):
        def cohort(self, *draw):
            return [c for c in super().cohort(*draw) if c not in absent]

    how = {"seed": made.task.seed, "clients": made.task.clients, "engine": LocalEngine()}
    how |= {"participation": Others(**who)} if who or absent else {}
    for t in range(first, first + rounds):
        played = play_round(made, state, t, **how)
        state = played.state
        if each:
            each(played)
    return played


def known(state, client):
    """What a client has kept, and the last message to it."""
    return state.clients.get(client, {}), state.down.get(client, state.down.get(EVERYONE, {}))


def examples(made, client, part="test"):
    """Inputs and labels of a part of a client's examples."""
    tensors, rows = made.loaded.tensors, getattr(made.loaded.split, part)[client]
    return tensors.batch(tensors.rows(rows))


def short_run(name="fedavg", options="", **changes):
    """Settings of a short run of a small network; one beside it, of the method, is small too."""
    base = {"clients": 4, "rounds": 2, "examples": 200, "models": ("mlp:8",), "way": "sequential"}
    proxied = name in METHODS and "proxy" in {f.name for f in fields(method(name))}
    options += ",proxy=mlp:8" if proxied and "proxy" not in options else ""
    return fl.Config(method=name, options=options.strip(","), **(base | changes))
