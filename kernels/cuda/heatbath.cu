// Serial heat bath on J = W W^T without its diagonal: one block of threads for each chain.
//
// As on the CPU, the fields of 32 sites are computed before any of them is visited; one warp then
// visits them, a lane to a site: all are compared at once, the first that differs from its spin is
// flipped, its couplings correct the fields of the others, and those after it are compared again.
#include "common.cu"

#define SITES 32
#define WARPS 4
#define REFRESH_EVERY 64  // sweeps after which the coefficients are summed afresh
#define CHECK_EVERY 4     // sweeps between two looks at the score

// a = W^T s, in order of the sites.
__device__ void sum_afresh(const i8* s, i64 n, const float* rows, int rank, float* a) {
    __syncthreads();  // all have read a, and the spins are written
    for (int k = threadIdx.x; k < rank; k += blockDim.x) {
        float total = 0;
        for (i64 i = 0; i < n; ++i) total = fmaf((float)s[i], rows[i * rank + k], total);
        a[k] = total;
    }
    __syncthreads();
}

// sum_k weights_k a_k^2 / n; the same in every thread.
__device__ double score_of(const float* a, const float* weights, int rank, i64 n) {
    double total = 0;
    for (int k = 0; k < rank; ++k) total += (double)weights[k] * (double)a[k] * (double)a[k];
    return total / (double)n;
}

// Visit the sites of a block by one warp; return the sites flipped, and in `up` those now up.
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

// rows (n', rank), columns (n' / 32, r, 32), overlaps (n' / 32, 32, 32), diagonal (n'): the layout
// of layout.py. betas (S, sweeps). held (S, n) is read if `hold`, infinity, is not 0. Dynamic
// shared memory: rank floats.
extern "C" __global__ void __launch_bounds__(32 * WARPS) heat_bath(
    i8* state, i64 n, const float* rows, const float* columns, const float* overlaps,
    const float* diagonal, int rank, int r, const float* betas, int sweeps, const float* lookup,
    u32 k0, u32 k1, u32 stream, u32 first_sweep, u32 first_chain, const float* weights, float stop,
    int cold, const i8* held, float hold, i64* used, double* score, u32* settled) {
    DYNAMIC_SHARED(float, a);
    __shared__ float part[WARPS][SITES];
    __shared__ u32 flipped, up;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    i64 chain = blockIdx.x;
    i8* s = state + chain * n;
    sum_afresh(s, n, rows, rank, a);
    for (int sweep = 0; sweep < sweeps;) {
        float beta = betas[chain * sweeps + sweep];
        bool moved = false;
        for (i64 first = 0; first < n; first += SITES) {
            float h = 0;
            const float* column = columns + first * r;
            for (int k = warp; k < r; k += WARPS) h = fmaf(a[k], column[k * SITES + lane], h);
            part[warp][lane] = h;
            __syncthreads();
            if (warp == 0) {
                i64 site = first + lane;
                float limit = 0, spin = site < n ? s[site] : 1;
                if (!cold && site < n) {
                    u32 x[4] = {(u32)(site / 8), first_sweep + (u32)sweep,
                                first_chain + (u32)chain, stream};
                    philox4x32(x, k0, k1);
                    limit = lookup[lane16(x, site % 8)];
                }
                if (hold > 0 && site < n && held[chain * n + site])
                    limit = spin > 0 ? -hold : hold;  // no field turns it
                for (int w = 1; w < WARPS; ++w) h += part[w][lane];
                u32 now, mask = visit(
                    h, spin, diagonal[site], limit, beta, overlaps + first * SITES, &now);
                if (site < n) s[site] = (now >> lane) & 1 ? 1 : -1;
                if (lane == 0) {
                    flipped = mask;
                    up = now;
                }
            }
            __syncthreads();
            moved |= flipped != 0;
            if (flipped)
                for (int k = threadIdx.x; k < rank; k += blockDim.x) {
                    float total = a[k];
                    for (u32 left = flipped; left; left &= left - 1) {
                        int j = __ffs(left) - 1;
                        float change = (up >> j) & 1 ? 2.0f : -2.0f;
                        total = fmaf(change, rows[(first + j) * rank + k], total);
                    }
                    a[k] = total;
                }
            __syncthreads();
        }
        ++sweep;
        bool done = sweep == sweeps;
        if (cold && !moved) {
            done = true;
            if (threadIdx.x == 0) settled[chain] = 1;
        } else if (sweep % CHECK_EVERY == 0) {
            done = done || score_of(a, weights, rank, n) > (double)stop;
        }
        if (done || sweep % REFRESH_EVERY == 0) sum_afresh(s, n, rows, rank, a);
        if (done) {
            if (threadIdx.x == 0) {
                used[chain] = sweep;
                score[chain] = score_of(a, weights, rank, n);
            }
            break;
        }
    }
}

EXPORT(heat_bath)
