// Synchronous updates of the layered memory on J = W W^T. In an update, cuBLAS computes the fields
// h = c W^T and the new coefficients A = sigma W, a piece of the sites at a time; these kernels do
// the rest: mixing of the layers with the energy, draws and decisions, and the end of an update.
#include "common.cu"

#define WARPS 4
#define SITES_OF_THREAD 8  // sites that share a Philox block

// Coefficients c (S L, rank) of the fields from A, with the energy (S) of the state;
// q (S, L, L) is scratch. One block of threads for each block of layers. along: sum of cue times
// spins, reset for the next update.
extern "C" __global__ void __launch_bounds__(32 * WARPS) layered_mix(
    const float* a, int layers, int rank, i64 n, int quadratic, double repulsion, double field,
    double* q, float* c, i64* along, double* energy) {
    __shared__ double part[WARPS][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    i64 s = blockIdx.x;
    a += s * layers * rank;
    c += s * layers * rank;
    q += s * layers * layers;
    for (int id = warp; id < layers * layers; id += WARPS) {
        int u = id / layers, v = id % layers;
        if (v > u) continue;
        double total = 0;
        for (int k = lane; k < rank; k += 32)
            total += (double)a[u * rank + k] * (double)a[v * rank + k];
        part[warp][lane] = total;
        __syncwarp();
        if (lane == 0) {
            for (int i = 1; i < 32; ++i) total += part[warp][i];
            q[u * layers + v] = q[v * layers + u] = total;
        }
        __syncwarp();
    }
    __syncthreads();
    for (int k = threadIdx.x; k < rank; k += blockDim.x)
        for (int u = 0; u < layers; ++u) {
            float total = a[u * rank + k];
            for (int v = 0; v < layers; ++v) {
                double overlap = quadratic ? q[u * layers + v] / (double)n : 1.0;
                if (v != u) total -= (float)(repulsion * overlap) * a[v * rank + k];
            }
            c[u * rank + k] = total;
        }
    if (threadIdx.x == 0) {
        double total = -field * (double)along[s];
        #pragma unroll 1
        for (int u = 0; u < layers; ++u) {
            total -= q[u * layers + u];
            #pragma unroll 1
            for (int v = 0; v < layers; ++v) {
                double x = q[u * layers + v];
                if (v != u) total += repulsion * (quadratic ? x * x / (double)n : x);
            }
        }
        energy[s] = total;
        along[s] = 0;
    }
}

// Update the sites first..first + width - 1 of all layers from their fields h (S L, width), which
// are replaced by the new spins. Rows of spins are `pitch` apart; pitch and width are multiples of
// 32. A thread has 8 sites of one layer; 128 threads a block, `pieces` blocks a layer.
extern "C" __global__ void __launch_bounds__(32 * WARPS) layered_update(
    float* h, i64 first, i64 width, i64 pieces, i8* spins, i64 pitch, i64 n, int layers,
    const float* diagonal, const i8* cue, i64 cue_blocks, i64 cue_layers, float field,
    const float* betas, const float* lookup, const i64* level, int t, u32 k0, u32 k1,
    u32 first_update, const u32* active, u64* moved, u64* along) {
    __shared__ int total[2];
    if (threadIdx.x < 2) total[threadIdx.x] = 0;
    __syncthreads();
    i64 row = blockIdx.x / pieces, s = row / layers, layer = row % layers;
    i64 at = (blockIdx.x % pieces * blockDim.x + threadIdx.x) * SITES_OF_THREAD;
    if (at < width && first + at < n) {
        int flips = 0, sum = 0;
        bool on = active[s];
        float beta = betas[t];
        const float* table = lookup + level[t] * 65536;
        float tie = table[0];  // above 0 without noise: a field up to this size counts as 0
        u32 x[4] = {(u32)((first + at) / 8), first_update + (u32)t, (u32)row, 0};
        philox4x32(x, k0, k1);
        float* field_at = h + row * width + at;
        Two fields[2] = {reinterpret_cast<Two*>(field_at)[0], reinterpret_cast<Two*>(field_at)[1]};
        u64* spin_word = reinterpret_cast<u64*>(spins + row * pitch + first + at);
        u64 old = *spin_word, now = 0;
        i64 b = s < cue_blocks ? s : cue_blocks - 1, l = layer < cue_layers ? layer : cue_layers - 1;
        const i8* given = cue + (b * cue_layers + l) * n;
        float* values = reinterpret_cast<float*>(fields);
#pragma unroll
        for (int i = 0; i < SITES_OF_THREAD; ++i) {
            i64 site = first + at + i;
            int spin = (i8)(old >> (8 * i)), next = spin;
            int push = field != 0 && site < n ? given[site] : 0;
            float sum_of_fields = values[i] - diagonal[site] * (float)spin + field * (float)push;
            float limit = tie > 0 ? (spin > 0 ? -tie : tie) : table[lane16(x, i)];
            if (on && site < n) next = beta * sum_of_fields >= limit ? 1 : -1;
            flips += next != spin;
            sum += push * next;
            now |= (u64)(unsigned char)next << (8 * i);
            values[i] = (float)next;
        }
        *spin_word = now;
        reinterpret_cast<Two*>(field_at)[0] = fields[0];
        reinterpret_cast<Two*>(field_at)[1] = fields[1];
        if (flips) atomicAdd(&total[0], flips);
        if (sum) atomicAdd(&total[1], sum);
    }
    __syncthreads();
    if (threadIdx.x == 0 && total[0]) atomicAdd(&moved[s], (u64)total[0]);
    if (threadIdx.x == 0 && total[1]) atomicAdd(&along[s], (u64)(i64)total[1]);
}

// End an update: counts, and finished blocks (no spin flipped and no noise follows).
extern "C" __global__ void layered_advance(
    i64 n_blocks, int still, u32* active, i64* used, u64* moved, i64* changed) {
    i64 s = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n_blocks) return;
    if (active[s]) {
        used[s] += 1;
        changed[s] = (i64)moved[s];
        if (still && moved[s] == 0) active[s] = 0;
    }
    moved[s] = 0;
}

EXPORT(layered_mix)
EXPORT(layered_update)
EXPORT(layered_advance)
