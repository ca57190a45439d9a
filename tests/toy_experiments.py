"""Small experiments as text, which worker processes can import too, and a way to stop them."""

import importlib
import sys

# One seed at a time.
WALK = """
import os, time
from dataclasses import dataclass
import numpy as np
from hopfed.errors import ArgumentError
from hopfed._lib.random import stream

@dataclass(frozen=True)
class Config:
    N: int = 4
    fail: int = -1
    seeds: int = 6

def measure(seed, config):
    if seed == config.fail:
        raise ArgumentError("seed", "one that works", seed)
    return {"x": stream(seed, "walk").standard_normal(config.N), "a/seed": np.int8(seed)}

def summarise(config, arrays):
    return {"mean": arrays["x"].mean(), "nan": np.nan}
"""
# Five rounds; clients with states of their own, four of six of whom take part in a round.
FEDERATION = (
    WALK.replace("def measure(", "def _unused(").replace('["x"]', '["total"]')
    + """
from hopfed.federation.contract import EVERYONE
from hopfed.federation.messages import Field
from hopfed.federation.rounds import Participation, play_round

class Sums:
    def __init__(self, size): self.size = size
    def client_start(self, client, seed): return {"x": np.zeros(self.size)}
    def server_start(self, seed): return {"total": np.zeros(self.size)}
    def expects(self, down, context): return {"x": Field((self.size,), "f")}

    def client_step(self, state, down, context):
        x = state["x"] + context.rng("x").standard_normal(self.size) + down.get("total", 0.0)
        return {"x": x}, {"x": x}, {}

    def play(self, state, session):
        messages = session.ask()
        total = state["total"] + sum(m["x"] for m in messages.values()) / len(messages)
        return {"total": total}, {EVERYONE: {"total": total}}, {}

def measure_round(seed, config, t, state, engine):
    played = play_round(Sums(config.N), state, t, seed=seed, clients=6, engine=engine,
                        participation=Participation(0.7, late=0.1))
    arrays = played.arrays() | {"total": played.state.server["total"]}
    return arrays, (played.state if t < 4 else None)
"""
)


def make(folder, monkeypatch, name, text):
    """Import `text` as a module that worker processes can import too."""
    modules = folder / "modules"
    modules.mkdir(exist_ok=True)
    (modules / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(modules))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(name)


class Stop(BaseException):
    """Stands for whatever ends a run between two commits."""


def stop_after(commits):
    """Answer a report that raises at its n-th call; the first is before the first commit."""
    calls = iter(range(commits + 1))

    def report(done, planned):
        if next(calls) == commits:
            raise Stop

    return report
