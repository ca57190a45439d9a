"""Methods that are played: their rounds, and a session whose clients have answered already."""

from dataclasses import fields

from hopfed.federation.contract import EVERYONE, Context


class Asked:
    def __init__(self, messages, t=0, ages=None):
        self.messages, self.ages = messages, ages or {}
        self.context = Context(0, t, 0)

    def ask(self, down=None):
        return self.messages


def play(method, rounds=1, state=None, first=0, each=None, **who):
    """The last of some rounds; `each` is shown every one, `who` is of `Participation`."""
    from hopfed.federation.engines.local import LocalEngine
    from hopfed.federation.participation import Participation
    from hopfed.federation.rounds import play_round

    how = {"seed": 0, "clients": method.task.clients, "engine": LocalEngine()}
    how |= {"participation": Participation(**who)} if who else {}
    for t in range(first, first + rounds):
        played = play_round(method, state, t, **how)
        state = played.state
        if each:
            each(played)
    return played


def known(state, client):
    """What a client has kept, and the last message to it."""
    return state.clients.get(client, {}), state.down.get(client, state.down.get(EVERYONE, {}))


def examples(method, client, part="test"):
    """Inputs and labels of a part of a client's examples."""
    tensors, rows = method.loaded.tensors, getattr(method.loaded.split, part)[client]
    return tensors.batch(tensors.rows(rows))


def short_run(name="fedavg", options="", **changes):
    """Settings of a short run of a small network; one beside it, of the method, is small too."""
    from hopfed.experiments import fl
    from hopfed.neural.methods import METHODS, method

    base = {"clients": 4, "rounds": 2, "examples": 200, "models": ("mlp:8",), "way": "sequential"}
    proxied = name in METHODS and "proxy" in {f.name for f in fields(method(name))}
    options += ",proxy=mlp:8" if proxied and "proxy" not in options else ""
    return fl.Config(method=name, options=options.strip(","), **(base | changes))
