"""Methods that are played: their rounds, and a session whose clients have answered already."""

from hopfed.federation.contract import Context


class Asked:
    def __init__(self, messages, t=0, ages=None):
        self.messages, self.ages = messages, ages or {}
        self.context = Context(0, t, 0)

    def ask(self, down=None):
        return self.messages


def play(method, rounds=1, state=None, first=0, each=None, **how):
    """The last of some rounds with all clients; `each` is shown every round."""
    from hopfed.federation.engines.local import LocalEngine
    from hopfed.federation.rounds import play_round

    how = {"seed": 0, "clients": method.task.clients, "engine": LocalEngine()} | how
    for t in range(first, first + rounds):
        played = play_round(method, state, t, **how)
        state = played.state
        if each:
            each(played)
    return played
