// Serial updates of the layered memory: one block of threads for each block of layers. One warp
// visits the sites in order and the layers at each site; its lanes hold the fields of 32 sites.
#include "common.cu"

#define SITES 32
#define WARPS 4
#define REFRESH_EVERY 64

// Shared memory: q (L, L) double; a (L, rank), h, t, spins (L, 32) float; flips (L) u32.
extern "C" __global__ void __launch_bounds__(32 * WARPS) layered_sweep(
    i8* state, i64 pitch, i64 n, int layers, const float* rows, const float* columns,
    const float* overlaps, const float* diagonal, int rank, int r, const i8* cue, i64 cue_blocks,
    i64 cue_layers, float field, const float* betas, const float* lookup, const i64* level,
    const unsigned char* still, int updates, int quadratic, double repulsion, u32 k0, u32 k1,
    u32 stream, u32 first_update, u32 first_chain, i64* used, i64* changed) {
    DYNAMIC_SHARED(double, q);
    float* a = reinterpret_cast<float*>(q + layers * layers);
    float *h = a + layers * rank, *t = h + layers * SITES, *spins = t + layers * SITES;
    u32* flipped = reinterpret_cast<u32*>(spins + layers * SITES);
    __shared__ i64 moved;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    i64 s = blockIdx.x, b = s < cue_blocks ? s : cue_blocks - 1;
    i8* mine = state + s * layers * pitch;
    for (int update = 0; update < updates; ++update) {
        if (threadIdx.x == 0) moved = 0;
        if (update % REFRESH_EVERY == 0)
            for (int id = threadIdx.x; id < layers * rank; id += blockDim.x) {
                float total = 0;
                for (i64 i = 0; i < n; ++i)
                    total = fmaf((float)mine[id / rank * pitch + i], rows[i * rank + id % rank],
                                 total);
                a[id] = total;
            }
        __syncthreads();
        for (int id = threadIdx.x; id < layers * layers; id += blockDim.x) {
            double total = 0;
            for (int k = 0; k < rank; ++k)
                total += (double)a[id / layers * rank + k] * (double)a[id % layers * rank + k];
            q[id] = total;
        }
        float beta = betas[update];
        const float* table = lookup + level[update] * 65536;
        float tie = table[0];  // above 0 without noise: what counts as no field
        for (i64 first = 0; first < n; first += SITES) {
            const float* column = columns + first * r;
            i64 site = first + lane;
            for (int u = warp; u < layers; u += WARPS) {
                float total = 0;
                for (int k = 0; k < r; ++k)
                    total = fmaf(a[u * rank + k], column[k * SITES + lane], total);
                u32 x[4] = {(u32)(site / 8), first_update + (u32)update,
                            first_chain + (u32)(s * layers + u), stream};
                philox4x32(x, k0, k1);
                h[u * SITES + lane] = total;
                float old = site < n ? mine[u * pitch + site] : 1;
                spins[u * SITES + lane] = old;
                t[u * SITES + lane] =
                    tie > 0 ? (old > 0 ? -tie : tie) : table[lane16(x, site % 8)];
                if (lane == 0) flipped[u] = 0;
            }
            __syncthreads();
            if (warp == 0)
                for (int j = 0; j < SITES && first + j < n; ++j)
                    for (int u = 0; u < layers; ++u) {  // every lane reckons the same
                        float spin = spins[u * SITES + j], d = diagonal[first + j];
                        double push = 0, square = 0;
                        for (int v = 0; v < layers; ++v)
                            if (v != u) {
                                double x = h[v * SITES + j];
                                push += (quadratic ? q[u * layers + v] / (double)n : 1.0) * x;
                                square += x * x;
                            }
                        // the spin's own share of (A_u . A_v)
                        if (quadratic && d != 0) push -= (double)spin * square / (double)n;
                        i64 l = u < cue_layers ? u : cue_layers - 1;
                        float given =
                            field != 0 ? cue[(b * cue_layers + l) * n + first + j] : 0;
                        float total = h[u * SITES + j] - d * spin + field * given;
                        total -= (float)(repulsion * push);
                        bool up = beta * total >= t[u * SITES + j];
                        __syncwarp();  // all have read
                        if (up != (spin > 0)) {
                            float change = -2 * spin;
                            for (int v = lane; v < layers; v += 32)
                                if (v != u) {
                                    q[u * layers + v] += (double)(change * h[v * SITES + j]);
                                    q[v * layers + u] = q[u * layers + v];
                                }
                            float coupling = overlaps[(first + j) * SITES + lane];
                            h[u * SITES + lane] = fmaf(change, coupling, h[u * SITES + lane]);
                            if (lane == 0) {
                                spins[u * SITES + j] = -spin;
                                flipped[u] |= 1u << j;
                                ++moved;
                            }
                        }
                        __syncwarp();
                    }
            __syncthreads();
            for (int id = threadIdx.x; id < layers * rank; id += blockDim.x) {
                int u = id / rank, k = id % rank;
                float total = a[id];
                for (u32 left = flipped[u]; left; left &= left - 1) {
                    int j = __ffs(left) - 1;
                    total = fmaf(2 * spins[u * SITES + j], rows[(first + j) * rank + k], total);
                }
                a[id] = total;
            }
            for (int u = warp; u < layers; u += WARPS)
                if (site < n) mine[u * pitch + site] = (i8)spins[u * SITES + lane];
            __syncthreads();
        }
        bool end = still[update] && moved == 0;
        if (threadIdx.x == 0) {
            used[s] = update + 1;
            changed[s] = moved;
        }
        __syncthreads();  // all have read `moved`
        if (end) break;
    }
}

EXPORT(layered_sweep)
