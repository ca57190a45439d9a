"""Compiled serial sweeps for `dense`: one chain, one field at a time, sums over the patterns."""

from __future__ import annotations

import numpy as np
from numba import njit

from hopfed.kernels.cpu.compiled import inner, kernel
from hopfed.kernels.cpu.draws import draw

LOWEST = -700.0  # exp of less is next to nothing

# The order of a sum is the compiler's, so that it may use vectors. Whole numbers are exact in any.
_sum = njit(nogil=True, fastmath={"reassoc", "nsz"}, no_cpython_wrapper=True, no_cfunc_wrapper=True)


@_sum
def _along(columns, i, table):
    """Return ``sum_mu xi_mu,i table_mu``."""
    total = 0.0
    for mu in range(len(table)):
        total += columns[i, mu] * table[mu]
    return total


@_sum
def _halves(columns, i, table):
    """Return the sums of the table over the patterns that are up at site i, and over the others.

    Both are summed, none subtracted: one may be far below the rounding of the other.
    """
    up, down = 0.0, 0.0
    for mu in range(len(table)):
        is_up = 0.5 + 0.5 * columns[i, mu]
        up += is_up * table[mu]
        down += (1 - is_up) * table[mu]
    return up, down


@_sum
def _powers(a, mass, n, table):
    """Fill the table with ``w (D(a - 1) + D(a + 1)) / 2``, ``D(c) = (c + 1)^n - (c - 1)^n``.

    Return the sum of ``w (D(a - 1) - D(a + 1)) / 2``, the factor of the spin itself.
    """
    own = 0.0
    for mu in range(len(a)):
        low, here, high = 1.0, 1.0, 1.0
        for _ in range(n):
            low *= a[mu] - 2
            here *= a[mu]
            high *= a[mu] + 2
        table[mu] = mass[mu] * (high - low) / 2
        own += mass[mu] * (2 * here - low - high) / 2
    return own


@inner
def _exponentials(a, mass, beta, table):
    """Fill the table with ``w exp(beta (a - max a))``."""
    most = a[0]
    for mu in range(len(a)):
        most = max(most, a[mu])
    for mu in range(len(a)):
        x = beta * (a[mu] - most)  # what underflows is told beforehand: the library is slow there
        table[mu] = mass[mu] * np.exp(x) if x > LOWEST else 0.0


@inner
def _tabulate(a, mass, exponential, parameter, table):
    if exponential:
        _exponentials(a, mass, parameter, table)
        return 0.0
    return _powers(a, mass, int(parameter), table)


@inner
def _log_sum(x, y):
    """``log(exp(x) + exp(y))``, of which at most one is infinite."""
    return max(x, y) + np.log1p(np.exp(-abs(x - y)))


@inner
def _field(columns, i, spin, exponential, parameter, table, own, scale, cold):
    """Field of one spin; for the exponential at temperature 0 a number of its sign."""
    if not exponential:
        return scale * (_along(columns, i, table) + spin * own)
    up, down = _halves(columns, i, table)
    if down == 0:
        return 1.0
    if up == 0:
        return -1.0
    x = np.log(up) - np.log(down) - 2 * parameter * spin
    if cold:
        return x
    return (_log_sum(x + parameter, -parameter) - _log_sum(x - parameter, parameter)) / (
        2 * parameter
    )


@kernel
def run_chain(
    c, state, used, settled, columns, mass, exponential, parameter, betas, cold, lookup, held,
    k0, k1, stream, first_sweep, first_chain, scratch,
):  # fmt: skip
    """Sweep over the sites of chain c; see `dense.dense_sweep` for the arguments."""
    a, table, t, bits, lanes = scratch
    n, count = columns.shape
    scale = np.float64(n) / (2 * parameter) / np.float64(n) ** parameter
    for i in range(n):
        for mu in range(count):
            a[mu] += state[c, i] * columns[i, mu]
    own = _tabulate(a, mass, exponential, parameter, table)
    for sweep in range(betas.shape[1]):
        flips = 0
        if not cold:
            number, place = np.uint64(first_chain + c), np.uint64(first_sweep + sweep)
            draw(k0, k1, stream, number, place, 0, lookup, bits, lanes, t, 0, n)
        for i in range(n):
            if len(held) and held[c, i]:
                continue
            spin = np.float64(state[c, i])
            h = _field(columns, i, spin, exponential, parameter, table, own, scale, cold)
            up = h >= 0 if cold else betas[c, sweep] * h >= t[0, i]
            if up != (spin > 0):
                state[c, i] = -state[c, i]
                for mu in range(count):
                    a[mu] -= 2 * spin * columns[i, mu]
                own = _tabulate(a, mass, exponential, parameter, table)
                flips += 1
        used[c] += 1
        if cold and flips == 0:
            settled[c] = True
            break
