// ARG_REDUCE: the extreme along a dimension and the index of its first place; NaN wins.

struct Best {
    C value;
    i64 index;
};
D bool is_nan(C v) { return v != v; }
D Best better(Best a, Best b) {
    if (a.index < 0) return b;
    if (b.index < 0) return a;
    const bool an = is_nan(a.value), bn = is_nan(b.value);
    if (an || bn) {
        if (an && bn) return a.index < b.index ? a : b;
        return an ? a : b;
    }
    if (a.value == b.value) return a.index < b.index ? a : b;
    return (IS_MAX ? a.value > b.value : a.value < b.value) ? a : b;
}

extern "C" __global__ void __launch_bounds__(1024) entry(i32 by_x, const T* x, T* values, i64* indices, i64 n, i64 stride,
                                 const __grid_constant__ Geo<3> kept) {
    __shared__ Best room[1024];
    const Place p = place(by_x);
    for (i64 block = blockIdx.x; block * p.rows < kept.n; block += gridDim.x) {
        const i64 row = block * p.rows + p.row;
        const bool live = row < kept.n;
        i64 at[3];
        locate(kept, live ? row : 0, at);
        Best best;
        best.value = (C)0;
        best.index = -1;
        for (i64 i = p.i; live && i < n; i += p.across) {
            Best b;
            b.value = get<C>(x + at[0] + i * stride);
            b.index = i;
            best = better(best, b);
        }
        best = combine(best, room, p, [](Best a, Best b) { return better(a, b); });
        if (live && p.i == 0 && best.index >= 0) {
            if (values) values[at[1]] = x[at[0] + best.index * stride];
            if (indices) indices[at[2]] = best.index;
        }
    }
}
