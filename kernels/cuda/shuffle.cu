// Scrambled copies of packed data for the shuffle null.
//
// Draws: key = seed; counter = (word / 2 or draw, row, repeat, 1 for signs or 2 for permutations).
#include "common.cu"

// Flip every entry of words (m, ceil(n / 64)) with probability 1/2, one random bit each.
extern "C" __global__ void flip_signs(u64* words, i64 m, i64 n, u32 k0, u32 k1, u32 repeat) {
    i64 n_words = (n + 63) / 64, id = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= m * n_words) return;
    i64 row = id / n_words, word = id % n_words;
    u32 x[4] = {(u32)(word / 2), (u32)row, repeat, 1};
    philox4x32(x, k0, k1);
    u64 bits = word % 2 ? x[2] | (u64)x[3] << 32 : x[0] | (u64)x[1] << 32;
    if (word == n_words - 1 && n % 64) bits &= (1ull << (n % 64)) - 1;
    words[id] ^= bits;
}

// Permute the bits of each row by Fisher and Yates, one thread a row: only which positions are
// set matters, so a random subset of as many positions is drawn. order (m, n) is scratch.
extern "C" __global__ void permute_rows(
    u64* words, i64 m, i64 n, i64 n_words, u32 first_row, u32* order, u32 k0, u32 k1, u32 repeat) {
    i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m) return;
    u64* mine = words + row * n_words;
    i64 ones = 0;
    for (i64 k = 0; k < n_words; ++k) {
        ones += __popcll(mine[k]);
        mine[k] = 0;
    }
    u32 x[4];
    for (i64 i = 0; i < n; ++i) order[i * m + row] = (u32)i;  // rows side by side: coalesced
    for (i64 i = 0; i < ones; ++i) {
        if (i % 2 == 0) {
            x[0] = (u32)(i / 2);
            x[1] = first_row + (u32)row;
            x[2] = repeat;
            x[3] = 2;
            philox4x32(x, k0, k1);
        }
        u64 draw = i % 2 ? x[2] | (u64)x[3] << 32 : x[0] | (u64)x[1] << 32;
        i64 j = i + (i64)(draw % (u64)(n - i));  // biased by less than n / 2^64
        u32 chosen = order[j * m + row];
        order[j * m + row] = order[i * m + row];
        order[i * m + row] = chosen;
        mine[chosen / 64] |= 1ull << (chosen % 64);
    }
}

EXPORT(flip_signs)
EXPORT(permute_rows)
