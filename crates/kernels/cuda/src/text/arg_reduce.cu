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

// Long rows are cut in `parts`: a first launch leaves the index of every part's best in `partial`, a second one (`of`) takes the
// best of those. An empty part has none: -1.
extern "C" __global__ void __launch_bounds__(1024) entry(i32 by_x, i64 parts, i64* partial, const i64* of, const T* x, T* values,
                                 i64* indices, i64 n, i64 stride, const __grid_constant__ Geo<3> kept) {
    __shared__ Best room[1024];
    const Place p = place(by_x);
    const i64 length = (n + parts - 1) / parts;
    for (i64 block = blockIdx.x; block * p.rows < kept.n * parts; block += gridDim.x) {
        const i64 unit = block * p.rows + p.row;
        const bool live = unit < kept.n * parts;
        i64 at[3];
        locate(kept, live ? unit / parts : 0, at);
        Best best;
        best.value = (C)0;
        best.index = -1;
        const i64 first = unit % parts * length, end = first + length < n ? first + length : n;
        for (i64 i = first + p.i; live && i < end; i += p.across) {
            Best b;
            b.index = of ? of[unit * n + i] : i;
            b.value = b.index < 0 ? (C)0 : get<C>(x + at[0] + b.index * stride);
            best = better(best, b);
        }
        best = combine(best, room, p, [](Best a, Best b) { return better(a, b); });
        if (!live || p.i != 0) continue;
        if (partial) {
            partial[unit] = best.index;
        } else if (best.index >= 0) {
            if (values) values[at[1]] = x[at[0] + best.index * stride];
            if (indices) indices[at[2]] = best.index;
        }
    }
}
