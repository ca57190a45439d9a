"""Exponentials and logarithms that LLVM turns into vector instructions, and what is made of them.

Numba calls a library for `exp` and `log`, one number at a time. These are a polynomial each, after
powers of two are split off; they are off by a few units in the last place.
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
ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)  # of the root of 1/2
UP = np.uint64(1024 << 52)
WHOLE = np.uint64(0x4330000000000000)  # of 2^52: an integer below in its lowest bits is added
EXPONENT = np.uint64(0xFFF0000000000000)
SHIFT = np.uint64(52)
LEAST = -700.0  # argument of exp below which it is taken for this
HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)
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
def over(_typing, x, y):
    """Return x / y, which is not checked for a y of 0: a branch would keep a loop from vectors."""

    def codegen(_context, builder, _signature, args):
        return builder.fdiv(*args)

    return types.float64(types.float64, types.float64), codegen


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


@inlined
def log(x):
    """Logarithm of a number above 1e-300."""
    shifted = bits_of(x) - ROOT_HALF + UP
    n = from_bits((shifted >> SHIFT) | WHOLE) - (2.0**52 + 1024.0)
    m = from_bits(bits_of(x) - ((shifted & EXPONENT) - UP))
    s = over(m - 1.0, m + 1.0)
    z = s * s
    p = 1 / 21.0
    p = step(p, z, 1 / 19.0)
    p = step(p, z, 1 / 17.0)
    p = step(p, z, 1 / 15.0)
    p = step(p, z, 1 / 13.0)
    p = step(p, z, 1 / 11.0)
    p = step(p, z, 1 / 9.0)
    p = step(p, z, 1 / 7.0)
    p = step(p, z, 1 / 5.0)
    p = step(p, z, 1 / 3.0)
    return n * LN2_HIGH + (n * LN2_LOW + 2.0 * s * (1.0 + z * p))


@inlined
def _rising(x):
    """x (x + 1) .. (x + 5)."""
    return x * (x + 1.0) * (x + 2.0) * (x + 3.0) * (x + 4.0) * (x + 5.0)


@inlined
def _stirling(z, logarithm):
    """Logarithm of Gamma(z) for z of 6 and more, less half of log 2 pi."""
    w = over(1.0, z)
    v = w * w
    p = 1 / 156.0
    p = step(p, v, -691 / 360360.0)
    p = step(p, v, 1 / 1188.0)
    p = step(p, v, -1 / 1680.0)
    p = step(p, v, 1 / 1260.0)
    p = step(p, v, -1 / 360.0)
    p = step(p, v, 1 / 12.0)
    return (z - 0.5) * logarithm - z + p * w


@inlined
def log_beta(a, b):
    """Logarithm of the beta function of numbers above 1e-40 and below 1e15."""
    c = a + b
    x, y, z = a + 6.0, b + 6.0, c + 6.0
    whole = _stirling(x, log(x)) + _stirling(y, log(y)) - _stirling(z, log(z))
    return whole + HALF_LOG_2PI - log(over(_rising(a), _rising(c)) * _rising(b))


@kernel
def log_beta_gains(plus, minus, rates, c, out):
    """Set out[k, j] to log B(a + plus, b + minus) - log B(a, b), with a = c rates, b = c - a."""
    K, N = out.shape
    alone = np.empty(N)
    for j in range(N):
        alone[j] = log_beta(c * rates[j], c * (1.0 - rates[j]))
    for k in range(K):
        for j in range(N):
            a, b = c * rates[j] + plus[k, j], c * (1.0 - rates[j]) + minus[k, j]
            out[k, j] = log_beta(a, b) - alone[j]


@kernel
def log_likelihoods(plus, minus, rates, out):
    """Set out to plus log(rates) + minus log(1 - rates), all of them (K, N)."""
    for k in range(out.shape[0]):
        for j in range(out.shape[1]):
            p = rates[k, j]
            out[k, j] = plus[k, j] * log(p) + minus[k, j] * log(1.0 - p)


@kernel
def add_log_ratios(above, below, parts, least, out):
    """Add to out[j] the logs of (least + above_k parts_j) / (least + below_k parts_j)."""
    for k in range(len(above)):
        for j in range(len(parts)):
            ratio = over(least + above[k] * parts[j], least + below[k] * parts[j])
            out[j] += log(ratio)


@kernel
def normalise(logs, shifts, posterior, weights, totals):
    """Responsibilities (K, M) from logs[k, m] + shifts[k], and the log of the sum of each row (M,).

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
            totals[first + i] = top[i] + log(total[i])
            total[i] = over(1.0, total[i])
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
