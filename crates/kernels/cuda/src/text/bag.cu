// EMBEDDING_BAG: a thread a bag and column, rows in the order of the indices. MODE: 0 sum, 1 mean, 2 max.
// A wrong index is reported and left out, wrong offsets are reported and cut.

extern "C" __global__ void entry(const T* weight, i64 down, i64 right, i64 n_rows, const I* index, i64 index_down, i64 index_right,
                                 i64 even, i64 total_indices, const F* offsets, i64 offset_stride, i64 n_offsets,
                                 const T* factors, i64 factor_down, i64 factor_right, T* out, i64 out_down, i64 out_right,
                                 i64* chosen, i64 chosen_down, i64 chosen_right, i64 n_bags, i64 width, i64 padding, i64 start,
                                 i64 total, Fault* fault) {
    for (i64 i = first_position(); i < n_bags * width; i += position_step()) {
        const i64 bag = i / width, column = i % width;
        i64 first = bag * even, end = first + even;
        if (offsets) {
            first = (i64)offsets[bag * offset_stride];
            end = bag + 1 < n_offsets ? (i64)offsets[(bag + 1) * offset_stride] : total_indices;
            if ((bag == 0 && first != 0) || first < 0 || first > end || end > total_indices) {
                report(fault, 4, first, 0, total_indices);
                end = first;
            }
        }
        C acc = MODE == 2 ? LOWEST : (C)0;
        i64 count = 0, best = -1;
        for (i64 k = first; k < end; k++) {
            // The position in rows of `even` indices; one row where there are offsets.
            const i64 r = offsets ? 0 : bag, c = offsets ? k : k - first;
            const i64 raw = (i64)index[r * index_down + c * index_right], row = raw - start;
            if (raw < 0 || raw >= total) {
                report(fault, 1, raw, 0, total);
                continue;
            }
            if (raw == padding) continue;
            count++;
            if (row < 0 || row >= n_rows) continue;
            const C v = get<C>(weight + row * down + column * right);
#if MODE == 2
            if (best < 0 || v > acc || (v != v && acc == acc)) {
                acc = v;
                best = row;
            }
#else
            acc += factors ? v * get<C>(factors + r * factor_down + c * factor_right) : v;
#endif
        }
#if MODE == 1
        acc *= (C)(1.0 / (f64)(count > 0 ? count : 1));
#elif MODE == 2
        if (best < 0) acc = (C)0;
        chosen[bag * chosen_down + column * chosen_right] = best;
#endif
        put(out + bag * out_down + column * out_right, acc);
    }
}
