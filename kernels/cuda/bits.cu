// Packing of +-1 into 64-bit words and back, transposes, column sums and row counts of packed bits.
#include "common.cu"

// 0x80 in each byte of x that is 0, 0 in the others.
BOTH u64 zero_bytes(u64 x) {
    const u64 low = 0x7f7f7f7f7f7f7f7full;
    return ~(((x & low) + low) | x | low);
}

// A thread makes one byte of `words` (m, n_words) from 8 entries of x (m, n), read at once where
// rows start at multiples of 8. *seen collects 1: a zero occurs, 2: a -1 occurs, 4: something else.
extern "C" __global__ void pack_rows(const i8* x, i64 m, i64 n, u64* words, u32* seen) {
    i64 bytes = (n + 63) / 64 * 8, id = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    bool zero = false, minus = false, other = false;
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
        zero = none != 0;
        minus = down != 0;
        other = (ones | none | down) != (there & (every << 7));
        // Bit 8 k of the first factor comes to bit 56 + k.
        reinterpret_cast<u8*>(words)[id] = (u8)((ones >> 7) * 0x0102040810204080ull >> 56);
    }
    u32 found = (__ballot_sync(FULL, zero) ? 1 : 0) | (__ballot_sync(FULL, minus) ? 2 : 0) |
                (__ballot_sync(FULL, other) ? 4 : 0);
    if (threadIdx.x % 32 == 0 && found & ~*seen) atomicOr(seen, found);
}

// out (rows, width) = entries 0..width-1 of packed rows `stride` words apart; 0 from column n on.
// `pieces` blocks of threads for each row.
template <class U>
__device__ void unpack(const u64* words, i64 stride, u32 pieces, i64 n, i64 width, U* out) {
    const int each = 8 / sizeof(U);  // entries of a thread, all of one word
    i64 row = blockIdx.x / pieces;
    i64 first = ((i64)(blockIdx.x % pieces) * SPREAD * blockDim.x + threadIdx.x) * each;
    words += row * stride;
    out += row * width;
#pragma unroll
    for (int i = 0; i < SPREAD; ++i, first += (i64)blockDim.x * each) {
        if (first >= width) return;
        u64 up = first < n ? words[first / 64] >> (first % 64) : 0;
        u64 there = n - first >= each ? ~0ull : first < n ? (1ull << (n - first)) - 1 : 0;
        spread(up, there, width - first, width % each == 0, out + first);
    }
}

extern "C" __global__ void unpack_int8(
    const u64* words, i64 stride, u32 pieces, i64 n, i64 width, i8* out) {
    unpack(words, stride, pieces, n, width, reinterpret_cast<u8*>(out));
}
extern "C" __global__ void unpack_bf16(
    const u64* words, i64 stride, u32 pieces, i64 n, i64 width, u16* out) {
    unpack(words, stride, pieces, n, width, out);
}
extern "C" __global__ void unpack_float32(
    const u64* words, i64 stride, u32 pieces, i64 n, i64 width, float* out) {
    unpack(words, stride, pieces, n, width, reinterpret_cast<u32*>(out));
}
extern "C" __global__ void unpack_float64(
    const u64* words, i64 stride, u32 pieces, i64 n, i64 width, double* out) {
    unpack(words, stride, pieces, n, width, reinterpret_cast<u64*>(out));
}

// One warp turns a block of 64 x 64 bits: out (n, ceil(m / 64)) from words (m, n_words).
extern "C" __global__ void transpose_bits(const u64* words, i64 m, i64 n, u64* out) {
    i64 n_words = (n + 63) / 64, m_words = (m + 63) / 64;
    i64 id = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (id >= m_words * n_words) return;  // the whole warp
    i64 row = id / n_words * 64 + lane, column = id % n_words;
    u64 low = row < m ? words[row * n_words + column] : 0;
    u64 high = row + 32 < m ? words[(row + 32) * n_words + column] : 0;
    u64 mine[2] = {0, 0};
#pragma unroll
    for (int part = 0; part < 2; ++part)
        for (int j = 0; j < 32; ++j) {
            u32 a = __ballot_sync(FULL, (low >> (32 * part + j)) & 1);
            u32 b = __ballot_sync(FULL, (high >> (32 * part + j)) & 1);
            if (lane == j) mine[part] = a | (u64)b << 32;
        }
#pragma unroll
    for (int part = 0; part < 2; ++part) {
        i64 j = column * 64 + 32 * part + lane;
        if (j < n) out[j * m_words + id / n_words] = mine[part];
    }
}

// counts[j] += set bits of column j among the rows of this block of threads (256: 4 rows by 64).
extern "C" __global__ void count_columns(const u64* words, i64 m, i64 n, i64 rows, u64* counts) {
    i64 n_words = (n + 63) / 64, word = blockIdx.x, first = blockIdx.y * rows;
    i64 last = first + rows < m ? first + rows : m, j = word * 64 + threadIdx.x % 64;
    u64 count = 0;
    for (i64 row = first + threadIdx.x / 64; row < last; row += blockDim.x / 64)
        count += (words[row * n_words + word] >> (threadIdx.x % 64)) & 1;
    if (j < n && count) atomicAdd(&counts[j], count);
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
EXPORT(transpose_bits)
EXPORT(count_columns)
EXPORT(count_rows)
