// What ATTENTION needs around cuDNN. PART 0: a mask of truth values as numbers that are added; 1: what dropout keeps, as zeros and
// ones; 2: rows that see no key give zeros, and the statistics that the backward expects. Of all three `to` is the result.

#if PART == 0
// `sizes`: 1 where the mask is the same along a dimension.
extern "C" __global__ void entry(const __grid_constant__ Problem p, i64 b, i64 h, i64 rows, T* to) {
    const i64 n = b * h * rows * p.keys;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 rest = i;
        const i64 key = rest % p.keys;
        rest /= p.keys;
        const i64 row = rest % rows;
        rest /= rows;
        const M* m = p.mask + rest / h * p.m[0] + rest % h * p.m[1] + row * p.m[2] + key * p.m[3];
        put(to + i, wide(*m) == 0 ? LOWEST : (C)0);
    }
}
#elif PART == 1
extern "C" __global__ void entry(const __grid_constant__ Problem p, i64, i64, i64, T* to) {
    const i64 n = p.batch * p.heads * p.rows * p.keys;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 rest = i;
        const i64 key = rest % p.keys;
        rest /= p.keys;
        const i64 row = rest % p.rows;
        rest /= p.rows;
        put(to + i, kept(p, rest / p.heads, rest % p.heads, row, key) == (C)0 ? (C)0 : (C)1);
    }
}
#else
extern "C" __global__ void entry(const __grid_constant__ Problem p, i64, i64, i64, T* to) {
    const i64 n = p.batch * p.heads * p.rows;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        const i64 row = i % p.rows, head = i / p.rows % p.heads, batch = i / p.rows / p.heads;
        const i64 keys = p.causal && row + 1 < p.keys ? row + 1 : p.keys;
        bool sees = false;
        for (i64 key = 0; key < keys && !sees; key++) {
            const C m = get<C>(p.mask + batch * p.m[0] + head * p.m[1] + row * p.m[2] + key * p.m[3]);
#if MASK_BOOL
            sees = m != (C)0;
#else
            sees = m != LOWEST;
#endif
        }
        if (sees) continue;
        for (i64 c = 0; c < p.value_width; c++)
            put(p.out + batch * p.o[0] + head * p.o[1] + row * p.o[2] + c * p.o[3], (C)0);
        p.lse[batch * p.stat[0] + head * p.stat[1] + row * p.stat[2]] = -LOWEST;
    }
}
#endif
