// Serial heat bath on J = W W^T without its diagonal, for up to 32 chains by a block of threads.
//
// As on the CPU, the fields of 32 sites are computed before any of them is visited: a warp computes
// those of TOGETHER chains, a lane for each site. One warp then visits the sites, a lane for each
// chain: every lane adds its change of spin times the couplings, which all lanes share, to the fields
// of later sites, 0 if the spin stays. So no lane waits for another, and no branch depends on draws.
#include "common.cu"

#define SITES 32
#define PARTS 4           // parts of a sum, so that additions do not wait for each other
#define TOGETHER 4        // chains of a warp
#define PITCH 36          // numbers between sites in a table of chains: rows of 16 bytes, other banks
#define REFRESH_EVERY 64  // sweeps after which the coefficients are recomputed
#define CHECK_EVERY 4     // sweeps between two checks of the score

// Visit the sites of a block, a lane for each chain, from its column of a table of fields, which
// becomes a table of changes; return the flipped sites.
__device__ u32 visit(
    float* table, const float* limits, const float* couplings, float beta, u32 before) {
    float h[SITES];
    u32 flipped = 0;
#pragma unroll
    for (int j = 0; j < SITES; ++j) h[j] = table[j * PITCH];
#pragma unroll
    for (int j = 0; j < SITES; ++j) {
        bool up = beta * h[j] >= limits[j * PITCH], was = (before >> j) & 1;
        float change = up == was ? 0.0f : up ? 2.0f : -2.0f;
        flipped |= up == was ? 0 : 1u << j;
        table[j * PITCH] = change;
#pragma unroll
        for (int i = (j + 1) / 4 * 4; i < SITES; i += 4) {
            Four four = *reinterpret_cast<const Four*>(couplings + j * SITES + i);
#pragma unroll
            for (int q = 0; q < 4; ++q)
                if (i + q > j) h[i + q] = fmaf(change, four.x[q], h[i + q]);
        }
    }
    return flipped;
}

// a (TOGETHER, rank) += changes of the sites in `some` times their rows, in order of the sites.
__device__ void add_rows(
    float* a, int rank, const float* rows, const float* changes, u32 some) {
    for (int k = threadIdx.x % 32; k < rank; k += 64) {
        const float* from = rows + k;
        bool two = k + 32 < rank;  // a lane has two columns, if there are as many
        float near[TOGETHER], far[TOGETHER];
#pragma unroll
        for (int c = 0; c < TOGETHER; ++c) {
            near[c] = a[c * rank + k];
            far[c] = two ? a[c * rank + k + 32] : 0;
        }
        for (int j = 0; j < SITES; j += 4, from += 4 * rank) {
            if (!((some >> j) & 15)) continue;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                Four change = *reinterpret_cast<const Four*>(changes + (j + i) * PITCH);
                float x = from[i * rank], y = two ? from[i * rank + 32] : 0;
#pragma unroll
                for (int c = 0; c < TOGETHER; ++c) {
                    near[c] = fmaf(change.x[c], x, near[c]);
                    far[c] = fmaf(change.x[c], y, far[c]);
                }
            }
        }
#pragma unroll
        for (int c = 0; c < TOGETHER; ++c) {
            a[c * rank + k] = near[c];
            if (two) a[c * rank + k + 32] = far[c];
        }
    }
}

// Fields of 32 sites, one per lane, for all chains; `column` points to the lane's own column. Terms
// of a sum go in turn to PARTS partial sums.
__device__ __forceinline__ void fields(
    const float* a, const float* column, int rank, int r, float h[TOGETHER]) {
    float part[TOGETHER][PARTS] = {};
    for (int k = 0; k < r; k += PARTS, column += PARTS * SITES) {
        float x[PARTS];
#pragma unroll
        for (int w = 0; w < PARTS; ++w) x[w] = column[w * SITES];
#pragma unroll
        for (int c = 0; c < TOGETHER; ++c) {
            Four four = *reinterpret_cast<const Four*>(a + c * rank + k);
#pragma unroll
            for (int w = 0; w < PARTS; ++w) part[c][w] = fmaf(four.x[w], x[w], part[c][w]);
        }
    }
#pragma unroll
    for (int c = 0; c < TOGETHER; ++c) {
        h[c] = part[c][0];
#pragma unroll
        for (int w = 1; w < PARTS; ++w) h[c] += part[c][w];
    }
}

