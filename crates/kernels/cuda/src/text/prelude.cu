// What every kernel text starts with: element types, geometry of strided operands, reductions across threads.
// No headers: half types are 16-bit integers, converted by the device's instructions, or where those are missing by arithmetic.
// MAX_DIMS comes from the host.

typedef unsigned char u8;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
struct b8 { u8 v; };
struct f16 { unsigned short v; };
struct bf16 { unsigned short v; };

#define D static __device__ __forceinline__

// The number an element stands for: f32, f64 or i64.
D f32 wide(f32 x) { return x; }
D f64 wide(f64 x) { return x; }
D i64 wide(i64 x) { return x; }
D i64 wide(i32 x) { return x; }
D i64 wide(i16 x) { return x; }
D i64 wide(i8 x) { return x; }
D i64 wide(u8 x) { return x; }
D i64 wide(b8 x) { return x.v != 0; }
D f32 wide(bf16 x) { return __uint_as_float((u32)x.v << 16); }
#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 800
D f32 wide(f16 x) {
    f32 r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.v));
    return r;
}
#else
D f32 wide(f16 x) {
    const u32 m = x.v & 0x7fff, sign = (u32)(x.v & 0x8000) << 16;
    // The exponent is rebased by a multiplication, which is right for subnormal numbers too.
    const u32 b = m >= 0x7c00 ? m << 13 | 0x7f800000 : __float_as_uint(__uint_as_float(m << 13) * 5.192296858534828e33f);
    return __uint_as_float(b | sign);
}
#endif
template <class C, class T> D C get(const T* p) { return (C)wide(*p); }

