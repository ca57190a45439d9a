"""What a client answers from the rows of a round: sums over classes, never rows."""

from __future__ import annotations

import numpy as np

from hopfed._lib.arrays import to_host
from hopfed.archetypes.mixture import class_sums, weighted_sums
from hopfed.archetypes.search import residual_products, upper_side
from hopfed.archetypes.session import Owner
from hopfed.federation.messages import Field, Message, Spec
from hopfed.hopfield.encoding import MOST_EXAMPLES
from hopfed.spectral.rows import Bits

LEAST_LIKELY = 15.0  # minus the log of the least probability of an entry: means are inside of +-1
CLASSES = 200  # classes that a server may name at once
SLACK = 1e-3  # rows by which sums in single precision may exceed what rows give


def asked(down: Message) -> str:
    """What a message asks for: "products" along directions, "sides" of them, or else "sums"."""
    if "directions" in down:
        return "products"
    return "sides" if "halves" in down else "sums"


def answer(rows: Bits, down: Message) -> Message:
    """Answer one exchange."""
    owner, step = Owner(rows), asked(down)
    M, N = rows.shape
    means = down.get("means", np.zeros((1, N), np.float32))
    shares = np.asarray(down.get("shares", np.ones(1)), np.float64)
    found = class_sums(owner, {"means": means, "shares": shares})
    kept = np.asarray(to_host(found["counts"])) >= 1  # less than a row counts in other classes
    if not kept.all():
        kept[np.asarray(to_host(found["counts"])).argmax()] = True
        found = class_sums(owner, {"means": means[kept], "shares": shares[kept]})
    if step == "products":
        found = residual_products(owner, {"directions": down["directions"][kept]})
    elif step == "sides":
        found = weighted_sums(owner, owner.weights * upper_side(owner, down["halves"][kept]))
    told = {name: _placed(np.asarray(to_host(array)), kept) for name, array in found.items()}
    return {**told, "examples": np.asarray(M)}


def _placed(array: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Put what is known of the classes that are kept at their places; 0 at the others."""
    if array.ndim == 0:
        return array
    found = np.zeros((len(kept), *array.shape[1:]), array.dtype)
    found[kept] = array
    return found


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
