// Packing of +-1 into 64-bit words and back, transposes, column sums and row counts of packed bits.
#include "common.cu"

// One warp makes one word of `words` (m, n_words) from 64 entries of x (m, n).
// *seen collects 1: a zero occurs, 2: a -1 occurs, 4: something else does.
extern "C" __global__ void pack_rows(const i8* x, i64 m, i64 n, u64* words, u32* seen) {
    i64 n_words = (n + 63) / 64;
    i64 id = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (id >= m * n_words) return;  // the whole warp
    i64 row = id / n_words, first = id % n_words * 64;
    u32 half[2], found = 0;
    for (int part = 0; part < 2; ++part) {
        i64 j = first + 32 * part + lane;
        int value = j < n ? x[row * n + j] : 3;
        half[part] = __ballot_sync(FULL, value == 1);
        found |= __ballot_sync(FULL, value == 0) ? 1 : 0;
        found |= __ballot_sync(FULL, value == -1) ? 2 : 0;
        found |= __ballot_sync(FULL, value != 0 && value != 1 && value != -1 && j < n) ? 4 : 0;
    }
    if (lane == 0) {
        words[id] = half[0] | (u64)half[1] << 32;
        if (found & ~*seen) atomicOr(seen, found);
    }
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
