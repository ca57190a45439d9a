// Thin products of packed rows with float32 matrices by the matrix instruction for bfloat16.
//
// A number is a sum of three terms of bfloat16, so products with +-1 and 0 are exact. The instruction
// rounds sums toward 0, so it adds up no more than COLUMNS numbers; float32 adds up the rest.
#include "common.cu"

#define ROWS 128     // rows of a block, 32 of each warp
#define GROUPS 3     // groups of 8 columns of the result
#define COLUMNS 128  // columns of the rows in a step: for each of 4 lanes a word of 32 bits
#define PITCH 160    // terms between staged columns of the result, without bank conflicts
#define TERMS 3      // terms of a number

// terms (TERMS, k, n'), 0 before, from x (n, k), ties to even, n' a multiple of COLUMNS. In 128
// columns entry 4 q + i (+ 16) of lane t is at 32 q + 8 t + 2 i (+ 1): what lanes read together.
extern "C" __global__ void split_terms(const float* x, i64 n, i64 k, i64 padded, u16* terms) {
    i64 id = (i64)blockIdx.x * blockDim.x + threadIdx.x, row = id % n, column = id / n;
    if (column >= k) return;
    i64 at = row / 128 * 128 + row % 16 / 4 * 32 + row % 128 / 32 * 8 + row % 4 * 2 + row % 32 / 16;
    union { float number; u32 bits; } left = {x[row * k + column]}, term;
    for (int i = 0; i < TERMS; ++i) {
        term.bits = (left.bits + 0x7fff + (left.bits >> 16 & 1)) & 0xffff0000;
        terms[(i * k + column) * padded + at] = (u16)(term.bits >> 16);
        left.number -= term.number;
    }
}

// out (parts, m, k) = products of packed rows, n_words apart, with `terms`, each part of `steps` times
// COLUMNS columns; if `gaps`, entries are 0 where the bit of `seen` is 0. 128 threads.
extern "C" __global__ void __launch_bounds__(128) thin_product(
    const u64* signs, const u64* seen, int gaps, i64 m, i64 n_words, const u16* terms, i64 k,
    i64 padded, i64 steps, float* out) {
    __shared__ __align__(16) u16 staged[2][8 * GROUPS * TERMS][PITCH];
    i64 blocks = (m + ROWS - 1) / ROWS, part = blockIdx.x / blocks, step = part * steps;
    i64 end = step + steps < padded / COLUMNS ? step + steps : padded / COLUMNS;
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    i64 top = blockIdx.x % blocks * ROWS + threadIdx.x / 32 * 32 + g;
    i64 column = (i64)blockIdx.y * 8 * GROUPS;
    u32 ups[4] = {}, theres[4] = {};  // of rows 8 apart
    float sums[GROUPS][2][4] = {};
    auto begin = [&](int turn, i64 start) {
#pragma unroll
        for (int i = 0; i < GROUPS * TERMS; ++i) {
            int row = i * 8 + threadIdx.x / 16, piece = threadIdx.x % 16 * 8;
            i64 source = column + i / TERMS * 8 + row % 8;
            const u16* from = terms + (i % TERMS * k + source) * padded + start * COLUMNS + piece;
            copy_async<16>(staged[turn][row] + piece, from, source < k);
        }
        copies_commit();
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            i64 word = start * 4 + t, at = (top + 8 * i) * 2 * n_words + word;
            bool inside = top + 8 * i < m && word < 2 * n_words;
            ups[i] = inside ? reinterpret_cast<const u32*>(signs)[at] : 0;
            theres[i] = inside && gaps ? reinterpret_cast<const u32*>(seen)[at] : ~0u;
        }
    };
    if (step < end) begin(0, step);
    for (int turn = 0; step < end; ++step, turn ^= 1) {
        copies_wait<0>();
        __syncthreads();  // all threads see these terms and have used the terms before
        u32 x[8][2][4];   // the entries of 8 instructions, in pairs 16 columns apart
#pragma unroll
        for (int j = 0; j < 16; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                u32 there = (theres[i] >> j & 0x00010001) * 0xffff;
                x[j / 2][i / 2][i % 2 + 2 * (j % 2)] =
                    ((ups[i] << (15 - j) & 0x80008000) ^ 0xbf80bf80) & there;
            }
        if (step + 1 < end) begin(turn ^ 1, step + 1);
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            if (column + 8 * group >= k) break;
            float few[2][4] = {};
#pragma unroll
            for (int term = TERMS - 1; term >= 0; --term)  // the smallest first
#pragma unroll
                for (int q = 0; q < 4; ++q) {
                    const u16* from = staged[turn][(group * TERMS + term) * 8 + g] + 32 * q + 8 * t;
                    Two two = *reinterpret_cast<const Two*>(from);
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        u32 y[2] = {(u32)two.x[i], (u32)(two.x[i] >> 32)};
                        mma_bf16(few[0], x[2 * q + i][0], y);
                        mma_bf16(few[1], x[2 * q + i][1], y);
                    }
                }
#pragma unroll
            for (int i = 0; i < 8; ++i) sums[group][i / 4][i % 4] += few[i / 4][i % 4];
        }
    }
#pragma unroll
    for (int group = 0; group < GROUPS; ++group)
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            i64 u = top + i / 2 * 8, v = column + 8 * group + 2 * t + i % 2;
            if (u < m && v < k) out[(part * m + u) * k + v] = sums[group][i / 4][i % 4];
        }
}

EXPORT(split_terms)
EXPORT(thin_product)
