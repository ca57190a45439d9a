// Two planes of bits: packing of entries some of which are missing, and back.
//
// Bit 1 of `signs` means +1, bit 1 of `seen` that there is an entry; elsewhere both are 0.
#include "common.cu"

#define MISSING -128

// One warp makes one word of each plane (m, n_words) from 64 entries of x (m, n): -1, 0, 1, MISSING.
// *found collects 1: a zero occurs, 2: a -1 occurs, 4: another value, 8: a missing one.
extern "C" __global__ void pack_planes(
    const i8* x, i64 m, i64 n, int zeros_count, u64* signs, u64* seen, u32* found) {
    i64 n_words = (n + 63) / 64;
    i64 id = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (id >= m * n_words) return;  // the whole warp
    i64 row = id / n_words, first = id % n_words * 64;
    u32 up[2], there[2], occurs = 0;
    for (int part = 0; part < 2; ++part) {
        i64 j = first + 32 * part + lane;
        int value = j < n ? x[row * n + j] : 3;
        u32 zero = __ballot_sync(FULL, value == 0), minus = __ballot_sync(FULL, value == -1);
        up[part] = __ballot_sync(FULL, value == 1);
        there[part] = up[part] | minus | (zeros_count ? zero : 0);
        bool other = value != 0 && value != 1 && value != -1 && value != MISSING && j < n;
        occurs |= (zero ? 1 : 0) | (minus ? 2 : 0);
        occurs |= __ballot_sync(FULL, other) ? 4 : 0;
        occurs |= __ballot_sync(FULL, value == MISSING) ? 8 : 0;
    }
    if (lane == 0) {
        signs[id] = up[0] | (u64)up[1] << 32;
        seen[id] = there[0] | (u64)there[1] << 32;
        if (occurs & ~*found) atomicOr(found, occurs);
    }
}

// As `unpack` of bits.cu: 0 where there is no entry.
template <class U>
__device__ void unpack(
    const u64* signs, const u64* seen, i64 stride, u32 pieces, i64 n, i64 width, U* out) {
    const int each = 8 / sizeof(U);
    i64 row = blockIdx.x / pieces;
    i64 first = ((i64)(blockIdx.x % pieces) * SPREAD * blockDim.x + threadIdx.x) * each;
    signs += row * stride;
    seen += row * stride;
    out += row * width;
#pragma unroll
    for (int i = 0; i < SPREAD; ++i, first += (i64)blockDim.x * each) {
        if (first >= width) return;
        u64 up = first < n ? signs[first / 64] >> (first % 64) : 0;
        u64 there = first < n ? seen[first / 64] >> (first % 64) : 0;
        if (first < n && n - first < each) there &= (1ull << (n - first)) - 1;
        spread(up, there, width - first, width % each == 0, out + first);
    }
}

extern "C" __global__ void unpack_planes_int8(
    const u64* signs, const u64* seen, i64 stride, u32 pieces, i64 n, i64 width, i8* out) {
    unpack(signs, seen, stride, pieces, n, width, reinterpret_cast<u8*>(out));
}
extern "C" __global__ void unpack_planes_bf16(
    const u64* signs, const u64* seen, i64 stride, u32 pieces, i64 n, i64 width, u16* out) {
    unpack(signs, seen, stride, pieces, n, width, out);
}
extern "C" __global__ void unpack_planes_float32(
    const u64* signs, const u64* seen, i64 stride, u32 pieces, i64 n, i64 width, float* out) {
    unpack(signs, seen, stride, pieces, n, width, reinterpret_cast<u32*>(out));
}
extern "C" __global__ void unpack_planes_float64(
    const u64* signs, const u64* seen, i64 stride, u32 pieces, i64 n, i64 width, double* out) {
    unpack(signs, seen, stride, pieces, n, width, reinterpret_cast<u64*>(out));
}

EXPORT(pack_planes)
EXPORT(unpack_planes_int8)
EXPORT(unpack_planes_bf16)
EXPORT(unpack_planes_float32)
EXPORT(unpack_planes_float64)
