"""Small experiments to run, stop and resume."""

import pytest
from toy_experiments import FEDERATION, ROUNDS, WALK, make

from hopfed.federation import states


@pytest.fixture
def walk(tmp_path, monkeypatch):
    return make(tmp_path, monkeypatch, "walk", WALK)


@pytest.fixture
def rounds(tmp_path, monkeypatch):
    return make(tmp_path, monkeypatch, "rounds", ROUNDS)


@pytest.fixture
def federation(tmp_path, monkeypatch):
    monkeypatch.setattr(states, "OWN_FILE", 16)  # every client's state is in a file of its own
    return make(tmp_path, monkeypatch, "federation", FEDERATION)
