// The rate of the 1-bit matrix instruction in registers, for `rates.py`.
#include "common.cu"

#define CHAINS 8  // independent results of a warp, so that one does not wait for the last

// n times CHAINS 1-bit matrix instructions of 16 x 8 x 256 in every warp.
extern "C" __global__ void peak_b1(int* out, int n) {
    u32 a[4] = {threadIdx.x, 3 * threadIdx.x, 7, 9}, b[2] = {5 * threadIdx.x, 11};
    int c[CHAINS][4] = {};
    for (int i = 0; i < n; ++i)
#pragma unroll
        for (int j = 0; j < CHAINS; ++j) mma_and(c[j], a, b);
    int total = 0;
    for (int j = 0; j < CHAINS; ++j) total += c[j][0] + c[j][1] + c[j][2] + c[j][3];
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}

EXPORT(peak_b1)
