"""Names that classes had in earlier versions, so that run files and recipes of then still read."""

from __future__ import annotations

# Module that a class was in -> module that it is in.
MODULES = {
    "hopfed.discrete_gaussian": "hopfed.privacy.discrete_gaussian",
    "hopfed.exchange": "hopfed.recovery.one_round",
    "hopfed.experiments._cells": "hopfed.experiments.shared.cells",
    "hopfed.experiments._ledger": "hopfed.experiments.runner.ledger",
    "hopfed.experiments._noise": "hopfed.experiments.shared.noise",
    "hopfed.experiments._spiked": "hopfed.experiments.shared.spiked",
    "hopfed.factorize": "hopfed.archetypes.factorize",
    "hopfed.hopfield.blending": "hopfed.hopfield.memory.blending",
    "hopfed.hopfield.evidence": "hopfed.hopfield.memory.evidence",
    "hopfed.hopfield.private": "hopfed.hopfield.noisy",
    "hopfed.hopfield.remembered": "hopfed.hopfield.memory.remembered",
    "hopfed.hopfield.support": "hopfed.hopfield.memory.support",
    "hopfed.hopfield.voting": "hopfed.hopfield.memory.voting",
    "hopfed.joint": "hopfed.archetypes.joint_diagonalization",
    "hopfed.lam": "hopfed.memory.layered",
    "hopfed.memory": "hopfed.neural.memory.store",
    "hopfed.metrics": "hopfed.archetypes.overlap",
    "hopfed.neural.archetypes": "hopfed.neural.memory.archetypes",
    "hopfed.neural.associative": "hopfed.neural.memory.associative",
    "hopfed.neural.cost": "hopfed.neural.training.cost",
    "hopfed.neural.embedding": "hopfed.neural.memory.embedding",
    "hopfed.neural.evaluation": "hopfed.neural.training.evaluation",
    "hopfed.neural.gaussian": "hopfed.neural.memory.gaussian",
    "hopfed.neural.neighbours": "hopfed.neural.memory.neighbours",
    "hopfed.neural.prototypes": "hopfed.neural.memory.prototypes",
    "hopfed.neural.recall": "hopfed.neural.memory.recall",
    "hopfed.neural.task": "hopfed.neural.training.task",
    "hopfed.neural.training": "hopfed.neural.training.training",
    "hopfed.novelty": "hopfed.hopfield.plasticity.novelty",
    "hopfed.operators": "hopfed.spectral.operators",
    "hopfed.plasticity": "hopfed.hopfield.plasticity.rules",
    "hopfed.privacy": "hopfed.privacy.mechanism",
    "hopfed.private_recovery": "hopfed.privacy.recover",
    "hopfed.rank": "hopfed.spectral.rank",
    "hopfed.recovery": "hopfed.recovery.recover",
    "hopfed.sample": "hopfed.spectral.noise",
    "hopfed.search": "hopfed.archetypes.annealed_search",
    "hopfed.select": "hopfed.archetypes.selection",
    "hopfed.sketch": "hopfed.spectral.sketch",
    "hopfed.spectrum": "hopfed.spectral.eigenpairs",
    "hopfed.subspace": "hopfed.archetypes.subspace",
    "hopfed.verdict": "hopfed.archetypes.status",
}


def current(name: str) -> str:
    """Name of a class, ``module:Class``, as it is today.

    Examples
    --------
    >>> current("hopfed.plasticity:Fixed"), current("mine:Rule")
    ('hopfed.hopfield.plasticity.rules:Fixed', 'mine:Rule')
    """
    module, colon, path = name.partition(":")
    return MODULES.get(module, module) + colon + path
