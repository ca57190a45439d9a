"""Exponentials that LLVM turns into vector instructions, and what is made of them.

Numba calls a library for `exp`, one number at a time. This is a polynomial, after powers of two are
split off; it is off by a few units in the last place.
"""

# ruff: noqa: ARG001  (the arguments of an intrinsic are types; the values come to its codegen)
from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hopfed.kernels.cpu.compiled import inlined, kernel

PER_LN2 = 1 / np.log(2)
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # parts of log 2
ROUND = 1.5 * 2.0**52  # added to a number, it leaves the nearest integer in the lowest bits
ONE = np.uint64(0x3FF0000000000000)  # bits of 1
SHIFT = np.uint64(52)
LEAST = -700.0  # argument of exp below which it is taken for this
FAINT = 1e-18  # of products of two smaller weights a processor takes many times as long: denormal
BLOCK = 64  # rows whose numbers stay in registers and the nearest cache


@intrinsic
def bits_of(_typing, x):
    """Return the bits of a float64."""

    def codegen(_context, builder, _signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.uint64(types.float64), codegen


@intrinsic
def from_bits(_typing, bits):
    """Return the float64 of these bits."""

    def codegen(_context, builder, _signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.uint64), codegen


@intrinsic
def step(_typing, p, x, c):
    """Return p x + c, of a polynomial."""

    def codegen(_context, builder, _signature, args):
        real = ir.DoubleType()
        kind = ir.FunctionType(real, [real] * 3)
        return builder.call(
            cgutils.get_or_insert_function(builder.module, kind, "llvm.fmuladd.f64"), args
        )

    return types.float64(types.float64, types.float64, types.float64), codegen


@inlined
def exp(x):
    """Exponential of a number up to 700."""
    x = max(x, LEAST)
    whole = step(x, PER_LN2, ROUND)
    n = whole - ROUND
    r = step(n, -LN2_LOW, step(n, -LN2_HIGH, x))
    p = 1 / 6227020800.0
    p = step(p, r, 1 / 479001600.0)
    p = step(p, r, 1 / 39916800.0)
    p = step(p, r, 1 / 3628800.0)
    p = step(p, r, 1 / 362880.0)
    p = step(p, r, 1 / 40320.0)
    p = step(p, r, 1 / 5040.0)
    p = step(p, r, 1 / 720.0)
    p = step(p, r, 1 / 120.0)
    p = step(p, r, 1 / 24.0)
    p = step(p, r, 1 / 6.0)
    p = step(p, r, 0.5)
    p = step(p, r, 1.0)
    p = step(p, r, 1.0)
    return p * from_bits((bits_of(whole) << SHIFT) + ONE)


@kernel
def normalise(logs, shifts, posterior, weights, totals, tops):
    """Responsibilities (K, M) from logs[k, m] + shifts[k], sums and greatest logs of rows (M,).

    weights : (K, M) float32, the same in single precision; 0 below FAINT.
    """
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
def mix(logs, shifts, posterior, highest, out):
    """out[s, m] = sum_k posterior[k, m] exp(min(logs[s, k, m] + shifts[s, k], highest))."""
    S, K, M = logs.shape
    for s in range(S):
        for m in range(M):
            out[s, m] = 0.0
        for k in range(K):
            for m in range(M):
                value = np.float64(logs[s, k, m]) + shifts[s, k]
                out[s, m] += posterior[k, m] * exp(min(value, highest))
