// One step of a rule over many tensors at once, a block a chunk (chunks.cu). Flat tensors (all operands dense in one order) are
// walked as one run of memory. Numbers of the step, grad_scale and found_inf are read on the device. The rule's two functions,
// `scalars` and `step`, stand above.

struct Table {
    P* p[MAX_TENSORS];
    S* s[MAX_STATES][MAX_TENSORS];
    const G* g[MAX_TENSORS];
    i64 n[MAX_TENSORS];
    u32 first[MAX_TENSORS + 1];
    i32 n_tensors;
};
// A 0-dim number of any float dtype (host's dtype numbers).
struct Number {
    const void* at;
    i64 dtype;
};
struct Step {
    Number numbers[MAX_NUMBERS];
    Number scale, found_inf;
    f64 hyper[MAX_HYPER];
    // In their place, where they are on the device.
    const f64* live;
    i64 maximize;
};
D f64 read(Number x, f64 absent) {
    if (!x.at) return absent;
    switch (x.dtype) {
        case 6: return wide(*(const f16*)x.at);
        case 7: return wide(*(const bf16*)x.at);
        case 8: return *(const f32*)x.at;
        default: return *(const f64*)x.at;
    }
}

D void one(P* p, S* const* s, const G* g, const C* c, C factor) {
    C x = get<C>(p), state[MAX_STATES] = {};
    for (int j = 0; j < N_STATES; j++) state[j] = get<C>(s[j]);
    step(x, get<C>(g) * factor, state, c);
    put(p, x);
    for (int j = 0; j < N_STATES; j++) put(s[j], state[j]);
}

extern "C" __global__ void __launch_bounds__(256) entry(const __grid_constant__ Table t, const __grid_constant__ Step of) {
    __shared__ C shared[MAX_SCALARS + 1];
    if (read(of.found_inf, 0.0) != 0.0) return;
    // The constants need powers in f64: once a block.
    if (threadIdx.x == 0) {
        f64 x[MAX_NUMBERS], constants[MAX_SCALARS];
        for (int i = 0; i < MAX_NUMBERS; i++) x[i] = read(of.numbers[i], 0.0);
        scalars(of.live ? of.live : of.hyper, x, constants);
        for (int i = 0; i < MAX_SCALARS; i++) shared[i] = (C)constants[i];
        shared[MAX_SCALARS] = (C)((of.maximize ? -1.0 : 1.0) / read(of.scale, 1.0));
    }
    __syncthreads();
    C c[MAX_SCALARS];
    for (int i = 0; i < MAX_SCALARS; i++) c[i] = shared[i];
    const C factor = shared[MAX_SCALARS];
    const int k = tensor_of(t.first, t.n_tensors, blockIdx.x);
    const i64 begin = (i64)(blockIdx.x - t.first[k]) * CHUNK, end = begin + CHUNK < t.n[k] ? begin + CHUNK : t.n[k];
    P* const p = t.p[k];
    const G* const g = t.g[k];
    S* s[MAX_STATES];
    bool even = is_even(p) && is_even(g);
    for (int j = 0; j < N_STATES; j++) {
        s[j] = t.s[j][k];
        even = even && is_even(s[j]);
    }
    i64 i = begin + threadIdx.x;
    if (even) {
        // Chunks begin at multiples of four.
        for (i64 q = begin / 4 + threadIdx.x; q < end / 4; q += 256) {
            Four<P> ps = ((Four<P>*)p)[q];
            const Four<G> gs = ((const Four<G>*)g)[q];
            Four<S> ss[MAX_STATES];
            for (int j = 0; j < N_STATES; j++) ss[j] = ((Four<S>*)s[j])[q];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                S* at[MAX_STATES];
                for (int j = 0; j < N_STATES; j++) at[j] = &ss[j].v[e];
                one(&ps.v[e], at, &gs.v[e], c, factor);
            }
            ((Four<P>*)p)[q] = ps;
            for (int j = 0; j < N_STATES; j++) ((Four<S>*)s[j])[q] = ss[j];
        }
        i = end / 4 * 4 + threadIdx.x;
    }
    for (; i < end; i += 256) {
        S* at[MAX_STATES];
        for (int j = 0; j < N_STATES; j++) at[j] = s[j] + i;
        one(p + i, at, g + i, c, factor);
    }
}
