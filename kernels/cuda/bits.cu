// Packing of +-1 into 64-bit words and back, transposes, column sums and row counts of packed bits.
#include "common.cu"

// 0x80 in each byte of x that is 0, 0 in the others.
BOTH u64 zero_bytes(u64 x) {
    const u64 low = 0x7f7f7f7f7f7f7f7full;
    return ~(((x & low) + low) | x | low);
}

// A thread makes one byte of each plane (m, n_words) from 8 entries of x (m, n), read together if
// rows start at multiples of 8: -1, 0, 1, or -128 if missing. *found collects flags, 1: a zero
// occurs, 2: a -1, 4: another value, 8: a missing entry. Bit 1 of `signs` means +1; bit 1 of
// `seen`, written if `gaps`, means an observed entry, which a zero is if `zeros_count`.
extern "C" __global__ void pack_rows(
    const i8* x, i64 m, i64 n, int gaps, int zeros_count, u64* signs, u64* seen, u32* found) {
    i64 bytes = (n + 63) / 64 * 8, id = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    bool zero = false, minus = false, other = false, missing = false;
    if (id < m * bytes) {
        i64 row = id / bytes, first = id % bytes * 8, left = n - first;
        const i8* from = x + row * n + first;
        u64 there = left >= 8 ? ~0ull : left > 0 ? (1ull << (8 * left)) - 1 : 0, eight = 0;
        if (n % 8 == 0 && reinterpret_cast<u64>(x) % 8 == 0) {
            if (left > 0) eight = *reinterpret_cast<const u64*>(from);
        } else
            for (int k = 0; k < 8 && k < left; ++k) eight |= (u64)(u8)from[k] << (8 * k);
        const u64 every = 0x0101010101010101ull;
        u64 ones = zero_bytes(eight ^ every) & there;
        u64 none = zero_bytes(eight) & there, down = zero_bytes(~eight) & there;
        u64 gone = zero_bytes(eight ^ (every << 7)) & there;
        zero = none != 0;
        minus = down != 0;
        missing = gone != 0;
        other = (ones | none | down | gone) != (there & (every << 7));
        // Bit 8 k of the first factor moves to bit 56 + k.
        const u64 gather = 0x0102040810204080ull;
        reinterpret_cast<u8*>(signs)[id] = (u8)((ones >> 7) * gather >> 56);
        if (gaps) {
            u64 kept = ones | down | (zeros_count ? none : 0);
            reinterpret_cast<u8*>(seen)[id] = (u8)((kept >> 7) * gather >> 56);
        }
    }
    u32 occurs = (__ballot_sync(FULL, zero) ? 1 : 0) | (__ballot_sync(FULL, minus) ? 2 : 0) |
                 (__ballot_sync(FULL, other) ? 4 : 0) | (__ballot_sync(FULL, missing) ? 8 : 0);
    if (threadIdx.x % 32 == 0 && occurs & ~*found) atomicOr(found, occurs);
}

// out (rows, width) = entries 0..width-1 of packed rows `stride` words apart; 0 from column n on, and
// if `gaps` where the bit of `seen` is 0. Each row has `pieces` blocks of threads.
template <class U>
__device__ void unpack(
    const u64* signs, const u64* seen, int gaps, i64 stride, u32 pieces, i64 n, i64 width, U* out) {
    const int each = 8 / sizeof(U);  // entries of a thread, all of one word
    i64 row = blockIdx.x / pieces;
    i64 first = ((i64)(blockIdx.x % pieces) * SPREAD * blockDim.x + threadIdx.x) * each;
    signs += row * stride;
    if (gaps) seen += row * stride;
    out += row * width;
#pragma unroll
    for (int i = 0; i < SPREAD; ++i, first += (i64)blockDim.x * each) {
        if (first >= width) return;
        u64 up = first < n ? signs[first / 64] >> (first % 64) : 0;
        u64 there = n - first >= each ? ~0ull : first < n ? (1ull << (n - first)) - 1 : 0;
        if (gaps && first < n) there &= seen[first / 64] >> (first % 64);
        spread(up, there, width - first, width % each == 0, out + first);
    }
}

