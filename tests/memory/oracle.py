"""The associative memory in plain NumPy: dense couplings, one spin at a time."""

import math

import numpy as np

from hopfed.memory.rules import Dense


def random_signs(shape, seed):
    return np.random.default_rng(seed).choice(np.array([-1, 1], np.int8), shape)


def corrupted(patterns, share, seed):
    """Copies of patterns in which each site is flipped with probability `share`."""
    flips = np.random.default_rng(seed).random(patterns.shape) < share
    return np.where(flips, -patterns, patterns).astype(np.int8)


def couplings(xi, rule):
    """(N, N) couplings of a quadratic rule; of Hebb's N times, whole numbers: ties are ties."""
    if rule.time == 0:
        return xi.T.astype(float) @ xi
    J = xi.T.astype(float) @ xi / xi.shape[1]
    if rule.time == np.inf:
        return np.linalg.pinv(xi.astype(float)) @ xi
    return (1 + rule.time) * J @ np.linalg.inv(np.eye(len(J)) + rule.time * J)


def field(h, rounding=1e-12):
    """Fields, 0 where they are within the rounding of float64: those of entries of order 1."""
    return np.where(np.abs(h) < rounding, 0, h)


def descend(states, J, held=None, sweeps=100):
    """Serial descent on the couplings J without their diagonal; a field of 0 leaves the spin."""
    J = J - np.diag(np.diag(J))
    states = states.astype(float)
    for c, s in enumerate(states):
        for _ in range(sweeps):
            before = s.copy()
            for i in range(len(s)):
                if held is None or not held[c, i]:
                    s[i] = np.sign(field(J[i] @ s)) or s[i]
            if (s == before).all():
                break
    return states.astype(np.int8)


def step(states, xi, rule):
    """One synchronous update without noise and without self-field; overlaps in whole numbers."""
    if rule.quadratic:
        J = couplings(xi, rule)
        h = field(states @ (J - np.diag(np.diag(J))))
        return np.where(h == 0, states, np.sign(h)).astype(np.int8)
    new = states.copy()
    for c, s in enumerate(states.astype(int)):
        a = xi.astype(int) @ s
        if isinstance(rule, Dense):
            others = (a[:, None] - xi * s).astype(object)  # whole numbers of any size
            h = ((others + xi) ** rule.n - (others - xi) ** rule.n).sum(axis=0)
        else:
            terms = np.exp(rule.beta * (a - a.max()))[:, None] * xi
            h = np.array([math.fsum(column) for column in terms.T])
        new[c] = np.where(h == 0, s, np.where(h > 0, 1, -1))
    return new


def layers(cues, J, g, coupling, order, updates):
    """Updates of layers (S, L, N) without noise and without self-field; g couples the layers."""
    n, L, own = cues.shape[1], len(g), np.diag(J)
    states = np.repeat(cues[:, None, :].astype(float), L, axis=1)
    for s in states:
        for _ in range(updates):
            new = s if order == "serial" else s.copy()
            for i in range(n):
                for a in range(L):
                    h = g[a, a] * (J[i] @ s[a] - own[i] * s[a, i])
                    for b in set(range(L)) - {a}:
                        along = J[i] @ s[b]
                        if coupling == "linear":
                            h += g[a, b] * along
                            continue
                        q = s[a] @ J @ s[b]
                        if order == "serial":
                            q -= s[a, i] * along
                        h += g[a, b] * q / n * along
                    new[a, i] = np.sign(field(h)) or s[a, i]
            s[:] = new
    return states.astype(np.int8)
