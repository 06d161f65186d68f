// The CUDA language for a host compiler: enough of it to run kernel texts one block after the other, the threads of a block
// as fibers. Threads of a block run in an order that EMULATOR_SEED chooses, each until it must wait for its warp or its block,
// so that a missing barrier shows. `warp.h` has what the lanes of a warp do together. A launch is `emulated_launch`.
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tuple>
#include <utility>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct Index3 {
    unsigned x, y, z;
};
static Index3 threadIdx, blockIdx, blockDim, gridDim;

static inline float __uint_as_float(unsigned v) { float r; memcpy(&r, &v, 4); return r; }
static inline unsigned __float_as_uint(float v) { unsigned r; memcpy(&r, &v, 4); return r; }
static inline float __int_as_float(int v) { float r; memcpy(&r, &v, 4); return r; }
static inline int __float_as_int(float v) { int r; memcpy(&r, &v, 4); return r; }
static inline double __longlong_as_double(long long v) { double r; memcpy(&r, &v, 8); return r; }
static inline long long __double_as_longlong(double v) { long long r; memcpy(&r, &v, 8); return r; }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
static inline void __threadfence_system() {}
static inline void __threadfence() {}
static inline unsigned atomicAdd(unsigned* p, unsigned v) { unsigned old = *p; *p += v; return old; }

// Saves the callee-saved registers and the stack pointer at *save, and goes on where `load` was saved (x86-64).
extern "C" __attribute__((visibility("hidden"))) void emulator_switch(void** save, void* load);
asm(R"(
    .text
    .hidden emulator_switch
    .globl emulator_switch
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

extern "C" const char emulated_name[];

// What a launch asks for with `extern __shared__`, which names it `dynamic_shared` in every text.
alignas(128) static unsigned char dynamic_shared[227 << 10];

namespace emulator {
enum State { RUNNING, AT_BARRIER, IN_WARP, DONE };
// A copy that was issued and may not be done.
struct AsyncCopy {
    void* to;
    const void* from;
    unsigned bytes;
};
struct Warp {
    alignas(16) unsigned char slots[2][32][32];
    unsigned arrived, n_lanes, first;
    const char* what;
};
struct Fiber {
    void* at;
    char* stack;
    State state;
    unsigned id;
    Warp* warp;
    // Meetings of its warp so far.
    unsigned turn;
    // Copies by group; the last group is open.
    std::vector<std::vector<AsyncCopy>> copies;
};
static void* scheduler;
static Fiber *current, *fibers;
static void (*body)(void**);
static void** arguments;
static const size_t STACK = 64 << 10;
// Fibers that can go on.
static unsigned* ready;
static unsigned n_ready;
// Why the launch fails.
static const char* failure;
static bool is_misaligned, in_fibers;
static jmp_buf stop;
static uint64_t noise;
static bool early_copies;

// Pseudo-random numbers of the seed.
static inline unsigned draw() {
    noise ^= noise << 13;
    noise ^= noise >> 7;
    noise ^= noise << 17;
    return (unsigned)(noise >> 32);
}
// A start for `draw`: neighbouring numbers have nothing in common (SplitMix64).
static uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return (x ^ x >> 31) | 1;
}
static uint64_t seed() {
    const char* text = getenv("EMULATOR_SEED");
    return text ? strtoull(text, nullptr, 10) : 1;
}
static void resume(unsigned id) {
    fibers[id].state = RUNNING;
    ready[n_ready++] = id;
}
static void pause(State state) {
    current->state = state;
    emulator_switch(&current->at, scheduler);
}
static void run_fiber() {
    body(arguments);
    current->state = DONE;
    emulator_switch(&current->at, scheduler);
}
// Runs a block. Returns false where not all threads reach a barrier, or not all lanes of a warp an instruction of the warp.
static bool run_block(Warp* warps, unsigned n) {
    for (unsigned w = 0; w * 32 < n; w++) {
        warps[w].arrived = 0;
        warps[w].first = w * 32;
        warps[w].n_lanes = n - w * 32 < 32 ? n - w * 32 : 32;
    }
    n_ready = 0;
    for (unsigned i = 0; i < n; i++) {
        // Six registers, the entry as a return address, and a place that keeps the stack aligned as after a call.
        void** top = (void**)(fibers[i].stack + STACK) - 2;
        top[0] = (void*)run_fiber;
        fibers[i].at = top - 6;
        fibers[i].id = i;
        fibers[i].turn = 0;
        fibers[i].warp = &warps[i / 32];
        fibers[i].copies.assign(1, {});
        resume(i);
    }
    for (unsigned done = 0; done < n;) {
        if (n_ready == 0) {
            // Nobody can go on: all wait for the block, or some for what never comes.
            for (unsigned i = 0; i < n; i++)
                if (fibers[i].state != AT_BARRIER) return false;
            for (unsigned i = 0; i < n; i++) resume(i);
        }
        const unsigned pick = draw() % n_ready, i = ready[pick];
        ready[pick] = ready[--n_ready];
        current = &fibers[i];
        threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
        emulator_switch(&scheduler, current->at);
        if (failure) return false;
        done += current->state == DONE;
    }
    return true;
}
// Runs a block whose threads never wait for each other; false where one was stopped.
static bool run_in_turn(unsigned n) {
    if (_setjmp(stop)) return false;
    for (unsigned i = 0; i < n; i++) {
        threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
        body(arguments);
    }
    return true;
}
}  // namespace emulator

