"""Compiled parts of `dense`: serial sweeps of one chain.

The overlap of a state with a pattern is a whole number in steps of two: `level` is the number of
sites at which the two agree, 0 .. N. What depends on it is looked up.

rule : (exponential, parameter, values, owns), see `dense.energy_rule`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hopfed.kernels.cpu.compiled import inner, kernel
from hopfed.kernels.cpu.vectors import draw
from hopfed.kernels.dense import CLOSE

# The order of a sum is the compiler's, so that it may use vectors. Whole numbers are exact in any.
_sum = njit(
    nogil=True, fastmath={"reassoc", "nsz", "contract"}, forceinline=True, no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
)  # fmt: skip


@_sum
def _along(columns, i, table):
    """Return ``sum_mu xi_mu,i table_mu``."""
    total = 0.0
    for mu in range(len(table)):
        total += columns[i, mu] * table[mu]
    return total


@_sum
def _turn(columns, i, spin, level):
    """Bring the levels up to date with the new spin of site i."""
    for mu in range(len(level)):
        level[mu] += spin * np.int32(columns[i, mu])


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
def _looked_up(level, mass, values, owns, table):
    """Fill the table with ``w values[level]``; return ``sum w owns[level]``."""
    own = 0.0
    for mu in range(len(level)):
        j = np.uint32(level[mu])
        table[mu] = mass[mu] * values[j]
        own += mass[mu] * owns[j]
    return own


@_sum
def _exponentials(level, mass, values, table):
    """Fill the table with ``w exp(beta (a - max a))``; return its sum."""
    most = level[0]
    for mu in range(len(level)):
        most = max(most, level[mu])
    shift, total = len(values) - 1 - most, 0.0
    for mu in range(len(level)):
        table[mu] = mass[mu] * values[np.uint32(level[mu] + shift)]
        total += table[mu]
    return total


@inner
def _tabulate(level, mass, rule, table):
    """Fill the table of a state, and return the factor of the spin itself; or the table's sum."""
    exponential, _, values, owns = rule
    if exponential:
        return _exponentials(level, mass, values, table)
    return _looked_up(level, mass, values, owns, table)


@inner
def _log_sum(x, y):
    """``log(exp(x) + exp(y))``, of which at most one is infinite."""
    return max(x, y) + np.log1p(np.exp(-abs(x - y)))


@inner
def _hot_exponential(columns, i, spin, beta, table):
    """Return the field of the exponential."""
    up, down = _halves(columns, i, table)
    if down == 0:
        return 1.0
    if up == 0:
        return -1.0
    x = np.log(up) - np.log(down) - 2 * beta * spin
    return (_log_sum(x + beta, -beta) - _log_sum(x - beta, beta)) / (2 * beta)


@kernel
def run_chain(
    c, state, used, settled, columns, mass, rule, betas, cold, lookup, held, k0, k1, stream,
    first_sweep, first_chain, scratch,
):  # fmt: skip
    """Sweep over the sites of chain c; see `dense.dense_sweep` for the arguments."""
    level, table, t, bits, lanes = scratch
    exponential, parameter, _, _ = rule
    n, count = columns.shape
    scale = np.float64(n) / (2 * parameter) / np.float64(n) ** parameter
    rise, fall = np.exp(2 * parameter), np.exp(-2 * parameter)
    for i in range(n):
        for mu in range(count):
            level[mu] += state[c, i] == columns[i, mu]
    for sweep in range(betas.shape[1]):
        own, flips = _tabulate(level, mass, rule, table), 0
        if not cold:
            number, place = np.uint64(first_chain + c), np.uint64(first_sweep + sweep)
            draw(k0, k1, stream, number, place, 0, lookup, bits, lanes, t, 0, n)
        for i in range(n):
            if len(held) and held[c, i]:
                continue
            spin = np.float64(state[c, i])
            if not exponential:
                h = scale * (_along(columns, i, table) + spin * own)
            elif cold:
                # Sign of up - down exp(2 beta s): sums over patterns up at the site, and others.
                factor = rise if spin > 0 else fall
                along = _along(columns, i, table)
                h = (own + along) - (own - along) * factor
                if abs(h) <= CLOSE * own * (1 + factor):
                    above, below = _halves(columns, i, table)
                    h = above - below * factor
                    if abs(h) <= CLOSE * (above + below * factor):
                        h = 0.0
            else:
                h = _hot_exponential(columns, i, spin, parameter, table)
            up = (h > 0 or (h == 0 and spin > 0)) if cold else betas[c, sweep] * h >= t[0, i]
            if up != (spin > 0):
                state[c, i] = -state[c, i]
                _turn(columns, i, np.int32(state[c, i]), level)
                flips += 1
                own = _tabulate(level, mass, rule, table)
        used[c] += 1
        if cold and flips == 0:
            settled[c] = True
            break
