// Serial heat bath on J = W W^T without its diagonal: one warp for TOGETHER chains, so that a number
// of `columns` is read once for all of them, and no warp waits for another.
//
// As on the CPU, the fields of 32 sites are computed before any of them is visited; the warp then
// visits them, one lane per site: all are compared at once, the first that differs from its spin is
// flipped, its couplings correct the fields of the others, and later sites are compared again.
#include "common.cu"

#define SITES 32
#define PARTS 4           // parts of a sum, so that additions do not wait for each other
#define TOGETHER 4        // chains of a warp
#define REFRESH_EVERY 64  // sweeps after which the coefficients are recomputed
#define CHECK_EVERY 4     // sweeps between two checks of the score

// sum_k weights_k a_k^2 / n; the same in every thread.
__device__ double score_of(const float* a, const float* weights, int rank, i64 n) {
    double total = 0;
    for (int k = 0; k < rank; ++k) total += (double)weights[k] * (double)a[k] * (double)a[k];
    return total / (double)n;
}

// Visit the sites of a block by one warp; return the flipped sites, and in `up` the sites now up.
__device__ u32 visit(
    float h, float spin, float d, float limit, float beta, const float* overlaps, u32* up) {
    int lane = threadIdx.x % 32;
    u32 before = __ballot_sync(FULL, spin > 0), flipped = 0, left = FULL;
    float field = h - d * spin;
    for (;;) {
        u32 wants = (__ballot_sync(FULL, beta * field >= limit) ^ before) & left;
        if (!wants) break;
        int j = __ffs(wants) - 1;
        float change = (before >> j) & 1 ? -2.0f : 2.0f;
        field = fmaf(change, overlaps[j * SITES + lane], field);
        flipped |= 1u << j;
        left = j == 31 ? 0 : FULL << (j + 1);
    }
    *up = before ^ flipped;
    return flipped;
}

// Threshold of a site: by its draw, or without noise by the largest field `cold` that counts as 0;
// no field flips a held spin.
__device__ __forceinline__ float threshold(
    i64 site, i64 n, i64 chain, float spin, int sweep, const float* lookup, u32 k0, u32 k1,
    u32 stream, u32 first_sweep, u32 first_chain, float cold, const i8* held, float hold) {
    if (site >= n) return 0;
    if (hold > 0 && held[chain * n + site]) return spin > 0 ? -hold : hold;
    if (cold > 0) return spin > 0 ? -cold : cold;
    u32 x[4] = {(u32)(site / 8), first_sweep + (u32)sweep, first_chain + (u32)chain, stream};
    philox4x32(x, k0, k1);
    return lookup[lane16(x, site % 8)];
}

// Entry k of a after the sites `flipped` of a block have flipped to the spins in `up`.
__device__ __forceinline__ float turned(
    float total, u32 flipped, u32 up, const float* block, int rank, int k) {
    for (u32 left = flipped; left; left &= left - 1) {
        int j = __ffs(left) - 1;
        total = fmaf((up >> j) & 1 ? 2.0f : -2.0f, block[j * rank + k], total);
    }
    return total;
}

// Recompute a for the chains in `which`, in order of the sites.
__device__ void sum_all_afresh(
    const i8* state, i64 n, const float* rows, int rank, float* a, u32 which) {
    __syncwarp();
    for (int k = threadIdx.x; k < rank; k += 32) {
        float total[TOGETHER] = {};
        for (i64 i = 0; i < n; ++i) {
            float x = rows[i * rank + k];
#pragma unroll
            for (int c = 0; c < TOGETHER; ++c)
                if ((which >> c) & 1) total[c] = fmaf((float)state[c * n + i], x, total[c]);
        }
#pragma unroll
        for (int c = 0; c < TOGETHER; ++c)
            if ((which >> c) & 1) a[c * rank + k] = total[c];
    }
    __syncwarp();
}

