// Shared by all kernels: types, the counter-based generator, words of bits, one matrix instruction.
//
// Compiled by NVRTC through CuPy, by nvcc, and, for tests on machines without a GPU, by a C++
// compiler together with emulate.cu of the tests. Build with -fmad=false: a multiplication and an
// addition are fused only by fmaf. So all three compute the same numbers, except for float32
// numbers below 1.2e-38: CuPy builds with -ftz=true, which makes them 0.
#ifndef HOPFED_COMMON
#define HOPFED_COMMON

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#ifdef __CUDACC__
#define BOTH __host__ __device__ __forceinline__
#define EXPORT(name)  // allows a call of the kernel without a GPU
#define DYNAMIC_SHARED(T, name)                                  \
    extern __shared__ __align__(16) unsigned char name##_bytes[]; \
    T* name = reinterpret_cast<T*>(name##_bytes)
#else
#include "emulate.cu"
#define BOTH inline
#endif

#define FULL 0xffffffffu  // all lanes of a warp

// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011); x holds the counter, then the draw.
BOTH void philox4x32(u32 x[4], u32 k0, u32 k1) {
    for (int round = 0; round < 10; ++round) {
        u64 p0 = 0xD2511F53ull * x[0], p1 = 0xCD9E8D57ull * x[2];
        u32 y0 = (u32)(p1 >> 32) ^ x[1] ^ k0, y2 = (u32)(p0 >> 32) ^ x[3] ^ k1;
        x[1] = (u32)p1;
        x[3] = (u32)p0;
        x[0] = y0;
        x[2] = y2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

// The 16-bit draw of a site in lane site % 8 of its Philox block.
BOTH u32 lane16(const u32 x[4], int lane) { return (x[lane >> 1] >> (16 * (lane & 1))) & 0xffffu; }

struct __align__(16) Four {  // for one read of 16 bytes
    float x[4];
};
struct __align__(16) Two {  // the same
    u64 x[2];
};

#ifdef __CUDACC__
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define SINCE_80(...) asm volatile(__VA_ARGS__)
#else
#define SINCE_80(...)
#endif

// c += popcount(a and b) for bits a (16, 256), b (8, 256); lane l holds rows l / 4 (+ 8) of a and
// l / 4 of b, 32-bit words l % 4 (+ 4), and entries (l / 4 (+ 8), 2 (l % 4) (+ 1)) of c.
__device__ __forceinline__ void mma_and(int c[4], const u32 a[4], const u32 b[2]) {
    SINCE_80("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc "
             "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
             : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// c += a b for bfloat16 a (16, 16), b (8, 16), in the same layout, of pairs instead of words.
__device__ __forceinline__ void mma_bf16(float c[4], const u32 a[4], const u32 b[2]) {
    SINCE_80("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
             "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
             : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Start to copy 8 or 16 aligned bytes from global to shared memory, or zeros if not `there`. They
// are available to this thread after a wait, and to other threads after a barrier as well.
template <int BYTES>
__device__ __forceinline__ void copy_async(void* to, const void* from, bool there) {
    u32 at = (u32)__cvta_generic_to_shared(to), bytes = there ? BYTES : 0;
    SINCE_80("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from), "n"(BYTES),
             "r"(bytes) : "memory");
}
// End a group of copies; wait for all groups but the last LEFT.
__device__ __forceinline__ void copies_commit() {
    SINCE_80("cp.async.commit_group;" ::: "memory");
}
template <int LEFT>
__device__ __forceinline__ void copies_wait() {
    SINCE_80("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
#endif

#endif
