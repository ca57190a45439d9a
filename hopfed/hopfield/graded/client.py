"""What a client answers from the rows of a round: sums over classes, never rows."""

from __future__ import annotations

import numpy as np

from hopfed._lib.arrays import to_host
from hopfed.archetypes.graded.fitting.mixture import class_sums, weighted_sums
from hopfed.archetypes.graded.fitting.splitting import residual_products, upper_side
from hopfed.archetypes.graded.owners.asking import Owner
from hopfed.federation.messages import Field, Message, Spec
from hopfed.hopfield.encoding import MOST_EXAMPLES
from hopfed.hopfield.site.limits import SET
from hopfed.spectral.rows import Bits

LEAST_LIKELY = 15.0  # minus the log of the least probability of an entry: means are inside of +-1
SLACK = 1e-3  # rows by which sums in single precision may exceed what rows give


def asked(down: Message) -> str:
    """What a message asks for: "products", along its directions, "sides" of them, or else "sums".

    Examples
    --------
    >>> asked({}), asked({"means": np.zeros((1, 2)), "directions": np.ones((1, 2))})
    ('sums', 'products')
    """
    if "directions" in down:
        return "products"
    return "sides" if "halves" in down else "sums"


def answer(rows: Bits, down: Message, smallest: int) -> Message:
    """Answer one exchange.

    Parameters
    ----------
    rows : (M, N) of this round.
    down : means (K, N) and shares (K,) of the classes; `directions` (K, N) where products are asked
        for, `halves` (K, N), directions too, where sums over one side of each class are. Nothing
        stands for a single class of which nothing is known.
    smallest : rows of a class below which no sums over them are sent. They count in the others.
    """
    owner, step = Owner(rows), asked(down)
    M, N = rows.shape
    means = down.get("means", np.zeros((1, N), np.float32))
    shares = np.asarray(down.get("shares", np.ones(1)), np.float64)
    found = class_sums(owner, {"means": means, "shares": shares})
    whole = {name: np.asarray(to_host(array)) for name, array in found.items()}
    kept = whole["counts"] >= smallest
    if not kept.all():  # rows of a class of few count in the others, or totals would show them
        if not kept.any():
            kept[whole["counts"].argmax()] = True
        found = class_sums(owner, {"means": means[kept], "shares": shares[kept]})
        whole = {name: np.asarray(to_host(array)) for name, array in found.items()}
    least = np.minimum(smallest, whole["counts"].max())
    told: Message = whole
    if step == "products":
        told = _products(owner, down["directions"][kept], whole, smallest)
    elif step == "sides":
        upper = weighted_sums(owner, owner.weights * upper_side(owner, down["halves"][kept]))
        told = {name: np.asarray(to_host(array)) for name, array in upper.items()}
    if smallest > 1 and step != "products":
        told = _without_few(told, whole, least)
    return {**{n: _placed(a, kept) for n, a in told.items()}, "examples": np.asarray(M)}


def _placed(array: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Put what is known of the classes that are kept at their places; 0 at the others."""
    if array.ndim == 0:
        return array
    found = np.zeros((len(kept), *array.shape[1:]), array.dtype)
    found[kept] = array
    return found


def _without_few(told: Message, whole: Message, least: float) -> Message:
    """Leave out sums over few rows: of columns that few rows of a class have, on either side.

    Parameters
    ----------
    told : sums over the rows of each class, or over those on the upper side of it.
    whole : sums over all rows of each class.
    """
    few = told["seen"] < least
    if told is whole:  # a column that is left out of one class alone follows from the total
        hidden = np.where(few, whole["seen"], 0.0).sum(axis=0)
        alone = (hidden > 0) & (hidden < least)
        rest = np.where(few, np.inf, whole["seen"])
        few[rest.argmin(axis=0)[alone], np.flatnonzero(alone)] = True
    else:
        few |= whole["seen"] - told["seen"] < least
        one_sided = np.minimum(told["counts"], whole["counts"] - told["counts"]) < least
        few |= one_sided[:, None]
        told = {**told, "counts": np.where(one_sided, 0, told["counts"])}
    return {**told, **{name: np.where(few, 0, told[name]) for name in ("signed", "seen")}}


def _products(owner: Owner, directions: np.ndarray, whole: Message, smallest: int) -> Message:
    """Products with residuals, without the columns of a class in which a value is rare."""
    rare = np.zeros(whole["seen"].shape, dtype=bool)
    if smallest > 1:  # along such a column the product is a sum over these few rows
        either = (whole["seen"] - np.abs(whole["signed"])) / 2
        rare = (whole["seen"] < smallest) | (either < min(SET, smallest) - SLACK)
    found = residual_products(owner, {"directions": np.where(rare, 0, directions)})
    return {"products": np.where(rare, 0, np.asarray(to_host(found["products"])))}


def spec(down: Message, n_sites: int) -> Spec:
    """Form of the answer to a question, and the most that rows of +-1 can give."""
    N, step = n_sites, asked(down)
    K = len(down["means"]) if down else 1
    sums = {
        "counts": Field((K,), "f", least=0.0, within="examples"),
        "signed": Field((K, N), "f", within="examples"),
        "seen": Field((K, N), "f", least=-SLACK, within="examples"),
    }
    numbers = {"examples": Field((), "iu", least=1, most=MOST_EXAMPLES)}
    if step == "products":  # two entries of a row differ from their means by 2 at most
        most = 4.1 * float(np.abs(down["directions"]).sum(axis=1).max(initial=0.0))
        return {"products": Field((K, N), "f", within="examples", times=most), **numbers}
    if step == "sides":
        return {**sums, **numbers}
    likelihood = Field((), "f", most=1.0, within="examples", times=LEAST_LIKELY * (N + 1))
    return {**sums, "log_likelihood": likelihood, **numbers}


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
