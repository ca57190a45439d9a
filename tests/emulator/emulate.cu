// The little of CUDA that the kernels use, on the host: a stand-in device for tests.
//
// A block runs as cooperative fibres, one for each thread, that change at barriers and warp
// operations; blocks follow one another. Between two barriers a thread runs alone, in the order that
// `set_order` chose, and shared memory is poisoned before every block, so a barrier that is missing
// shows in the numbers. What is copied meanwhile is poison until the thread that copies it waits for
// it, when it comes as late as it may. It tests indices, barriers and arithmetic, and knows nothing of speed.
// Blocks are one-dimensional, of whole warps. A thread that returns before the last barrier leaves
// the others there for ever, which a launch answers with 0; with 2 it answers copies to or from
// where there are none.
#include "common.cu"

#if !defined(__CUDACC__) && !defined(HOPFED_EMULATE)
#define HOPFED_EMULATE

#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <ucontext.h>

#include <utility>
#include <vector>

#define __global__
#define __device__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__
#define __shared__ static __attribute__((section("hopfed_shared")))
#define __align__(n) __attribute__((aligned(n)))
#define DYNAMIC_SHARED(T, name) T* name = reinterpret_cast<T*>(emu::shared.data())

// All static shared memory of a file; the linker names the ends of a section.
extern "C" __attribute__((weak)) char __start_hopfed_shared[], __stop_hopfed_shared[];

struct __align__(16) uint4 {
    unsigned x, y, z, w;
};
static void __stcg(uint4* to, uint4 value) { *to = value; }

struct Dim {
    unsigned x, y, z;
};
static Dim threadIdx, blockIdx, blockDim, gridDim;

namespace emu {
struct Gate {  // a barrier that can be used again
    int arrived = 0, generation = 0;
};
struct Fibre {
    ucontext_t context;  // to enter the stack once; after that setjmp, which makes no system call
    jmp_buf place;
    std::vector<char> stack;
    bool started = false, done = false, held = false;  // held: at a barrier of the whole block
};
static std::vector<Fibre> fibres;
static std::vector<Gate> warps;
static std::vector<u64> slots;   // a value of each thread, for warp operations
static std::vector<u32> words;   // six words of each thread, for the matrix instruction
static std::vector<double> shared;
struct Copy {
    void* to;
    const void* from;
    size_t bytes;
    bool there;
};
static std::vector<std::vector<Copy>> copies;  // of each thread, under way
static bool crooked;  // one that starts or ends where it may not
static Gate block;
static jmp_buf scheduler;
static int current;
static i64 moves;  // arrivals at barriers, departures from them, and ends of threads
// In which the threads of a block run: 0 forward, 1 reversed, 2 strided, all of them in turn; 3 and
// 4 warp by warp, each as far as it can without the others, from the first or from the last.
static int order;

static int place(int i, int threads) {
    if (order == 2) return int((i * 37ll + 5) % threads);
    return order == 1 || order == 4 ? threads - 1 - i : i;
}

// What nobody has written: NaN as float and double, all bits set as a word.
static void poison() {
    memset(shared.data(), 0xff, 8 * shared.size());
    if (__start_hopfed_shared != nullptr)
        memset(__start_hopfed_shared, 0xff, __stop_hopfed_shared - __start_hopfed_shared);
}

static void yield() {
    if (!_setjmp(fibres[current].place)) _longjmp(scheduler, 1);
}
static void wait(Gate& gate, int members) {
    int generation = gate.generation;
    ++moves;
    if (++gate.arrived == members) {
        gate.arrived = 0;
        ++gate.generation;
    }
    while (gate.generation == generation) {
        fibres[current].held = &gate == &block;
        yield();
    }
    fibres[current].held = false;
    ++moves;
}
static void wait_warp() { wait(warps[current / 32], 32); }

template <class... A, size_t... I>
static void apply(void (*kernel)(A...), void** args, std::index_sequence<I...>) {
    kernel(*static_cast<A*>(args[I])...);
}
template <class... A>
static void apply(void (*kernel)(A...), void** args) {
    apply(kernel, args, std::index_sequence_for<A...>());
}

template <class K>
struct Launch {
    static K kernel;
    static void** args;
    static void enter() {
        apply(kernel, args);
        fibres[current].done = true;
        ++moves;
        _longjmp(scheduler, 1);
    }
};
template <class K>
K Launch<K>::kernel;
template <class K>
void** Launch<K>::args;

static void __attribute__((noinline)) resume(Fibre& f) {
    if (_setjmp(scheduler)) return;
    if (f.started) _longjmp(f.place, 1);
    f.started = true;
    setcontext(&f.context);
}

// A turn for each of some threads; return how many of them have not come to their end.
static int turns(int first, int number, int threads) {
    int left = 0;
    for (int turn = first; turn < first + number; ++turn) {
        int i = place(turn, threads);
        if (fibres[i].done) continue;
        current = i;
        threadIdx.x = i;
        resume(fibres[i]);
        left += !fibres[i].done;
    }
    return left;
}

// Turns of a warp until its threads wait for the other warps, for one that has ended, or end.
static int advance(int first, int threads) {
    for (;;) {
        i64 before = moves;
        int left = turns(first, 32, threads), held = 0;
        for (int turn = first; turn < first + 32; ++turn) {
            const Fibre& f = fibres[place(turn, threads)];
            held += f.held && !f.done;
        }
        if (held == left || moves == before) return left;
    }
}

// Whether all threads came to their end: one that left others at a barrier is waited for in vain.
template <class K>
static bool run_block(int threads) {
    poison();
    for (int i = 0; i < threads; ++i) {
        Fibre& f = fibres[i];
        copies[i].clear();
        f.started = f.done = f.held = false;
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.data();
        f.context.uc_stack.ss_size = f.stack.size();
        f.context.uc_link = nullptr;
        makecontext(&f.context, Launch<K>::enter, 0);
    }
    int together = order < 3 ? threads : 32;
    for (int left = threads; left;) {
        i64 before = moves;
        left = 0;
        for (int first = 0; first < threads; first += together)
            left += order < 3 ? turns(first, together, threads) : advance(first, threads);
        if (moves == before) return false;
    }
    return true;
}

// Same arguments as cuLaunchKernel: the kernel's own come as pointers to their values.
template <class K>
static int launch(K kernel, const int* grid, int threads, int bytes, void** args) {
    Launch<K>::kernel = kernel;
    Launch<K>::args = args;
    fibres.resize(threads);
    for (Fibre& f : fibres) f.stack.resize(1 << 16);
    warps.assign(threads / 32, Gate());
    slots.assign(threads, 0);
    words.assign(6 * threads, 0);
    copies.resize(threads);
    crooked = false;
    block = Gate();
    shared.resize(bytes / 8 + 1);
    gridDim = {unsigned(grid[0]), unsigned(grid[1]), 1};
    blockDim = {unsigned(threads), 1, 1};
    for (unsigned y = 0; y < gridDim.y; ++y)
        for (unsigned x = 0; x < gridDim.x; ++x) {
            blockIdx = {x, y, 0};
            if (!run_block<K>(threads)) return 0;
        }
    return crooked ? 2 : 1;
}
}  // namespace emu