// Fields of 32 sites, one per lane, for all chains; `column` points to the lane's own column. Terms
// of a sum go in turn to PARTS partial sums.
__device__ __forceinline__ void fields(
    const float* a, const float* column, int rank, int r, float h[TOGETHER]) {
    float part[TOGETHER][PARTS] = {};
    int k = 0;
    for (; k + PARTS <= r; k += PARTS) {
        float x[PARTS];
#pragma unroll
        for (int w = 0; w < PARTS; ++w) x[w] = column[(k + w) * SITES];
#pragma unroll
        for (int c = 0; c < TOGETHER; ++c) {
            Four four = *reinterpret_cast<const Four*>(a + c * rank + k);
#pragma unroll
            for (int w = 0; w < PARTS; ++w) part[c][w] = fmaf(four.x[w], x[w], part[c][w]);
        }
    }
#pragma unroll
    for (int w = 0; w < PARTS - 1; ++w)
        if (k + w < r) {
            float x = column[(k + w) * SITES];
#pragma unroll
            for (int c = 0; c < TOGETHER; ++c)
                part[c][w] = fmaf(a[c * rank + k + w], x, part[c][w]);
        }
#pragma unroll
    for (int c = 0; c < TOGETHER; ++c) {
        h[c] = part[c][0];
#pragma unroll
        for (int w = 1; w < PARTS; ++w) h[c] += part[c][w];
    }
}

// rows (n', rank), columns (n' / 32, r, 32), overlaps (n' / 32, 32, 32), diagonal (n'): the layout
// of coupling.py. betas (S, sweeps). held (S, n) is read if `hold`, infinity, is not 0. Dynamic
// shared memory: TOGETHER rank floats.
extern "C" __global__ void __launch_bounds__(32) heat_bath(
    i8* state, i64 n, const float* rows, const float* columns, const float* overlaps,
    const float* diagonal, int rank, int r, const float* betas, int sweeps, const float* lookup,
    u32 k0, u32 k1, u32 stream, u32 first_sweep, u32 first_chain, const float* weights, float stop,
    float cold, const i8* held, float hold, i64* used, u32* settled, i64 chains) {
    DYNAMIC_SHARED(float, a);
    int lane = threadIdx.x;
    i64 chain = (i64)blockIdx.x * TOGETHER;
    i8* s = state + chain * n;
    u32 running = chains - chain < TOGETHER ? (1u << (chains - chain)) - 1 : (1u << TOGETHER) - 1;
    for (int k = lane; k < TOGETHER * rank; k += 32) a[k] = 0;  // for missing chains
    sum_all_afresh(s, n, rows, rank, a, running);
    for (int sweep = 0; running;) {
        u32 moved = 0, done = 0;
        for (i64 first = 0; first < n; first += SITES) {
            i64 site = first + lane;
            float h[TOGETHER];
            fields(a, columns + first * r + lane, rank, r, h);
#pragma unroll
            for (int c = 0; c < TOGETHER; ++c) {
                if (!((running >> c) & 1)) continue;  // the whole warp
                float spin = site < n ? s[c * n + site] : 1;
                float limit = threshold(site, n, chain + c, spin, sweep, lookup, k0, k1, stream,
                                        first_sweep, first_chain, cold, held, hold);
                // All lanes have read a: the first ballot waits for their fields.
                u32 up, flipped = visit(h[c], spin, diagonal[site], limit,
                                        betas[(chain + c) * sweeps + sweep],
                                        overlaps + first * SITES, &up);
                if (!flipped) continue;
                moved |= 1u << c;
                if (site < n) s[c * n + site] = (up >> lane) & 1 ? 1 : -1;
                float* mine = a + c * rank;
                for (int k = lane; k < rank; k += 32)
                    mine[k] = turned(mine[k], flipped, up, rows + first * rank, rank, k);
            }
            __syncwarp();
        }
        ++sweep;
        for (int c = 0; c < TOGETHER; ++c) {
            if (!((running >> c) & 1)) continue;
            bool end = sweep == sweeps;
            if (cold > 0 && !((moved >> c) & 1)) {
                end = true;
                if (lane == 0) settled[chain + c] = 1;
            } else if (sweep % CHECK_EVERY == 0) {
                end = end || score_of(a + c * rank, weights, rank, n) > (double)stop;
            }
            if (end) done |= 1u << c;
        }
        if (sweep % REFRESH_EVERY == 0) sum_all_afresh(s, n, rows, rank, a, running);
        if (lane < TOGETHER && (done >> lane) & 1) used[chain + lane] = sweep;
        running &= ~done;
    }
}

EXPORT(heat_bath)