// rows (n', rank), columns (n' / 32, r, 32), overlaps (n' / 32, 32, 32), diagonal (n'): the layout
// of coupling.py, but r is a multiple of PARTS. betas (S, sweeps). held (S, n) is read if `holds`.
// The first warp of a block visits; each of the others, eight at most, has TOGETHER chains (with a
// bound of 288 threads registers spill on some chips). Dynamic shared memory: rank floats a chain.
extern "C" __global__ void __launch_bounds__(384) heat_bath(
    i8* state, i64 n, const float* rows, const float* columns, const float* overlaps,
    const float* diagonal, int rank, int r, const float* betas, int sweeps, const float* lookup,
    u32 k0, u32 k1, u32 first_sweep, const float* weights, float stop, float cold, const i8* held,
    int holds, float infinity, i64* used, u32* settled, i64 chains) {
    DYNAMIC_SHARED(float, all);
    __shared__ __align__(16) float table[SITES * PITCH], limits[SITES * PITCH];
    __shared__ __align__(16) float couplings[SITES * SITES];
    __shared__ u32 ups[32], flips[32], ended;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, workers = blockDim.x / 32 - 1;
    int own = warp ? (warp - 1) * TOGETHER : 0, mine = lane % TOGETHER;
    i64 start = (i64)blockIdx.x * workers * TOGETHER, present = chains - start;
    u32 running = present < 32 ? (1u << present) - 1 : FULL;
    i8* s = state + (start + own) * n;
    float *a = all + own * rank, *changes = table + own;
    Four spins;
    u32 before, stuck;
    auto look = [&](i64 site) {  // at the spins of a block, and which of them are held
#pragma unroll
        for (int c = 0; c < TOGETHER; ++c) {
            bool there = own + c < present && site < n;
            spins.x[c] = there ? s[c * n + site] : 1;
            bool kept = there && holds && held[(start + own + c) * n + site];
            u32 up = __ballot_sync(FULL, spins.x[c] > 0), stay = __ballot_sync(FULL, kept);
            before = c == mine ? up : before;
            stuck = c == mine ? stay : stuck;
        }
        if (!((running >> (own + mine)) & 1)) stuck = FULL;
    };
    for (int sweep = 0; running;) {
        if (warp && sweep % REFRESH_EVERY == 0) {  // sum the coefficients, in order of the sites
            for (int k = lane; k < TOGETHER * rank; k += 32) a[k] = 0;
            for (i64 first = 0; first < n; first += SITES) {
#pragma unroll
                for (int c = 0; c < TOGETHER; ++c)
                    spins.x[c] = own + c < present && first + lane < n ? s[c * n + first + lane] : 0;
                *reinterpret_cast<Four*>(changes + lane * PITCH) = spins;
                __syncwarp();
                add_rows(a, rank, rows + first * rank, changes, FULL);
                __syncwarp();
            }
        }
        bool moved = false;
        float beta = lane < present ? betas[(start + lane) * sweeps + sweep] : 0, seen = 0;
        if (warp) look(lane);
        for (i64 first = 0; first < n; first += SITES) {
            const float* block = rows + first * rank;
            i64 site = first + lane;
            if (warp == 0)
                for (int id = lane; id < SITES * SITES / 4; id += 32)
                    reinterpret_cast<Four*>(couplings)[id] =
                        reinterpret_cast<const Four*>(overlaps + first * SITES)[id];
            else {
                if (lane < TOGETHER) ups[own + lane] = before;
                // Thresholds of four sites of a chain by each lane: by their draws, or without noise by
                // the largest field `cold` that counts as 0; no field flips a spin that is stuck.
                int from = lane / TOGETHER * 4, half = lane / TOGETHER % 2 * 2;
                u32 x[4] = {(u32)((first + from) / 8), first_sweep + (u32)sweep,
                            (u32)(start + own + mine), 0};
                if (!(cold > 0)) philox4x32(x, k0, k1);
                u32 draws[2] = {half ? x[2] : x[0], half ? x[3] : x[1]};
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    float size = (stuck >> (from + i)) & 1 ? infinity : cold;
                    float limit = (before >> (from + i)) & 1 ? -size : size;
                    if (!(size > 0)) limit = lookup[lane16(draws, i)];
                    limits[(from + i) * PITCH + own + mine] = first + from + i < n ? limit : 0;
                }
                float h[TOGETHER];
                fields(a, columns + first * r + lane, rank, r, h);
                Four field;
#pragma unroll
                for (int c = 0; c < TOGETHER; ++c) field.x[c] = h[c] - diagonal[site] * spins.x[c];
                *reinterpret_cast<Four*>(changes + lane * PITCH) = field;
            }
            __syncthreads();
            if (warp == 0) {
                flips[lane] = visit(table + lane, limits + lane, couplings, beta, ups[lane]);
                moved |= flips[lane] != 0;
            } else {  // bring these rows and the next columns to the first-level cache, by sectors
                for (int id = threadIdx.x - 32; id < 4 * rank; id += 32 * workers)
                    seen = fmaxf(seen, block[8 * id]);
                for (int id = threadIdx.x - 32; id < 4 * r && first + SITES < n; id += 32 * workers)
                    seen = fmaxf(seen, columns[(first + SITES) * r + 8 * id]);
            }
            __syncthreads();
            u32 some = seen < infinity ? 0 : FULL;  // W is finite; so what was seen is used
            if (warp == 0) continue;
#pragma unroll
            for (int c = 0; c < TOGETHER; ++c) {
                u32 flipped = flips[own + c];
                some |= flipped;
                if ((flipped >> lane) & 1 && own + c < present && site < n)
                    s[c * n + site] = spins.x[c] > 0 ? -1 : 1;
            }
            look(site + SITES);
            if (some) add_rows(a, rank, block, changes, some);
            __syncwarp();
        }
        ++sweep;
        __syncthreads();  // the first warp now reads all coefficients
        if (warp == 0) {
            bool runs = (running >> lane) & 1, still = runs && cold > 0 && !moved;
            bool end = still || (runs && sweep == sweeps);
            if (runs && !still && sweep % CHECK_EVERY == 0) {
                double score = 0;  // sum_k weights_k a_k^2 / n
                for (const float *w = weights, *b = all + lane * rank; w < weights + rank; ++w, ++b)
                    score += (double)*w * (double)*b * (double)*b;
                end = end || score / (double)n > (double)stop;
            }
            if (still) settled[start + lane] = 1;
            if (end) used[start + lane] = sweep;
            u32 ends = __ballot_sync(FULL, end);
            if (lane == 0) ended = ends;
        }
        __syncthreads();
        running &= ~ended;
    }
}

EXPORT(heat_bath)