// Stores a number as an element.
template <class T, class V> D void put(T* p, V v) { *p = (T)v; }
template <class V> D void put(u8* p, V v) { *p = (u8)(i64)v; }
template <class V> D void put(i8* p, V v) { *p = (i8)(i64)v; }
template <class V> D void put(i16* p, V v) { *p = (i16)(i64)v; }
template <class V> D void put(i32* p, V v) { *p = (i32)(i64)v; }
template <class V> D void put(b8* p, V v) { p->v = v != (V)0; }
#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 800
template <class V> D void put(f16* p, V v) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(p->v) : "f"((f32)v)); }
template <class V> D void put(bf16* p, V v) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(p->v) : "f"((f32)v)); }
#else
template <class V> D void put(f16* p, V v) {
    const u32 bits = __float_as_uint((f32)v), sign = bits >> 16 & 0x8000, b = bits & 0x7fffffff;
    u32 h;
    if (b >= 0x47800000)
        h = b > 0x7f800000 ? 0x7e00 : 0x7c00;
    else if (b < 0x38800000)
        // Adding a half lets the float unit round a subnormal number.
        h = __float_as_uint(__uint_as_float(b) + 0.5f) - 0x3f000000;
    else
        h = (b + 0xc8000fff + (b >> 13 & 1)) >> 13;
    p->v = (unsigned short)(h | sign);
}
template <class V> D void put(bf16* p, V v) {
    u32 b = __float_as_uint((f32)v);
    // To nearest, ties to even; a NaN stays one.
    b = (b & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : b + 0x7fff + ((b >> 16) & 1);
    p->v = (unsigned short)(b >> 16);
}
#endif

// The loop nest of K operands: sizes, and each operand's strides in elements.
template <int K> struct Geo {
    i64 n;
    i32 nd, pad;
    i64 sizes[MAX_DIMS];
    i64 strides[K][MAX_DIMS];
};

// Every operand's offset at a row-major position.
template <int K> D void locate(const Geo<K>& g, i64 position, i64* at) {
    for (int k = 0; k < K; k++) at[k] = 0;
    if (g.n <= 0x7fffffff) {
        u32 rest = (u32)position;
        for (int d = g.nd - 1; d > 0; d--) {
            u32 size = (u32)g.sizes[d], up = rest / size;
            i64 c = rest - up * size;
            rest = up;
            for (int k = 0; k < K; k++) at[k] += c * g.strides[k][d];
        }
        if (g.nd > 0)
            for (int k = 0; k < K; k++) at[k] += (i64)rest * g.strides[k][0];
    } else {
        i64 rest = position;
        for (int d = g.nd - 1; d > 0; d--) {
            i64 size = g.sizes[d], up = rest / size, c = rest - up * size;
            rest = up;
            for (int k = 0; k < K; k++) at[k] += c * g.strides[k][d];
        }
        if (g.nd > 0)
            for (int k = 0; k < K; k++) at[k] += rest * g.strides[k][0];
    }
}

// Positions of a grid-stride loop.
D i64 first_position() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
D i64 position_step() { return (i64)gridDim.x * blockDim.x; }

// Kernels whose blocks may have more than 256 threads say so with __launch_bounds__: it limits their registers.

// A block's threads as `across` along a row of work and `rows` rows at once. `by_x` says which of the two the neighbouring
// threads walk, so that they touch neighbouring memory.
struct Place {
    i32 i, row, across, rows, by_x;
};
D Place place(i32 by_x) {
    Place p;
    p.by_x = by_x;
    p.i = by_x ? threadIdx.x : threadIdx.y;
    p.row = by_x ? threadIdx.y : threadIdx.x;
    p.across = by_x ? blockDim.x : blockDim.y;
    p.rows = by_x ? blockDim.y : blockDim.x;
    return p;
}

// A value of another lane of the warp: `down` lanes further on, or the first, among `lanes` neighbours.
template <class A> D A lane_value(A v, int down, int lanes, bool first) {
    static_assert(sizeof(A) % 4 == 0, "values are exchanged in words of four bytes");
    u32 words[sizeof(A) / 4];
    memcpy(words, &v, sizeof(A));
    for (int k = 0; k < (int)(sizeof(A) / 4); k++)
        words[k] = first ? __shfl_sync(0xffffffffu, words[k], 0, lanes) : __shfl_down_sync(0xffffffffu, words[k], down, lanes);
    memcpy(&v, words, sizeof(A));
    return v;
}

// Combines one value of every thread along `across` (a power of two); all threads of the row get the result. `room` holds
// one value a thread of the block. Rows along x are neighbours in warps: shuffles, and one exchange between warps.
template <class A, class F> D A combine(A v, A* room, Place p, F f) {
    if (p.by_x) {
        const int lanes = p.across < 32 ? p.across : 32;
        for (int s = lanes / 2; s > 0; s >>= 1) v = f(v, lane_value(v, s, lanes, false));
        if (p.across <= 32) return lane_value(v, 0, lanes, true);
        const int warps = p.across / 32, warp = (p.row * p.across + p.i) / 32;
        if (p.i % 32 == 0) room[warp] = v;
        __syncthreads();
        v = room[p.row * warps];
        for (int k = 1; k < warps; k++) v = f(v, room[p.row * warps + k]);
        __syncthreads();
        return v;
    }
    room[p.i * p.rows + p.row] = v;
    __syncthreads();
    for (int s = p.across / 2; s > 0; s >>= 1) {
        if (p.i < s) room[p.i * p.rows + p.row] = f(room[p.i * p.rows + p.row], room[(p.i + s) * p.rows + p.row]);
        __syncthreads();
    }
    v = room[p.row];
    __syncthreads();
    return v;
}

// Whether a row of threads is the last of `n` to come here with the same ticket: it sees what the others' first threads wrote
// before. All threads of the block call it; `room` holds a number a row. Tickets are zero before and after a launch.
D bool comes_last(u32* ticket, i64 n, bool live, u32* room, Place p) {
    if (p.i == 0) {
        u32 last = 0;
        if (live) {
            __threadfence();
            last = atomicAdd(ticket, 1u) == (u32)n - 1;
            if (last) *ticket = 0;
            __threadfence();
        }
        room[p.row] = last;
    }
    __syncthreads();
    const bool last = room[p.row] != 0;
    __syncthreads();
    return last;
}

template <class A> D A add(A a, A b) { return a + b; }
template <class A> D A greater(A a, A b) { return a > b || a != a ? a : b; }
template <class A> D A smaller(A a, A b) { return a < b || a != a ? a : b; }

// What the host hears of at its next synchronisation.
struct Fault {
    i64 kind, value, dim, size;
};
D void report(Fault* f, i64 kind, i64 value, i64 dim, i64 size) {
    volatile Fault* v = f;
    v->value = value;
    v->dim = dim;
    v->size = size;
    __threadfence_system();
    v->kind = kind;
}
// The end of the prelude.
