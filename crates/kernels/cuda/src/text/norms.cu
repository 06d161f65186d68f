// Norms of dense runs of memory, a block a chunk (chunks.cu). KIND 0: roots of sums of squares, 1: sums of absolute values, 2: their
// maxima. A block leaves its sum in `partial`; the one that comes last to a tensor joins the tensor's, in their order.

struct Table {
    P* p[MAX_TENSORS];
    i64 n[MAX_TENSORS];
    u32 first[MAX_TENSORS + 1];
    i32 n_tensors;
};

D C join(C a, C b) { return KIND == 2 ? greater(a, b) : a + b; }
D C part_of(C x) { return KIND == 0 ? x * x : x < (C)0 ? -x : x; }

extern "C" __global__ void __launch_bounds__(256) entry(const __grid_constant__ Table t, P* out, i64 step, C* partial, u32* tickets) {
    __shared__ C room[256];
    __shared__ u32 last_rows[256];
    const Place p = place(1);
    const int k = tensor_of(t.first, t.n_tensors, blockIdx.x);
    const i64 begin = (i64)(blockIdx.x - t.first[k]) * CHUNK, end = begin + CHUNK < t.n[k] ? begin + CHUNK : t.n[k];
    const P* const from = t.p[k];
    C acc = (C)0;
    i64 i = begin + threadIdx.x;
    if (is_even(from)) {
        for (i64 q = begin / 4 + threadIdx.x; q < end / 4; q += 256) {
            const Four<P> v = ((const Four<P>*)from)[q];
#pragma unroll
            for (int e = 0; e < 4; e++) acc = join(acc, part_of(get<C>(&v.v[e])));
        }
        i = end / 4 * 4 + threadIdx.x;
    }
    for (; i < end; i += 256) acc = join(acc, part_of(get<C>(from + i)));
    acc = combine(acc, room, p, [](C a, C b) { return join(a, b); });
    if (p.i == 0) partial[blockIdx.x] = acc;
    const u32 first = t.first[k], n = t.first[k + 1] - first;
    if (!comes_last(tickets + k, n, true, last_rows, p)) return;
    acc = (C)0;
    for (u32 j = threadIdx.x; j < n; j += 256) acc = join(acc, ((volatile C*)partial)[first + j]);
    acc = combine(acc, room, p, [](C a, C b) { return join(a, b); });
    if (p.i == 0) put(out + k * step, KIND == 0 ? SQRT(acc) : acc);
}
