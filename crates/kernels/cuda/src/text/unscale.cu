// Dense runs of memory are multiplied by a number on the device, a block a chunk (chunks.cu); a flag is raised where an element
// was not finite.

struct Table {
    P* p[MAX_TENSORS];
    i64 n[MAX_TENSORS];
    u32 first[MAX_TENSORS + 1];
    i32 n_tensors;
};

extern "C" __global__ void __launch_bounds__(256) entry(const __grid_constant__ Table t, const F* factor_at, f32* flag) {
    const C factor = get<C>(factor_at);
    const int k = tensor_of(t.first, t.n_tensors, blockIdx.x);
    const i64 begin = (i64)(blockIdx.x - t.first[k]) * CHUNK, end = begin + CHUNK < t.n[k] ? begin + CHUNK : t.n[k];
    P* const p = t.p[k];
    bool bad = false;
    i64 i = begin + threadIdx.x;
    if (is_even(p)) {
        for (i64 q = begin / 4 + threadIdx.x; q < end / 4; q += 256) {
            Four<P> v = ((Four<P>*)p)[q];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const C x = get<C>(&v.v[e]);
                bad |= !(x - x == (C)0);
                put(&v.v[e], x * factor);
            }
            ((Four<P>*)p)[q] = v;
        }
        i = end / 4 * 4 + threadIdx.x;
    }
    for (; i < end; i += 256) {
        const C x = get<C>(p + i);
        bad |= !(x - x == (C)0);
        put(p + i, x * factor);
    }
    if (bad) *flag = 1.0f;
}
