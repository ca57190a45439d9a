"""Small experiments to run, stop and resume."""

import pytest
from toy_experiments import FEDERATION, WALK, make


@pytest.fixture
def walk(tmp_path, monkeypatch):
    return make(tmp_path, monkeypatch, "walk", WALK)


@pytest.fixture
def federation(tmp_path, monkeypatch):
    return make(tmp_path, monkeypatch, "federation", FEDERATION)
