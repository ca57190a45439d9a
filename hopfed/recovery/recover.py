"""`recover`: from binary examples, in one place or several, to archetypes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hopfed._lib.settings import real, require
from hopfed.archetypes.annealed_search import Search
from hopfed.archetypes.factorize import METHODS, Archetypes, Groups, factorize
from hopfed.archetypes.joint_diagonalization import JointDiagonalization
from hopfed.data.readers import as_examples
from hopfed.errors import ArgumentError, DataError
from hopfed.federation.messages import Traffic
from hopfed.kernels import PackedBits
from hopfed.recovery.one_round import Federation, orient
from hopfed.spectral.eigenpairs import Spectrum
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.rank import (
    Counting,
    Fixed,
    MarchenkoPastur,
    RankEstimate,
    RankRule,
    Shuffle,
    TracyWidom,
)


@dataclass(frozen=True)
class Recovery:
    """Archetypes, and what it took to get them.

    Attributes
    ----------
    archetypes : what was found.
    traffic : bytes and numbers each way, by client.
    exchanges : times the server heard from the clients.
    dense_nbytes : bytes of the N x N operator in float32, which the paper's clients send.
    eigenvalues : leading eigenvalues of the pooled operator, descending.
    threshold : the value above which an eigenvalue counts.
    rule : the rank rule in words.
    n_examples : examples of each client.
    constant_columns : columns that hold one value over all clients.

    Examples
    --------
    >>> from hopfed.data.channel import draw_examples, rademacher
    >>> rng = np.random.default_rng(1)
    >>> recovery = run_recovery(draw_examples(rademacher(3, 200, rng), 600, 0.8, rng)[0], seed=1)
    >>> recovery.archetypes.n_detected, int((recovery.eigenvalues > recovery.threshold).sum())
    (3, 3)
    >>> recovery.rule
    'Tracy-Widom at a false-alarm rate of 0.001'
    """

    archetypes: Archetypes
    traffic: Traffic
    exchanges: int
    dense_nbytes: int
    eigenvalues: np.ndarray = field(repr=False)
    threshold: float
    rule: str
    n_examples: list[int]
    constant_columns: np.ndarray


@dataclass(frozen=True)
class Settings:
    """How to recover; see `recover` for the meaning of each field.

    Attributes
    ----------
    quality, method, rank_rule, alpha, groups, search, refit : as the arguments of `recover`.

    Raises
    ------
    ArgumentError : an unknown method, a quality outside (0, 1].

    Examples
    --------
    >>> Settings(quality=1.5)
    Traceback (most recent call last):
        ...
    hopfed.errors.ArgumentError: quality must be in (0, 1], got 1.5
    """

    quality: float | None = None
    method: str = "auto"
    rank_rule: str = "tw"
    alpha: float | None = None
    groups: int = 10
    search: Search | None = None
    refit: bool = False

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ArgumentError("method", f"one of {', '.join(METHODS)}", self.method)
        if self.quality is not None and not 0 < self.quality <= 1:
            raise ArgumentError("quality", "in (0, 1]", self.quality)


def named_rule(name: str, alpha: float | None, seed: int) -> RankRule:
    """Rank rule by name: "tw", "mp", "shuffle", or a number, the fixed tau of the paper.

    Parameters
    ----------
    name : that name or number.
    alpha : false-alarm rate of "tw" and "shuffle", their own default when None.
    seed : of the scrambling in "shuffle".

    Raises
    ------
    ArgumentError : another name, or an alpha that it has no use for.

    Examples
    --------
    >>> named_rule("tw", 0.01, seed=0), named_rule("0.5", None, seed=0)
    (TracyWidom(alpha=0.01), Fixed(tau=0.5, t=2.0, scale=1.0))
    """
    if name == "tw":
        return TracyWidom() if alpha is None else TracyWidom(alpha)
    if name == "shuffle":
        return Shuffle(seed=seed) if alpha is None else Shuffle(alpha, seed=seed)
    if alpha is not None:
        raise ArgumentError("alpha", "left out unless the rank rule is tw or shuffle", alpha)
    if name == "mp":
        return MarchenkoPastur()
    rule = "tw, mp, shuffle or a finite number"
    tau = real("rank_rule", str(name), rule)
    require(math.isfinite(tau), "rank_rule", rule, name)
    return Fixed(tau)


def recover(
    examples: Any,
    *,
    seed: int,
    quality: float | None = None,
    method: str = "auto",
    rank_rule: str = "tw",
    alpha: float | None = None,
    groups: int = 10,
    search: Search | None = None,
    refit: bool = False,
) -> Archetypes:
    """Recover the archetypes behind binary examples.

    Parameters
    ----------
    examples : (M, N) array of +-1, 0/1 or booleans, or a list of such arrays, one for each owner;
        owners exchange operators and small matrices with the server, never examples. CuPy arrays
        and bits packed on a device stay there, all owners' on one; the result is on the host.
    seed : of every random choice; the same seed gives the same result.
    quality : r in (0, 1] when known; estimated otherwise.
    method : "auto", "joint", "layered" or "ica"; see `hopfed.archetypes.factorize.factorize`.
    rank_rule : "tw" (Tracy-Widom), "mp", "shuffle", or a number for the paper's fixed tau.
    alpha : false-alarm rate of "tw" (default 0.001) and "shuffle" (default 0.05).
    groups : random groups formed inside the data, over all owners together.
    refit : one more exchange, which brings the patterns to the bound given by true labels.
    search : settings of the search, `hopfed.archetypes.annealed_search.Search`; its defaults when
        left out.

    Returns
    -------
    Archetypes, oriented as the examples point, heaviest first. Look at `status`: what could not
    be found is said there, never made up.

    Raises
    ------
    DataError : examples that are not binary, or fewer than two.
    ArgumentError : another argument breaks its rule.

    Examples
    --------
    >>> import numpy as np
    >>> from hopfed.data.channel import draw_examples, rademacher
    >>> rng = np.random.default_rng(1)
    >>> xi = rademacher(3, 200, rng)
    >>> found = recover(draw_examples(xi, 600, 0.8, rng)[0], seed=1)
    >>> found.status, found.n_detected
    ('ok', 3)
    """
    return run_recovery(
        examples,
        seed=seed,
        quality=quality,
        method=method,
        rank_rule=rank_rule,
        alpha=alpha,
        groups=groups,
        search=search,
        refit=refit,
    ).archetypes


def run_recovery(examples: Any, *, seed: int, **options: Any) -> Recovery:
    """Do what `recover` does, and keep the traffic and the spectrum as well.

    Parameters
    ----------
    examples, seed : as in `recover`.
    options : the fields of `Settings`.

    Examples
    --------
    >>> from hopfed.data.channel import draw_examples, rademacher
    >>> rng = np.random.default_rng(1)
    >>> x = draw_examples(rademacher(3, 200, rng), 600, 0.8, rng)[0]
    >>> recovery = run_recovery([x[:300], x[300:]], seed=1, quality=0.8)
    >>> recovery.n_examples, recovery.traffic.up.tolist()
    ([300, 300], [41140, 41140])
    """
    settings = Settings(**options)
    rule = named_rule(settings.rank_rule, settings.alpha, seed)
    quality = settings.quality
    clients = _clients(examples)
    federation = Federation([FactorOperator.from_examples(c) for c in clients], seed)
    mean = federation.mean()

    rank, spectrum = counted(federation, rule, quality)
    projections = None
    if settings.method in ("auto", "joint") and rank.n_detected:
        projections = Groups(*federation.project(spectrum.vectors, settings.groups))
    found = factorize(
        spectrum,
        rank,
        groups=projections,
        method=settings.method,
        joint=JointDiagonalization(groups=settings.groups),
        search=settings.search,
        seed=seed,
    )
    patterns = orient(found.patterns, mean)
    if settings.refit and len(patterns):
        patterns = federation.refit(patterns)
    return Recovery(
        archetypes=replace(found, patterns=patterns),
        traffic=federation.traffic,
        exchanges=federation.exchanges,
        dense_nbytes=federation.clients[0].dense_nbytes,
        eigenvalues=spectrum.values,
        threshold=rank.threshold,
        rule=rank.rule,
        n_examples=[c.shape[0] for c in clients],
        constant_columns=np.flatnonzero(np.abs(mean) == 1),
    )


def counted(
    federation: Federation, rule: RankRule, quality: float | None
) -> tuple[RankEstimate, Spectrum]:
    """Compute the spectrum, and count what stands above the noise.

    Under one common variance the examples of a noisy client pass for archetypes. So clients are
    asked for their own noise, and where it differs the vectors at hand are counted again under
    its law; this count is never the higher one.

    Parameters
    ----------
    federation : the clients.
    rule : of the count.
    quality : r in (0, 1] when known; no client's noise is asked for then.

    Examples
    --------
    >>> from hopfed.data.channel import draw_examples, rademacher
    >>> rng = np.random.default_rng(1)
    >>> x = draw_examples(rademacher(3, 200, rng), 600, 0.8, rng)[0]
    >>> alone = Federation([FactorOperator.from_examples(x)], 0)
    >>> rank, spectrum = counted(alone, TracyWidom(), None)
    >>> rank.n_detected, spectrum.vectors.shape
    (3, (200, 3))
    """
    count = Counting(rule, lambda values, whole: federation.sample(values, whole, quality))
    spectrum = federation.spectrum(count)
    first = count.estimate
    if first.n_detected == 0 or quality is not None or len(federation.clients) == 1:
        return first, spectrum
    profile = federation.profile(spectrum.vectors)
    if profile.alike():
        return first, spectrum
    rank = rule(federation.sample(spectrum.values, spectrum.complete, quality, profile))
    keep = min(rank.n_detected, first.n_detected)
    rank = replace(
        rank, n_detected=keep, strengths=rank.strengths[:keep], overlaps=rank.overlaps[:keep]
    )
    return rank, replace(
        spectrum, vectors=spectrum.vectors[:, :keep], residuals=spectrum.residuals[:keep]
    )


def split(examples: PackedBits, clients: int, seed: int) -> list[PackedBits]:
    """Deal the rows of one set of examples to `clients` at random, as evenly as possible.

    Parameters
    ----------
    examples : M packed rows.
    clients : from 1 to M / 2.
    seed : of the deal.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> [part.shape for part in split(pack(np.ones((7, 3))), 3, seed=0)]
    [(3, 3), (2, 3), (2, 3)]
    """
    m = examples.shape[0]
    if not 1 <= clients <= m // 2:
        raise ArgumentError("clients", f"between 1 and {m // 2} for {m} examples", clients)
    from hopfed._lib.random import stream

    order = stream(seed, "split").permutation(m)
    return [examples[np.sort(part)] for part in np.array_split(order, clients)]


def _clients(examples: Any) -> list[PackedBits]:
    if isinstance(examples, PackedBits) or hasattr(examples, "shape"):
        examples = [examples]
    if not isinstance(examples, Sequence) or len(examples) == 0:
        raise DataError("examples must be an array or a list of arrays, one for each owner")
    packed = [as_examples(e, name=f"examples[{i}]") for i, e in enumerate(examples)]
    widths = [p.shape[1] for p in packed]
    if len(set(widths)) > 1:
        raise DataError(f"all owners must have the same columns, got {widths} columns")
    return packed
