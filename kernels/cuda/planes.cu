// Two planes of bits: packing of entries some of which are missing, and back, and Gram matrices.
//
// Bit 1 of `signs` means +1, bit 1 of `seen` that there is an entry; elsewhere both are 0.
#include "common.cu"

#define MISSING -128
#define TILE 64     // rows of a and of b in a block of gram_planes
#define DEPTH 8     // words staged at a time, of both planes

// One warp makes one word of each plane (m, n_words) from 64 entries of x (m, n): -1, 0, 1, MISSING.
// *found collects 1: a zero occurs, 2: a -1 occurs, 4: another value, 8: a missing one.
extern "C" __global__ void pack_planes(
    const i8* x, i64 m, i64 n, int zeros_count, u64* signs, u64* seen, u32* found) {
    i64 n_words = (n + 63) / 64;
    i64 id = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (id >= m * n_words) return;  // the whole warp
    i64 row = id / n_words, first = id % n_words * 64;
    u32 up[2], there[2], occurs = 0;
    for (int part = 0; part < 2; ++part) {
        i64 j = first + 32 * part + lane;
        int value = j < n ? x[row * n + j] : 3;
        u32 zero = __ballot_sync(FULL, value == 0), minus = __ballot_sync(FULL, value == -1);
        up[part] = __ballot_sync(FULL, value == 1);
        there[part] = up[part] | minus | (zeros_count ? zero : 0);
        bool other = value != 0 && value != 1 && value != -1 && value != MISSING && j < n;
        occurs |= (zero ? 1 : 0) | (minus ? 2 : 0);
        occurs |= __ballot_sync(FULL, other) ? 4 : 0;
        occurs |= __ballot_sync(FULL, value == MISSING) ? 8 : 0;
    }
    if (lane == 0) {
        signs[id] = up[0] | (u64)up[1] << 32;
        seen[id] = there[0] | (u64)there[1] << 32;
        if (occurs & ~*found) atomicOr(found, occurs);
    }
}

// As `unpack` of bits.cu: 0 where there is no entry.
template <class U>
__device__ void unpack(
    const u64* signs, const u64* seen, i64 stride, u32 pieces, i64 n, i64 width, U* out) {
    const int each = 8 / sizeof(U);
    i64 row = blockIdx.x / pieces;
    i64 first = ((i64)(blockIdx.x % pieces) * SPREAD * blockDim.x + threadIdx.x) * each;
    signs += row * stride;
    seen += row * stride;
    out += row * width;
#pragma unroll
    for (int i = 0; i < SPREAD; ++i, first += (i64)blockDim.x * each) {
        if (first >= width) return;
        u64 up = first < n ? signs[first / 64] >> (first % 64) : 0;
        u64 there = first < n ? seen[first / 64] >> (first % 64) : 0;
        if (first < n && n - first < each) there &= (1ull << (n - first)) - 1;
        spread(up, there, width - first, width % each == 0, out + first);
    }
}

extern "C" __global__ void unpack_planes_int8(
    const u64* signs, const u64* seen, i64 stride, u32 pieces, i64 n, i64 width, i8* out) {
    unpack(signs, seen, stride, pieces, n, width, reinterpret_cast<u8*>(out));
}
extern "C" __global__ void unpack_planes_bf16(
    const u64* signs, const u64* seen, i64 stride, u32 pieces, i64 n, i64 width, u16* out) {
    unpack(signs, seen, stride, pieces, n, width, out);
}
extern "C" __global__ void unpack_planes_float32(
    const u64* signs, const u64* seen, i64 stride, u32 pieces, i64 n, i64 width, float* out) {
    unpack(signs, seen, stride, pieces, n, width, reinterpret_cast<u32*>(out));
}
extern "C" __global__ void unpack_planes_float64(
    const u64* signs, const u64* seen, i64 stride, u32 pieces, i64 n, i64 width, double* out) {
    unpack(signs, seen, stride, pieces, n, width, reinterpret_cast<u64*>(out));
}

// out (ma, mb) += a b^T, as `gram_popcount` of gram.cu: signs that agree less signs that differ,
// where both rows have an entry; `cpu/plane_moments.py` says how they are counted.
extern "C" __global__ void __launch_bounds__(256) gram_planes(
    const u64* a, const u64* a_seen, i64 ma, const u64* b, const u64* b_seen, i64 mb, i64 n_words,
    int* out, int symmetric) {
    __shared__ u64 left[2][DEPTH][TILE + 1], right[2][DEPTH][TILE + 1];
    i64 row = (i64)blockIdx.y * TILE, column = (i64)blockIdx.x * TILE;
    if (symmetric && column > row) return;
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    int total[4][4] = {};
    for (i64 start = 0; start < n_words; start += DEPTH) {
        for (int id = threadIdx.x; id < TILE * DEPTH; id += 256) {
            int r = id / DEPTH, k = id % DEPTH;
            bool of_a = start + k < n_words && row + r < ma;
            bool of_b = start + k < n_words && column + r < mb;
            i64 at_a = (row + r) * n_words + start + k, at_b = (column + r) * n_words + start + k;
            left[0][k][r] = of_a ? a[at_a] : 0;
            left[1][k][r] = of_a ? ~a_seen[at_a] : ~0ull;
            right[0][k][r] = of_b ? b[at_b] : 0;
            right[1][k][r] = of_b ? ~b_seen[at_b] : ~0ull;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            u64 y[2][4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                y[0][j] = right[0][k][tx + 16 * j];
                y[1][j] = right[1][k][tx + 16 * j];
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                u64 sign = left[0][k][ty + 16 * i], hidden = left[1][k][ty + 16 * i];
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    u64 differ = sign ^ y[0][j];
                    total[i][j] += __popcll(~(differ ^ (hidden | y[1][j]))) - __popcll(differ);
                }
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            i64 u = row + ty + 16 * i, v = column + tx + 16 * j;
            if (u >= ma || v >= mb || (symmetric && v > u)) continue;
            out[u * mb + v] += total[i][j];
            if (symmetric && v < u) out[v * mb + u] += total[i][j];
        }
}

EXPORT(pack_planes)
EXPORT(unpack_planes_int8)
EXPORT(unpack_planes_bf16)
EXPORT(unpack_planes_float32)
EXPORT(unpack_planes_float64)
EXPORT(gram_planes)
