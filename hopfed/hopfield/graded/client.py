"""What a client answers from the rows of a round: sums over classes, never rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed._lib.arrays import to_host
from hopfed.archetypes.graded.mixture import class_sums, weighted_sums
from hopfed.archetypes.graded.owners import Owner
from hopfed.archetypes.graded.splitting import residual_products, upper_side
from hopfed.federation.messages import Field, Message, Spec
from hopfed.hopfield.encoding import MOST
from hopfed.spectral.rows import Bits

SLACK = 1e-3  # rows by which sums in single precision may exceed what rows give


def answer(step: str, rows: Bits, down: Message, smallest: int) -> Message:
    """Answer one exchange.

    Parameters
    ----------
    step : "sums", "products" or "sides".
    rows : (M, N) of this round.
    down : means (K, N) and shares (K,) of the classes, and directions (K, N) for the last two
        steps; nothing stands for a single class of which nothing is known.
    smallest : rows of a class below which no sums over them are sent.
    """
    owner = Owner(rows)
    M, N = rows.shape
    means = down.get("means", np.zeros((1, N), np.float32))
    shares = down.get("shares", np.ones(1, np.float32))
    found: dict[str, Any] = class_sums(owner, {"means": means, "shares": shares})
    kept = np.asarray(to_host(found["counts"])) >= smallest
    if step == "products":
        found = residual_products(owner, {"directions": down["directions"]})
    elif step == "sides":
        above = owner.weights * upper_side(owner, down["directions"])
        found = weighted_sums(owner, above)
        kept &= _both_sides(to_host(owner.weights), to_host(above), smallest)
    told = {name: np.asarray(to_host(array)) for name, array in found.items()}
    for name in told.keys() & {"counts", "signed", "seen", "products"}:
        told[name] = np.where(kept if told[name].ndim == 1 else kept[:, None], told[name], 0)
    if smallest > 1 and "seen" in told:  # a column that few rows of a class have
        few = told["seen"] < smallest
        told["seen"], told["signed"] = (np.where(few, 0, told[n]) for n in ("seen", "signed"))
    return {**told, "examples": np.asarray(M)}


def _both_sides(weights: np.ndarray, above: np.ndarray, smallest: int) -> np.ndarray:
    """Which classes (K,) have enough rows on either side, where one is not enough."""
    if smallest <= 1:
        return np.ones(weights.shape[1], dtype=bool)
    upper = above.sum(axis=0)
    return np.asarray(np.minimum(upper, weights.sum(axis=0) - upper) >= smallest)


def spec(step: str, classes: int, n_sites: int) -> Spec:
    """Form of the answer to a question about so many classes."""
    K, N = max(classes, 1), n_sites
    sums = {
        "counts": Field((K,), "f", least=0.0, within="examples"),
        "signed": Field((K, N), "f", within="examples"),
        "seen": Field((K, N), "f", least=-SLACK, within="examples"),
    }
    numbers = {"examples": Field((), "iu", least=1, most=MOST)}
    if step == "products":
        return {"products": Field((K, N), "f"), **numbers}
    if step == "sides":
        return {**sums, **numbers}
    return {**sums, "log_likelihood": Field((), "f", most=1.0), **numbers}


def complaint(message: Message) -> str | None:
    """Say why no rows give these sums; None if some may."""
    if "counts" not in message:
        return None
    counts, seen = (message[name].astype(np.float64) for name in ("counts", "seen"))
    slack = SLACK + 1e-5 * float(message["examples"])
    if counts.sum() > float(message["examples"]) + slack:
        return f"counts of {counts.sum():g} rows, of {int(message['examples'])}"
    if (seen > counts[:, None] + slack).any():
        return "more entries of a class than it has rows"
    if (np.abs(message["signed"]) > seen + slack).any():
        return "sums of entries beyond their number"
    return None
