// The CUDA language for a host compiler: enough of it to run kernel texts one block after the other, the threads of a block
// as fibers that meet at __syncthreads. Everything a launch does is in `emulated_launch`.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utility>

#define __device__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __shared__ static
#define __launch_bounds__(n)

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

namespace emulator {
static void* scheduler;
struct Fiber {
    void* at;
    char* stack;
    bool done;
};
static Fiber* current;
static void (*body)(void**);
static void** arguments;
static const size_t STACK = 64 << 10;

static void run_fiber() {
    body(arguments);
    current->done = true;
    emulator_switch(&current->at, scheduler);
}
// A block with barriers: every fiber runs to its next barrier, round after round. Returns false where some threads ended
// while others waited: a barrier that not all threads reach.
static bool run_block(Fiber* fibers, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        // Six registers, the entry as a return address, and a place that keeps the stack aligned as after a call.
        void** top = (void**)(fibers[i].stack + STACK) - 2;
        top[0] = (void*)run_fiber;
        fibers[i].at = top - 6;
        fibers[i].done = false;
    }
    for (;;) {
        unsigned done = 0;
        for (unsigned i = 0; i < n; i++) {
            current = &fibers[i];
            threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
            if (!current->done) emulator_switch(&scheduler, current->at);
            done += current->done;
        }
        if (done == n) return true;
        if (done > 0) return false;
    }
}
}  // namespace emulator

static inline void __syncthreads() {
    emulator_switch(&emulator::current->at, emulator::scheduler);
}

template <class... A, size_t... I>
static void emulated_call(void (*f)(A...), void** p, std::index_sequence<I...>) {
    f(*(std::remove_const_t<A>*)p[I]...);
}
template <class... A> static void emulated_call(void (*f)(A...), void** p) {
    emulated_call(f, p, std::index_sequence_for<A...>());
}

// 0: done. 1: a bad grid. 2: a barrier that not all threads reached.
static int emulated_run(void (*body)(void**), bool barriers, const unsigned* grid, const unsigned* block, void** params) {
    const unsigned n = block[0] * block[1] * block[2];
    if (n == 0 || n > 1024 || grid[0] == 0 || grid[0] > 0x7fffffffu || grid[1] == 0 || grid[1] > 65535 || grid[2] == 0 ||
        grid[2] > 65535)
        return 1;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    emulator::body = body;
    emulator::arguments = params;
    emulator::Fiber* fibers = nullptr;
    char* stacks = nullptr;
    if (barriers) {
        fibers = new emulator::Fiber[n];
        stacks = (char*)aligned_alloc(64, emulator::STACK * n);
        for (unsigned i = 0; i < n; i++) fibers[i].stack = stacks + emulator::STACK * i;
    }
    bool ok = true;
    for (unsigned z = 0; ok && z < grid[2]; z++)
        for (unsigned y = 0; ok && y < grid[1]; y++)
            for (unsigned x = 0; ok && x < grid[0]; x++) {
                blockIdx = {x, y, z};
                if (barriers) {
                    ok = emulator::run_block(fibers, n);
                } else {
                    for (unsigned i = 0; i < n; i++) {
                        threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
                        body(params);
                    }
                }
            }
    delete[] fibers;
    free(stacks);
    return ok ? 0 : 2;
}
