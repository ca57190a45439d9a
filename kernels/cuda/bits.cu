// Packing of +-1 into 64-bit words and back, transposes, column sums and row counts of packed bits.
#include "common.cu"

#define SPREAD 4                 // pieces of 16 bytes of a thread, a block of threads apart
#define EVERY 0x01010101u         // the lowest bit of each byte

// Sixteen entries of a row, of which `left` exist; 1 instead of the others.
__device__ __forceinline__ void read_entries(const i8* from, i64 left, u32 x[4]) {
    u32 off = reinterpret_cast<u64>(from) % 4, by = 8 * off;
    const u32* words = reinterpret_cast<const u32*>(from - off);
    if (left < 16) {
#pragma unroll
        for (int k = 0; k < 16; ++k)
            x[k / 4] = (k % 4 ? x[k / 4] : EVERY) ^ (k < left ? (u8)from[k] ^ 1 : 0) << (8 * (k % 4));
    } else
#pragma unroll
        for (int k = 0; k < 4; ++k)
            x[k] = by ? words[k] >> by | words[k + 1] << (32 - by) : words[k];
}

// Sixteen bits from the lowest bits of bytes; a product moves bits 8 k and 8 k + 4 to 24 + k, 28 + k.
__device__ __forceinline__ u32 gather(const u32 x[4]) {
    u32 low = (x[0] | x[1] << 4) * 0x01020408u, high = (x[2] | x[3] << 4) * 0x01020408u;
    return low >> 24 | high >> 24 << 8;
}

// A thread makes 16 bits of each plane (m, n_words) from 16 entries of x (m, n), SPREAD times: -1, 0,
// 1, or -128 if missing. *found collects flags, 1: a zero occurs, 2: a -1, 4: another value, 8: a
// missing entry. Bit 1 of `signs` means +1; bit 1 of `seen`, written if `gaps`, means an observed
// entry, which a zero is if `zeros_count`. Each row has `pieces` blocks of threads.
extern "C" __global__ void pack_rows(
    const i8* x, i64 n, u32 pieces, int gaps, int zeros_count, u64* signs, u64* seen, u32* found) {
    i64 row = blockIdx.x / pieces;
    u32 items = (u32)((n + 63) / 64 * 4), zero = 0, minus = 0, other = 0, missing = 0;
    u32 first = blockIdx.x % pieces * SPREAD * blockDim.x + threadIdx.x, entries[SPREAD][4];
    x += row * n;
#pragma unroll
    for (int i = 0; i < SPREAD; ++i) {  // all are under way before the first is used
        i64 at = 16ll * (first + i * blockDim.x);
        if (at < 16ll * items) read_entries(x + at, n - at, entries[i]);
    }
#pragma unroll
    for (int i = 0; i < SPREAD; ++i) {
        u32 item = first + i * blockDim.x, up[4], kept[4];
        if (item >= items) break;
        i64 left = n - 16ll * item, to = row * items + item;
        u32 there = left >= 16 ? 0xffff : left > 0 ? (1u << left) - 1 : 0;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            u32 w = entries[i][k], negative = w >> 7, down = w & negative & EVERY;
            zero |= ~(w | negative);
            minus |= down;
            missing |= ~w & negative;
            other |= w ^ (255 * down | (w & 0x81818181u));
            up[k] = w & ~negative & EVERY;
            kept[k] = (zeros_count ? w | ~negative : w) & EVERY;
        }
        reinterpret_cast<u16*>(signs)[to] = (u16)(gather(up) & there);
        if (gaps) reinterpret_cast<u16*>(seen)[to] = (u16)(gather(kept) & there);
    }
    u32 occurs = (__ballot_sync(FULL, zero & EVERY) ? 1 : 0) | (__ballot_sync(FULL, minus) ? 2 : 0) |
                 (__ballot_sync(FULL, other) ? 4 : 0) |
                 (__ballot_sync(FULL, missing & EVERY) ? 8 : 0);
    if (threadIdx.x % 32 == 0 && occurs & ~*found) atomicOr(found, occurs);
}

// Four bytes, or the upper half of eight, of entries of U from the lowest bits of `up` and `there`:
// int8, float32 or float64.
template <class U>
__device__ __forceinline__ u32 numbers(u32 up, u32 there) {
    const int size = sizeof(U);
    const u32 bits = size == 1 ? 0xf : 1, lowest = size == 1 ? EVERY : 1;
    const u32 moves = size == 1 ? 0x00204081 : 1;  // bit j to entry j
    const u32 minus = size == 1 ? 0xff : size == 4 ? 0xbf800000 : 0xbff00000;
    const u32 turns = size == 1 ? 0xfe : 0x80000000;  // -1 to +1
    u32 exist = (there & bits) * moves & lowest, plus = (up & bits) * moves & exist;
    return exist * minus ^ plus * turns;
}

