"""What the server makes of noisy answers about classes.

How large the noise is is public, so it is taken off wherever it matters: means are drawn to those
of the columns as far as noise could have made them differ, a class is split only where its
residuals vary by more than rows and noise let expect, and classes that noise alone may tell apart
are joined. Owners are pooled by `robust`.

Between exchanges the server keeps, by name: `asked` (means, shares, and which remembered class each
is), `total` (the sums of the steps that are averaged, and how many these are), and `best`, sums
over the classes that would be remembered if nobody answered any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hopfed.federation.contract import EVERYONE, Context, Metrics, State
from hopfed.federation.messages import Message, below
from hopfed.hopfield.graded.memory import STRANGER, Memory
from hopfed.hopfield.graded.noisy import NUMBERS, PARTS
from hopfed.hopfield.graded.noisy_columns import Present
from hopfed.hopfield.graded.noisy_look import Look
from hopfed.hopfield.graded.noisy_sums import NoisySums
from hopfed.hopfield.graded.robust import clients_left_out, trimmed
from hopfed.hopfield.liars.claims import median_bound
from hopfed.hopfield.robust import loss

if TYPE_CHECKING:
    from hopfed.hopfield.graded.private import PrivateClasses

WIDEST = 0.95  # magnitude of a mean of a class that is guessed

Answer = tuple[State, Mapping[int, Message], Metrics]


def hear(
    method: PrivateClasses, state: State, messages: Mapping[int, Message], context: Context
) -> Answer:
    """Answer the clients, in any exchange of a round."""
    exchange, memory = context.exchange, Memory.unflatten(below(state, "memory"))
    noise, now, metrics = state["noise"], dict(below(state, "now")), Metrics()
    held = _remembered(memory, noise).times(method.discount)
    if exchange == 0:
        # What was said of the classes of an earlier round says nothing of those of this one.
        messages = {c: m for c, m in messages.items() if not context.ages.get(c)}
        now = {**_asking(*_known(held), np.arange(memory.size)), "quiet": np.array(False)}
    if messages and not now["quiet"]:
        sums = pooled(method, messages)
        metrics["examples"] = float(_bounds(method, messages)[1].sum())  # counts have noise
        if method.round_steps[exchange] == "pairs":
            look = look_at(method, sums, messages, now["asked/parent"])
            now = _searched(method, now, look, exchange)
        else:
            now = _fitted(method, now, sums, held, exchange)
    if exchange + 1 < method.exchanges:
        quiet = not messages or bool(now["quiet"])
        told = {n: now[f"asked/{n}"].astype(np.float32) for n in ("means", "shares")}
        metrics["classes"] = len(now["asked/means"])
        return _state(memory, noise, now), {EVERYONE: {} if quiet else told}, metrics
    if "best/counts" in now:
        memory, noise = _closed(memory, _sums(now, "best"), now["best/parent"], held)
    told = {"means": memory.means.astype(np.float32), "shares": memory.shares.astype(np.float32)}
    return _state(memory, noise, {}), {EVERYONE: told}, metrics | {"classes": memory.size}


def pooled(method: PrivateClasses, messages: Mapping[int, Message]) -> NoisySums:
    """Sums of all owners, each within its bound."""
    said = list(messages.values())
    rows, weights, cut = _bounds(method, messages)
    present = Present.of(said)
    # An owner's mean has the noise of its sums over its rows.
    noise = present.noise(rows, weights) * loss(cut / len(rows))
    variance = np.full(len(said[0]["counts"]), noise * method.noise.scale("signed") ** 2)
    counts, signed, seen = (
        _pooled(said, n, rows, weights, cut, present) for n in ("counts", "signed", "seen")
    )
    return NoisySums(counts, signed, seen, variance)


def look_at(
    method: PrivateClasses, sums: NoisySums, messages: Mapping[int, Message], parent: np.ndarray
) -> Look:
    """What a look for classes goes by, from answers with products of columns."""
    said = list(messages.values())
    rows, weights, cut = _bounds(method, messages)
    one_by_one = [
        [{n: m[n][k] for n in ("pairs", "counts")} for m in said] for k in range(len(parent))
    ]
    present = Present.of(said)
    pairs = np.array([_pooled(each, "pairs", rows, weights, cut, present) for each in one_by_one])
    unit = method.noise.scale("pairs") / method.noise.scale("signed")
    believed = present.believed(weights, cut)
    by_noise, by_rows = present.thinner(rows, weights, believed)
    if not present.all:
        pairs = _believed(pairs, believed, sums)
        unit *= float(
            np.sqrt(by_noise * (weights**2 / rows**2).sum() / present.noise(rows, weights))
        )
    groups = [np.array([k]) for k in range(len(parent))]
    return Look(sums, pairs, parent, unit, groups, said, cut, by_rows)


def _believed(pairs: np.ndarray, believed: np.ndarray, sums: NoisySums) -> np.ndarray:
    """Let pairs of columns of which little is known vary together no more than classes say."""
    i, j = np.triu_indices(sums.signed.shape[1], 1)
    means = sums.signed / sums.rows[:, None]
    alone = sums.rows[:, None] * means[:, i] * means[:, j]
    return np.asarray(alone + believed[i, j] * (pairs - alone))


def _bounds(
    method: PrivateClasses, messages: Mapping[int, Message]
) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows that owners claim, rows that they count for, and how many are left out at either end."""
    rows = np.array([float(m["examples"]) for m in messages.values()])
    weights = np.minimum(rows, median_bound(rows.tolist(), method.claim))
    return rows, weights, clients_left_out(method.liars, len(rows))


