"""Former names of classes, settings and results, so that files of earlier versions can be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

V = TypeVar("V")

# Module that a class was in -> module that it is in.
MODULES = {
    "hopfed.discrete_gaussian": "hopfed.privacy.discrete_gaussian",
    "hopfed.exchange": "hopfed.recovery.moments",
    "hopfed.experiments._cells": "hopfed.experiments.shared.cells",
    "hopfed.experiments._ledger": "hopfed.experiments.ledger",
    "hopfed.experiments._noise": "hopfed.experiments.shared.noise",
    "hopfed.experiments._spiked": "hopfed.experiments.shared.spiked",
    "hopfed.hopfield.batches": "hopfed.hopfield.batches",
    "hopfed.hopfield.schedules": "hopfed.hopfield.schedules",
    "hopfed.hopfield.stream": "hopfed.hopfield.stream",
    "hopfed.factorize": "hopfed.archetypes.factorize",
    "hopfed.hopfield.blending": "hopfed.hopfield.memory.blending",
    "hopfed.hopfield.evidence": "hopfed.hopfield.memory.evidence",
    "hopfed.hopfield.private": "hopfed.hopfield.noisy",
    "hopfed.hopfield.remembered": "hopfed.hopfield.memory.remembered",
    "hopfed.hopfield.support": "hopfed.hopfield.memory.support",
    "hopfed.hopfield.voting": "hopfed.hopfield.memory.remembered",
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


# Setting or result -> its name today.
_FIELDS = {
    "carry": "discount",
    "header": "head",
    "khat": "n_detected",
    "lost_no_lam": "lost_no_layered",
    "mass2": "sum_sq_weights",
    "no_lam": "no_layered",
}
_FORMER = re.compile(rf"(?<![A-Za-z0-9_])({'|'.join(_FIELDS)})(?![A-Za-z0-9])|(?<![^/])ours(?=: )")


def current_name(name: str) -> str:
    """Return the present name of a setting or a result, or of a path of such names.

    Parameters
    ----------
    name : such as a key of a summary or the path of an array in a run file.

    Examples
    --------
    >>> current_name("drift/khat"), current_name("khat_0.5"), current_name("methods/ours: by class")
    ('drift/n_detected', 'n_detected_0.5', 'methods/proposed: by class')
    """
    return _FORMER.sub(lambda found: _FIELDS.get(found.group(), "proposed"), name)


def current_names(values: Mapping[str, V], known: Mapping[str, Any] | None = None) -> dict[str, V]:
    """Return `values` under the present names; one whose present name is there too keeps its own.

    Parameters
    ----------
    values : settings or results by name.
    known : names that are left as they are, for they are of today.

    Examples
    --------
    >>> current_names({"carry": 0.5, "N": 400})
    {'discount': 0.5, 'N': 400}
    >>> current_names({"head": 1, "header": 2})
    {'head': 1, 'header': 2}
    """
    new = {name: current_name(name) for name in values if name not in (known or {})}
    return {
        name if new.get(name) in values else new.get(name, name): value
        for name, value in values.items()
    }


def has_former_names(version: str | None) -> bool:
    """Whether what this version of hopfed wrote, None if that is not known, has former names.

    Parameters
    ----------
    version : such as "0.1.0".

    Examples
    --------
    >>> has_former_names("0.1.0"), has_former_names(None), has_former_names("0.2.0")
    (True, True, False)
    """
    return version is None or version.startswith(("0.0.", "0.1."))


def current_class(name: str) -> str:
    """Return the present name of a class, ``module:Class``.

    Examples
    --------
    >>> current_class("hopfed.plasticity:Fixed"), current_class("mine:Rule")
    ('hopfed.hopfield.plasticity.rules:Fixed', 'mine:Rule')
    """
    module, colon, path = name.partition(":")
    return MODULES.get(module, module) + colon + path
