// Inner products of all pairs of packed rows of +-1, exact, by the 1-bit matrix instruction.
//
// The instruction is used with AND, available since compute capability 8.0; with
// counts |a|, |b| of set bits, <a, b> = n - 2 |a| - 2 |b| + 4 |a and b|.
#include "common.cu"

#define MMA_A 128  // rows on the left of a block of gram_mma
#define MMA_B 64   // rows on the right
#define PITCH 20   // 32-bit words between staged rows of 16, without bank conflicts

// Start to copy the 8 words from `start` of the rows of a block, left rows first.
template <int BYTES>
__device__ __forceinline__ void stage(
    u32 (*to)[PITCH], const u64* words, i64 m, i64 row, i64 column, i64 n_words, i64 start) {
    const int each = BYTES / 8, pieces = 8 / each;
    for (int id = threadIdx.x; id < (MMA_A + MMA_B) * pieces; id += 256) {
        int r = id / pieces, k = id % pieces * each;
        i64 source = r < MMA_A ? row + r : column + r - MMA_A;
        bool there = start + k < n_words && source < m;
        const u64* from = there ? words + source * n_words + start + k : words;
        copy_async<BYTES>(to[r] + 2 * k, from, there);
    }
}

// out (m, m) = inner products of packed rows of n columns, n_words apart. Blocks that meet the
// lower half compute it and fill the upper half too; 256 threads, 32 x 32 entries per warp. Words are
// read as pairs of 32 bits; `ones` are the counts of set bits of the rows.
extern "C" __global__ void __launch_bounds__(256) gram_mma(
    const u64* words, i64 m, const int* ones, i64 n_words, i64 n, int* out) {
    __shared__ __align__(16) u32 staged[2][MMA_A + MMA_B][PITCH];
    i64 row = (i64)blockIdx.y * MMA_A, column = (i64)blockIdx.x * MMA_B;
    if (column >= row + MMA_A) return;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int top = warp / 2 * 32, side = warp % 2 * 32;
    int both[2][4][4] = {};
    bool wide = n_words % 2 == 0 && reinterpret_cast<u64>(words) % 16 == 0;
    auto begin = [&](int turn, i64 start) {
        if (wide)
            stage<16>(staged[turn], words, m, row, column, n_words, start);
        else
            stage<8>(staged[turn], words, m, row, column, n_words, start);
    };
    begin(0, 0);
    int turn = 0;
    for (i64 start = 0; start < n_words; start += 8, turn ^= 1) {
        copies_wait();
        __syncthreads();  // all threads see these words and have used the words before
        if (start + 8 < n_words) begin(turn ^ 1, start + 8);
        u32(*left)[PITCH] = staged[turn], (*right)[PITCH] = staged[turn] + MMA_A;
#pragma unroll
        for (int k = 0; k < 16; k += 8) {
            u32 x[2][4], y[4][2];
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int part = 0; part < 4; ++part)
                    x[i][part] = left[top + 16 * i + g + 8 * (part % 2)][k + t + 4 * (part / 2)];
#pragma unroll
            for (int j = 0; j < 4; ++j)
#pragma unroll
                for (int part = 0; part < 2; ++part)
                    y[j][part] = right[side + 8 * j + g][k + t + 4 * part];
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) mma_and(both[i][j], x[i], y[j]);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                i64 u = row + top + 16 * i + g + 8 * (part / 2);
                i64 v = column + side + 8 * j + 2 * t + part % 2;
                if (u >= m || v > u) continue;
                i64 value = n - 2ll * ones[u] - 2ll * ones[v] + 4ll * both[i][j][part];
                out[u * m + v] = out[v * m + u] = (int)value;
            }
}

// Copy the lower half of the square matrix out (m, m) onto the upper one.
extern "C" __global__ void mirror(int* out, i64 m) {
    i64 id = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= m * m) return;
    i64 i = id / m, j = id % m;
    if (j > i) out[id] = out[j * m + i];
}

EXPORT(gram_mma)
EXPORT(mirror)