// out (rows, width) = entries 0..width-1 of packed rows `stride` words apart; 0 from column n on, and
// if `gaps` where the bit of `seen` is 0. Each row has `pieces` blocks of threads.
template <class U>
__device__ void unpack(
    const u64* signs, const u64* seen, int gaps, i64 stride, u32 pieces, i64 n, i64 width, U* out) {
    const int each = 16 / sizeof(U);  // entries of a thread, all of one word
    i64 row = blockIdx.x / pieces;
    i64 first = ((i64)(blockIdx.x % pieces) * SPREAD * blockDim.x + threadIdx.x) * each;
    const u32* ups = reinterpret_cast<const u32*>(signs + row * stride);
    const u32* seens = reinterpret_cast<const u32*>(seen + row * stride);
    u32 all = gaps ? 0 : ~0u;
    out += row * width;
    bool whole = width % each == 0 && reinterpret_cast<u64>(out) % 16 == 0;
#pragma unroll
    for (int i = 0; i < SPREAD; ++i, first += (i64)blockDim.x * each) {
        if (first >= width) return;
        i64 left = n - first;
        u32 by = first % 32, up = 0, there = 0;
        if (left > 0) {
            up = ups[first / 32] >> by;
            there = (seens[first / 32] >> by | all) & (left >= each ? ~0u : (1u << left) - 1);
        }
        u32 made[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            int bit = k * 4 / sizeof(U);
            made[k] = sizeof(U) == 8 && k % 2 == 0 ? 0 : numbers<U>(up >> bit, there >> bit);
        }
        if (whole) {  // of plain pairs of u64 the compiler makes two writes
            __stcg(reinterpret_cast<uint4*>(out + first), {made[0], made[1], made[2], made[3]});
            continue;
        }
#pragma unroll
        for (int k = 0; k < each; ++k) {
            int at = k * 4 / each;
            u64 two = sizeof(U) == 8 ? made[at] | (u64)made[at + 1] << 32 : made[at];
            if (k < width - first) out[first + k] = (U)(two >> (8 * sizeof(U) * k % 32));
        }
    }
}

extern "C" __global__ void unpack_rows(
    const u64* signs, const u64* seen, int gaps, i64 stride, u32 pieces, i64 n, i64 width, int size,
    u8* out) {
    if (size == 1) unpack(signs, seen, gaps, stride, pieces, n, width, out);
    if (size == 4) unpack(signs, seen, gaps, stride, pieces, n, width, reinterpret_cast<u32*>(out));
    if (size == 8) unpack(signs, seen, gaps, stride, pieces, n, width, reinterpret_cast<u64*>(out));
}

// Transposes take tiles of 256 rows of 4 words: a thread reads 32 bytes of its
// row, a whole sector, and a warp turns its 32 rows, 32 columns at a time, by shuffles.
#define TILE 4                     // words of a row in a tile, and of a row of the transpose
#define PITCH (2 * TILE + 1)       // 32-bit words between turned columns, so that banks differ

// Move bit j of lane i to bit i of lane j; each step swaps halves of blocks.
__device__ __forceinline__ u32 turn(u32 x) {
    int lane = threadIdx.x % 32;
    u32 mask = 0x0000ffff;
#pragma unroll
    for (int step = 16; step; step /= 2, mask ^= mask << step) {
        // A lane keeps the columns on its own side of the diagonal, and takes the others, rotated,
        // from the lane a step away. There is no branch, since half of the lanes would take it.
        u32 keep = lane & step ? ~mask : mask, by = lane & step ? 32 - step : step;
        u32 other = (u32)__shfl_sync(FULL, (int)x, lane ^ step);
        x = (x & keep) | ((other << by | other >> (32 - by)) & ~keep);
    }
    return x;
}

// Copy up to TILE words, in pairs if all rows start at multiples of 16 bytes.
__device__ __forceinline__ void copy_words(u64* to, const u64* from, i64 count, bool paired) {
#pragma unroll
    for (int k = 0; k < TILE; k += 2) {
        if (k < count && paired)
            *reinterpret_cast<Two*>(to + k) = *reinterpret_cast<const Two*>(from + k);
        if (k < count && !paired) to[k] = from[k];
        if (k + 1 < count && !paired) to[k + 1] = from[k + 1];
    }
}

// out (n, ceil(m / 64)) from words (m, n_words); a block of 256 threads for each tile.
extern "C" __global__ void __launch_bounds__(256) transpose_bits(
    const u64* words, i64 m, i64 n, u64* out) {
    __shared__ u32 turned[64 * TILE][PITCH];
    i64 n_words = (n + 63) / 64, m_words = (m + 63) / 64, across = (n_words + TILE - 1) / TILE;
    i64 down = blockIdx.x / across * TILE, first = blockIdx.x % across * TILE;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    i64 row = down * 64 + threadIdx.x, column = first * 64 + threadIdx.x;
    __align__(16) u64 mine[TILE] = {};
    bool paired = n_words % 2 == 0 && reinterpret_cast<u64>(words) % 16 == 0;
    copy_words(mine, words + row * n_words + first, row < m ? n_words - first : 0, paired);
#pragma unroll
    for (int k = 0; k < 2 * TILE; ++k)
        turned[32 * k + lane][warp] = turn((u32)(mine[k / 2] >> (32 * (k % 2))));
    __syncthreads();
    if (column >= n) return;
#pragma unroll
    for (int k = 0; k < TILE; ++k)
        mine[k] = turned[threadIdx.x][2 * k] | (u64)turned[threadIdx.x][2 * k + 1] << 32;
    paired = m_words % 2 == 0 && reinterpret_cast<u64>(out) % 16 == 0;
    copy_words(out + column * m_words + down, mine, m_words - down, paired);
}

// counts[row] = set bits of a packed row; one warp a row.
extern "C" __global__ void count_rows(const u64* words, i64 m, i64 n_words, int* counts) {
    i64 row = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (row >= m) return;  // the whole warp
    int count = 0;
    for (i64 k = lane; k < n_words; k += 32) count += __popcll(words[row * n_words + k]);
    for (int step = 16; step; step /= 2) count += __shfl_sync(FULL, count, (lane + step) % 32);
    if (lane == 0) counts[row] = count;
}

EXPORT(pack_rows)
EXPORT(unpack_rows)
EXPORT(transpose_bits)
EXPORT(count_rows)
