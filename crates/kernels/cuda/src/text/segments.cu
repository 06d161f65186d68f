// Updates in order: pairs (to, from) sorted by `to`, stably. The first pair of each run of equal destinations folds the run.
// KIND: 0 set (the last wins), 1 add, 2 mul, 3 max, 4 min. Every destination receives a slice of `width` elements.

D C fold(C a, C b) {
#if KIND == 0
    return b;
#elif KIND == 1
    return a + b;
#elif KIND == 2
    return a * b;
#elif KIND == 3
    return b > a || b != b ? b : a;
#else
    return b < a || b != b ? b : a;
#endif
}

// `skip`: a destination left alone.
extern "C" __global__ void entry(const u64* to, const u64* order, const i64* from, i64 n, const T* src, O* out, i64 width,
                                 i64 src_stride, i64 out_row_stride, i64 out_stride, u64 skip) {
    for (i64 i = first_position(); i < n * width; i += position_step()) {
        const i64 first = i / width, j = i % width;
        const u64 key = to[first];
        if ((first > 0 && to[first - 1] == key) || key == skip) continue;
        O* o = out + (i64)key * out_row_stride + j * out_stride;
        C acc = get<C>(o);
        for (i64 k = first; k < n && to[k] == key; k++) acc = fold(acc, get<C>(src + from[order[k]] + j * src_stride));
        put(o, acc);
    }
}
