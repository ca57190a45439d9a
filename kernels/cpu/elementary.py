"""Exponentials that LLVM turns into vector instructions, and what is made of them.

Numba calls a library for `exp`, one number at a time. This is a polynomial, after powers of two are
split off; it is off by a few units in the last place.
"""

# ruff: noqa: ARG001  (the arguments of an intrinsic are types; the values come to its codegen)
from __future__ import annotations

from math import factorial

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hopfed.kernels.cpu.compiled import kernel

PER_LN2 = 1 / np.log(2)
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # parts of log 2
ROUND = 1.5 * 2.0**52  # added to a number, it leaves the nearest integer in the lowest bits
ONE = 0x3FF0000000000000  # bits of 1
DEGREE = 13  # of the polynomial
LEAST = -700.0  # argument of exp below which it is taken for this
FAINT = 1e-18  # of products of two smaller weights a processor takes many times as long: denormal
BLOCK = 64  # rows whose numbers stay in registers and the nearest cache


@intrinsic
def exp(_typing, x):
    """Exponential of a float64 up to 700."""

    def codegen(_context, builder, _signature, args):
        real, whole = ir.DoubleType(), ir.IntType(64)
        kind = ir.FunctionType(real, [real] * 3)
        fused = cgutils.get_or_insert_function(builder.module, kind, "llvm.fmuladd.f64")

        def step(p, x, c):
            return builder.call(fused, [p, x, c])

        low = builder.fcmp_ordered("<", args[0], real(LEAST))
        x = builder.select(low, real(LEAST), args[0])
        rounded = step(x, real(PER_LN2), real(ROUND))
        n = builder.fsub(rounded, real(ROUND))
        r = step(n, real(-LN2_LOW), step(n, real(-LN2_HIGH), x))
        p = real(1 / factorial(DEGREE))
        for power in reversed(range(DEGREE)):
            p = step(p, r, real(1 / factorial(power)))
        bits = builder.shl(builder.bitcast(rounded, whole), whole(52))
        return builder.fmul(p, builder.bitcast(builder.add(bits, whole(ONE)), real))

    return types.float64(types.float64), codegen


def responsibilities(
    logs: np.ndarray, shifts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return how much of each row each class has, where ``logs[k, m] + shifts[k]`` is its log.

    Of logs (K, M) and shifts (K,): responsibilities (K, M) in float64 and in float32, 0 below FAINT
    there, and the log of the sum over classes (M,).
    """
    K, M = logs.shape
    whole, single = np.empty((K, M)), np.empty((K, M), np.float32)
    totals, tops = np.empty(M), np.empty(M)
    _normalise(np.ascontiguousarray(logs), shifts, whole, single, totals, tops)
    return whole, single, tops + np.log(totals)


def mixed(logs: np.ndarray, shifts: np.ndarray, parts: np.ndarray, highest: float) -> np.ndarray:
    """Return ``sum_k parts[k, m] exp(min(logs[s, k, m] + shifts[s, k], highest))``, (S, M).

    Of logs (S, K, M), shifts (S, K) and parts (K, M); `highest` is 700 or less.
    """
    found = np.zeros((logs.shape[0], logs.shape[2]))
    _mix(logs, shifts, np.ascontiguousarray(parts), highest, found)
    return found


@kernel
def _normalise(logs, shifts, posterior, weights, totals, tops):
    K, M = logs.shape
    top = np.empty(BLOCK)
    total = np.empty(BLOCK)
    for first in range(0, M, BLOCK):
        n = min(BLOCK, M - first)
        for i in range(n):
            top[i] = -np.inf
            total[i] = 0.0
        for k in range(K):
            for i in range(n):
                value = np.float64(logs[k, first + i]) + shifts[k]
                top[i] = max(top[i], value)
        for k in range(K):
            for i in range(n):
                value = exp(np.float64(logs[k, first + i]) + shifts[k] - top[i])
                posterior[k, first + i] = value
                total[i] += value
        for i in range(n):
            totals[first + i] = total[i]
            tops[first + i] = top[i]
            total[i] = 1.0 / total[i]
        for k in range(K):
            for i in range(n):
                value = posterior[k, first + i] * total[i]
                posterior[k, first + i] = value
                weights[k, first + i] = np.float32(value) if value >= FAINT else np.float32(0)


@kernel
def _mix(logs, shifts, posterior, highest, out):
    S, K, M = logs.shape
    for s in range(S):
        for k in range(K):
            for m in range(M):
                value = np.float64(logs[s, k, m]) + shifts[s, k]
                out[s, m] += posterior[k, m] * exp(min(value, highest))