def _pooled(
    said: Sequence[Message],
    name: str,
    rows: np.ndarray,
    weights: np.ndarray,
    cut: int,
    present: Present,
) -> np.ndarray:
    each = [m[name].astype(np.float64) / (PARTS * r) for m, r in zip(said, rows, strict=True)]
    found = np.array(each)
    if name != "counts":
        parts = [m["counts"] / (PARTS * r) for m, r in zip(said, rows, strict=True)]
        found = present.filled(name, found, np.array(parts), weights, cut)
    return np.asarray(weights.sum() * trimmed(found, weights, cut))


def _searched(method: PrivateClasses, now: Message, look: Look, exchange: int) -> Message:
    """Join classes that are one, and split those that are two; the last look only joins."""
    before_join, look = len(look.parent), look.joined()
    sums, parent = look.sums, look.parent
    found = [look.one(k).residuals() for k in range(len(parent))]
    ratios, ways = np.array([r.ratio for r in found]), np.array([r.way for r in found])
    order = np.argsort(-ratios * sums.rows, kind="stable")
    most = min(method.most, NUMBERS // ((method.n_sites + 2) ** 2 // 2))
    room = max(most - len(found), 0) if exchange + 1 < method.exchanges else 0
    chosen = np.array([k for k in order[:room] if ratios[k] > 1], dtype=int)
    alike = len(parent) == before_join
    if exchange == 0 or not alike:
        now = {**now, **_named("best", sums), "best/parent": parent}
    stay, T, p = np.setdiff1d(np.arange(len(found)), chosen), sums.means(), sums.shares()
    halves = np.concatenate([T[chosen] + ways[chosen], T[chosen] - ways[chosen]])
    means = np.concatenate([T[stay], np.clip(halves, -WIDEST, WIDEST)])
    shares = np.concatenate([p[stay], p[chosen] / 2, p[chosen] / 2])
    new = np.full(2 * len(chosen), STRANGER)
    over = not len(chosen) and alike and (exchange > 0 or len(found) == 1)
    return {
        **now,
        **_asking(means, shares, np.concatenate([parent[stay], new])),
        "quiet": np.array(over),
    }


def _fitted(
    method: PrivateClasses, now: Message, sums: NoisySums, held: NoisySums, exchange: int
) -> Message:
    """Take a step of the fit; after the last one of a look, see which classes are there."""
    steps, parent = int(now["asked/steps"]) + 1, now["asked/parent"]
    # The first step after a search is thrown away: its classes were guesses.
    total = _sums(now, "total") + sums if steps > 2 else sums
    now = {**now, **_named("total", total), "asked/steps": np.array(steps)}
    fresh = total.times(1 / max(steps - 1, 1))
    whole = fresh + before(held, parent)
    over = method.round_steps[exchange + 1 : exchange + 2] != ("sums",)
    if over:
        kept = whole.supported(method.support)
        whole, fresh, parent = whole.select(kept), fresh.select(kept), parent[kept]
        now |= _asking(whole.means(), whole.shares(), parent)
        return {**now, **_named("best", fresh), "best/parent": parent}
    now |= {"asked/means": whole.means(), "asked/shares": whole.shares()}
    return now


def before(held: NoisySums, parent: np.ndarray) -> NoisySums:
    """What is remembered of classes with these parents (K,); nothing of those that are new."""
    found, known = held.select(np.maximum(parent, 0)), parent != STRANGER
    each = (found.counts, found.signed, found.seen, found.noise)
    return NoisySums(*(np.where(known.reshape(-1, *[1] * (a.ndim - 1)), a, 0.0) for a in each))


def _closed(
    memory: Memory, fresh: NoisySums, parent: np.ndarray, held: NoisySums
) -> tuple[Memory, np.ndarray]:
    """Remember the classes of a round, and the noise on what is remembered."""
    total, known = fresh + before(held, parent), parent != STRANGER
    numbers = np.where(known, memory.numbers[np.maximum(parent, 0)], 0)
    numbers[~known] = memory.used + np.arange((~known).sum())
    nothing = np.zeros(len(parent), np.int64)
    new = Memory(
        means=total.means(),
        signed=total.signed,
        seen=total.seen,
        clients=np.array([STRANGER]),  # all of them: whose rows are of which class is not kept
        counts=np.maximum(total.counts, 0.0)[None],
        numbers=numbers,
        born=nothing,
        loud=nothing,
        used=memory.used + (~known).sum(),
    )
    return new, total.noise


def _remembered(memory: Memory, noise: np.ndarray) -> NoisySums:
    return NoisySums(memory.rows, memory.signed, memory.seen, noise + np.zeros(memory.size))


def _known(held: NoisySums) -> tuple[np.ndarray, np.ndarray]:
    """Means and shares of what is remembered; of nothing, those of a single class."""
    if held.counts.any():
        return held.means(), held.shares()
    return np.zeros_like(held.signed), np.full(len(held.counts), 1 / len(held.counts))


def _asking(means: np.ndarray, shares: np.ndarray, parent: np.ndarray) -> Message:
    named = {"means": means, "shares": shares, "parent": parent, "steps": np.array(0)}
    return {f"asked/{name}": array for name, array in named.items()}


def _named(front: str, sums: NoisySums) -> Message:
    return {f"{front}/{name}": np.asarray(array) for name, array in vars(sums).items()}


def _sums(now: Message, front: str) -> NoisySums:
    return NoisySums(*(now[f"{front}/{n}"] for n in ("counts", "signed", "seen", "noise")))


def _state(memory: Memory, noise: np.ndarray, now: Message) -> State:
    state = {f"memory/{k}": v for k, v in memory.flatten().items()}
    return {**state, "noise": noise} | {f"now/{k}": v for k, v in now.items()}