extern "C" void set_order(int order) { emu::order = order; }

#define EXPORT(name)                                                                       \
    extern "C" int launch_##name(const int* grid, int threads, int bytes, void** args) {  \
        return emu::launch(name, grid, threads, bytes, args);                              \
    }

static inline void __syncthreads() { emu::wait(emu::block, blockDim.x); }
static inline void __syncwarp() { emu::wait_warp(); }
static inline u32 __ballot_sync(u32, int bit) {
    int me = emu::current, first = me / 32 * 32;
    emu::slots[me] = bit != 0;
    emu::wait_warp();
    u32 mask = 0;
    for (int i = 0; i < 32; ++i) mask |= u32(emu::slots[first + i]) << i;
    emu::wait_warp();
    return mask;
}
static inline int __shfl_sync(u32, int value, int lane) {
    int me = emu::current;
    emu::slots[me] = u32(value);
    emu::wait_warp();
    int got = int(u32(emu::slots[me / 32 * 32 + lane]));
    emu::wait_warp();
    return got;
}
static inline int __popcll(u64 x) { return __builtin_popcountll(x); }
static inline int __popc(u32 x) { return __builtin_popcount(x); }
static inline int __ffs(u32 x) { return __builtin_ffs(int(x)); }
template <class T>
static inline T atomicAdd(T* cell, T value) {
    T old = *cell;
    *cell += value;
    return old;
}
static inline u32 atomicOr(u32* cell, u32 value) {
    u32 old = *cell;
    *cell |= value;
    return old;
}

template <int BYTES>
static inline void copy_async(void* to, const void* from, bool there) {
    emu::crooked |= (reinterpret_cast<u64>(to) | reinterpret_cast<u64>(from)) % BYTES != 0;
    memset(to, 0xff, BYTES);
    emu::copies[emu::current].push_back({to, from, BYTES, there});
}
static inline void copies_commit() { emu::copies[emu::current].push_back({}); }
template <int LEFT>
static inline void copies_wait() {
    std::vector<emu::Copy>& all = emu::copies[emu::current];
    size_t groups = 0, done = 0;
    for (const emu::Copy& copy : all) groups += copy.to == nullptr;
    for (; groups > LEFT; ++done) {  // a null copy ends a group
        const emu::Copy& copy = all[done];
        if (copy.to == nullptr)
            --groups;
        else if (copy.there)
            memcpy(copy.to, copy.from, copy.bytes);
        else
            memset(copy.to, 0, copy.bytes);
    }
    all.erase(all.begin(), all.begin() + done);
}

// Matrix instructions, from their fragments as the PTX manual lays them out.
template <class C, class F>
static void multiply(C c[4], const u32 a[4], const u32 b[2], F product) {
    int me = emu::current, first = me / 32 * 32, lane = me % 32;
    for (int i = 0; i < 4; ++i) emu::words[6 * me + i] = a[i];
    for (int i = 0; i < 2; ++i) emu::words[6 * me + 4 + i] = b[i];
    emu::wait_warp();
    for (int i = 0; i < 4; ++i) {
        int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
        for (int word = 0; word < 8; ++word) {
            const u32* x = &emu::words[6 * (first + 4 * (row % 8) + word % 4)];
            const u32* y = &emu::words[6 * (first + 4 * column + word % 4)];
            c[i] += product(x[row / 8 + 2 * (word / 4)], y[4 + word / 4]);
        }
    }
    emu::wait_warp();
}
inline void mma_and(int c[4], const u32 a[4], const u32 b[2]) {
    multiply(c, a, b, [](u32 x, u32 y) { return __builtin_popcount(x & y); });
}
inline void mma_bf16(float c[4], const u32 a[4], const u32 b[2]) {
    auto number = [](u32 x) {
        float found;
        memcpy(&found, &x, 4);
        return found;
    };
    multiply(c, a, b, [&](u32 x, u32 y) {
        return number(x << 16) * number(y << 16) + number(x & ~0xffffu) * number(y & ~0xffffu);
    });
}
#endif
