// Inner products of all pairs of packed rows of +-1, exact, by the 1-bit matrix instruction.
//
// The instruction is used with AND, available since compute capability 8.0; with
// counts |a|, |b| of set bits, <a, b> = n - 2 |a| - 2 |b| + 4 |a and b|.
#include "common.cu"

#define MMA_A 256  // rows on the left of a block of gram_mma
#define MMA_B 128  // rows on the right
#define PITCH 20   // 32-bit words between staged rows of 16, without bank conflicts
#define STAGES 3   // pieces of 8 words in shared memory, of which all but one are under way

// out (m, m) = inner products of packed rows of n columns, n_words apart. Blocks that meet the
// lower half compute it and fill the upper half too; 256 threads, 64 x 64 entries per warp, so that
// shared memory and the second-level cache deliver what the matrix instruction takes. Words are
// read as pairs of 32 bits; `ones` are the counts of set bits of the rows.
extern "C" __global__ void __launch_bounds__(256) gram_mma(
    const u64* words, i64 m, const int* ones, i64 n_words, i64 n, int* out) {
    typedef u32 Stage[MMA_A + MMA_B][PITCH];
    DYNAMIC_SHARED(Stage, staged);
    i64 row = (i64)blockIdx.y * MMA_A, column = (i64)blockIdx.x * MMA_B;
    if (column >= row + MMA_A) return;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int top = warp / 2 * 64, side = warp % 2 * 64;
    int both[4][8][4] = {};
    auto begin = [&](int to, i64 start) {  // to copy 8 words of all rows, or zeros beyond the last
        int r = threadIdx.x / 8, k = threadIdx.x % 8;
#pragma unroll
        for (int i = 0; i < (MMA_A + MMA_B) / 32; ++i, r += 32) {
            i64 source = (i < MMA_A / 32 ? row : column - MMA_A) + r;
            copy_async<8>(staged[to][r] + 2 * k, words + source * n_words + start + k,
                          start + k < n_words && source < m);
        }
        copies_commit();
    };
    for (int i = 0; i < STAGES - 1; ++i) begin(i, 8 * i);
    int turn = 0, next = STAGES - 1;
    for (i64 start = 0; start < n_words; start += 8) {
        copies_wait<STAGES - 2>();
        __syncthreads();  // all threads see these words and have used the words before
        begin(next, start + 8 * (STAGES - 1));
        u32(*left)[PITCH] = staged[turn], (*right)[PITCH] = staged[turn] + MMA_A;
        next = turn;
        turn = turn + 1 == STAGES ? 0 : turn + 1;
#pragma unroll
        for (int k = 0; k < 16; k += 8) {
            u32 x[4][4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int part = 0; part < 4; ++part)
                    x[i][part] = left[top + 16 * i + g + 8 * (part % 2)][k + t + 4 * (part / 2)];
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const u32* from = right[side + 8 * j + g] + k + t;
                u32 y[2] = {from[0], from[4]};
#pragma unroll
                for (int i = 0; i < 4; ++i) mma_and(both[i][j], x[i], y);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                i64 u = row + top + 16 * i + g + 8 * (part / 2);
                i64 v = column + side + 8 * j + 2 * t + part % 2;
                if (u >= m || v > u) continue;
                i64 value = n - 2ll * ones[u] - 2ll * ones[v] + 4ll * both[i][j][part];
                out[u * m + v] = out[v * m + u] = (int)value;
            }
}

EXPORT(gram_mma)