extern "C" __global__ void unpack_int8(
    const u64* signs, const u64* seen, int gaps, i64 stride, u32 pieces, i64 n, i64 width, i8* out) {
    unpack(signs, seen, gaps, stride, pieces, n, width, reinterpret_cast<u8*>(out));
}
extern "C" __global__ void unpack_bf16(
    const u64* signs, const u64* seen, int gaps, i64 stride, u32 pieces, i64 n, i64 width, u16* out) {
    unpack(signs, seen, gaps, stride, pieces, n, width, out);
}
extern "C" __global__ void unpack_float32(
    const u64* signs, const u64* seen, int gaps, i64 stride, u32 pieces, i64 n, i64 width, float* out) {
    unpack(signs, seen, gaps, stride, pieces, n, width, reinterpret_cast<u32*>(out));
}
extern "C" __global__ void unpack_float64(
    const u64* signs, const u64* seen, int gaps, i64 stride, u32 pieces, i64 n, i64 width, double* out) {
    unpack(signs, seen, gaps, stride, pieces, n, width, reinterpret_cast<u64*>(out));
}

// Terms (n, width), 0 before: three of bfloat16 side by side whose sum is x (n, k), ties to even.
extern "C" __global__ void split_terms(const float* x, i64 n, i64 k, i64 width, u16* terms) {
    i64 id = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= n * k) return;
    union { float number; u32 bits; } left = {x[id]}, term;
    for (int i = 0; i < 3; ++i) {
        term.bits = (left.bits + 0x7fff + (left.bits >> 16 & 1)) & 0xffff0000;
        terms[id / k * width + i * k + id % k] = (u16)(term.bits >> 16);
        left.number -= term.number;
    }
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

// Whether rows of n_words start at multiples of 16 bytes.
__device__ __forceinline__ bool in_pairs(const u64* words, i64 n_words) {
    return n_words % 2 == 0 && reinterpret_cast<u64>(words) % 16 == 0;
}

// out (n, ceil(m / 64)) from words (m, n_words); a block of 256 threads for each tile.
extern "C" __global__ void __launch_bounds__(256) transpose_bits(
    const u64* words, i64 m, i64 n, u64* out) {
    __shared__ u32 turned[64 * TILE][PITCH];
    i64 n_words = (n + 63) / 64, m_words = (m + 63) / 64, across = (n_words + TILE - 1) / TILE;
    i64 down = blockIdx.x / across * TILE, first = blockIdx.x % across * TILE;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    i64 row = down * 64 + threadIdx.x, column = first * 64 + threadIdx.x;
    const u64* from_row = words + row * n_words;
    u64 mine[TILE] = {};
    bool paired = in_pairs(words, n_words);
#pragma unroll
    for (int k = 0; k < TILE; k += 2) {  // in pairs if rows start at multiples of 16 bytes
        if (row >= m || first + k >= n_words) continue;
        if (paired) {
            Two two = *reinterpret_cast<const Two*>(from_row + first + k);
            mine[k] = two.x[0];
            mine[k + 1] = two.x[1];
        } else {
            mine[k] = from_row[first + k];
            if (first + k + 1 < n_words) mine[k + 1] = from_row[first + k + 1];
        }
    }
#pragma unroll
    for (int k = 0; k < 2 * TILE; ++k)
        turned[32 * k + lane][warp] = turn((u32)(mine[k / 2] >> (32 * (k % 2))));
    __syncthreads();
    if (column >= n) return;
    u64* to = out + column * m_words + down;
    bool wide = in_pairs(out, m_words);
#pragma unroll
    for (int k = 0; k < TILE; k += 2) {
        const u32* from = &turned[threadIdx.x][2 * k];
        Two two = {{from[0] | (u64)from[1] << 32, from[2] | (u64)from[3] << 32}};
        if (wide) {
            if (down + k < m_words) *reinterpret_cast<Two*>(to + k) = two;
        } else {
            if (down + k < m_words) to[k] = two.x[0];
            if (down + k + 1 < m_words) to[k + 1] = two.x[1];
        }
    }
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
EXPORT(unpack_int8)
EXPORT(unpack_bf16)
EXPORT(unpack_float32)
EXPORT(unpack_float64)
EXPORT(split_terms)
EXPORT(transpose_bits)
EXPORT(count_rows)