// What the compiler calls before an access that is not aligned. Of its report only the alignment is read.
struct EmulatedMisfit {
    struct {
        const char* file;
        unsigned line, column;
    } where;
    const void* type;
    unsigned char log_alignment, kind;
};
extern "C" __attribute__((visibility("hidden"))) void __ubsan_handle_type_mismatch_v1(EmulatedMisfit* what, void* at) {
    static char text[160];
    snprintf(text, sizeof text, "%s: a misaligned address, %p, of an access of %u bytes", emulated_name, at, 1u << what->log_alignment);
    emulator::failure = text;
    emulator::is_misaligned = true;
    // A fiber never goes on; threads that need none end here together.
    if (emulator::in_fibers) emulator::pause(emulator::DONE);
    _longjmp(emulator::stop, 1);
}

static inline void __syncthreads() { emulator::pause(emulator::AT_BARRIER); }

#include "warp.h"

// A kernel's arguments as the launch gave them: the caller's own may change before the launch's turn comes.
template <class... A> struct EmulatedArguments {
    void* places[sizeof...(A) + 1];
    std::tuple<std::remove_const_t<A>...> values;
    template <size_t... I> EmulatedArguments(void** p, std::index_sequence<I...>)
        : values(*(std::remove_const_t<A>*)p[I]...) {
        void* all[] = {(void*)&std::get<I>(values)..., nullptr};
        memcpy(places, all, sizeof all);
    }
};
template <class... A> static void** emulated_bind(void (*)(A...), void** p) {
    return (new EmulatedArguments<A...>(p, std::index_sequence_for<A...>()))->places;
}
// Shows every word of the arguments that may be an address, in structs too.
template <class T> static void emulated_show_one(void* place, void (*see)(void*, uint64_t), void* of) {
    for (size_t at = 0; alignof(T) == 8 && at < sizeof(T); at += 8) see(of, *(uint64_t*)((char*)place + at));
}
template <class... A> static void emulated_show(void (*)(A...), void** p, void (*see)(void*, uint64_t), void* of) {
    size_t i = 0;
    (emulated_show_one<std::remove_const_t<A>>(p[i++], see, of), ...);
}
template <class... A> static void emulated_unbind(void (*)(A...), void** bound) { delete (EmulatedArguments<A...>*)bound; }
template <class... A, size_t... I>
static void emulated_call(void (*f)(A...), void** p, std::index_sequence<I...>) {
    f(*(std::remove_const_t<A>*)p[I]...);
}
template <class... A> static void emulated_call(void (*f)(A...), void** p) {
    emulated_call(f, p, std::index_sequence_for<A...>());
}

// 0: done. 1: a bad grid. 2: a barrier that not all threads reached. 3: an access that is not aligned.
static int emulated_run(void (*body)(void**), bool fibers, const unsigned* grid, const unsigned* block, unsigned shared,
                        void** params) {
    const unsigned n = block[0] * block[1] * block[2];
    if (n == 0 || n > 1024 || grid[0] == 0 || grid[0] > 0x7fffffffu || grid[1] == 0 || grid[1] > 65535 || grid[2] == 0 ||
        grid[2] > 65535 || shared > sizeof dynamic_shared)
        return 1;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    emulator::body = body;
    emulator::arguments = params;
    emulator::failure = nullptr;
    emulator::is_misaligned = false;
    emulator::in_fibers = fibers;
    // Every launch has an order of its own.
    static uint64_t n_launches;
    emulator::noise = emulator::mixed(emulator::seed() * 1000003 + n_launches++);
    emulator::early_copies = emulator::draw() & 1;
    emulator::Warp* warps = nullptr;
    char* stacks = nullptr;
    if (fibers) {
        emulator::fibers = new emulator::Fiber[n];
        emulator::ready = new unsigned[n];
        warps = new emulator::Warp[(n + 31) / 32];
        stacks = (char*)aligned_alloc(64, emulator::STACK * n);
        for (unsigned i = 0; i < n; i++) emulator::fibers[i].stack = stacks + emulator::STACK * i;
    }
    bool ok = true;
    // Blocks in the grid's order or against it.
    const uint64_t n_blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    const bool backwards = emulator::draw() & 1;
    for (uint64_t turn = 0; ok && turn < n_blocks; turn++) {
        const uint64_t b = backwards ? n_blocks - 1 - turn : turn;
        blockIdx = {(unsigned)(b % grid[0]), (unsigned)(b / grid[0] % grid[1]), (unsigned)(b / grid[0] / grid[1])};
        if (shared) memset(dynamic_shared, 0xFF, shared);
        ok = fibers ? emulator::run_block(warps, n) : emulator::run_in_turn(n);
    }
    if (emulator::failure) fprintf(stderr, "emulator: %s\n", emulator::failure);
    if (fibers) {
        delete[] emulator::fibers;
        delete[] emulator::ready;
        delete[] warps;
        free(stacks);
    }
    return ok ? 0 : emulator::is_misaligned ? 3 : 2;
}
