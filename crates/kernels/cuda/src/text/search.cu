// SEARCHSORTED. Operands: out, values, the row of the sorted, the row of the sorter.

// As in PyTorch, where no comparison with NaN holds: what is not greater stands before the key.
D bool stands_before(C x, C key, i32 right) { return right ? !(x > key) : !(x >= key); }

extern "C" __global__ void entry(const T* sorted, i64 step, const T* values, const i64* sorter, i64 sorter_step, O* out, i64 n,
                                 i32 right, Fault* fault, const __grid_constant__ Geo<4> g) {
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[4];
        locate(g, i, at);
        const C key = get<C>(values + at[1]);
        i64 from = 0, end = n;
        while (from < end) {
            const i64 mid = from + (end - from) / 2;
            i64 place = mid;
            if (sorter) {
                place = sorter[at[3] + mid * sorter_step];
                if (place < 0 || place >= n) {
                    report(fault, 5, place, 0, n);
                    break;
                }
            }
            const C x = get<C>(sorted + at[2] + place * step);
            if (stands_before(x, key, right))
                from = mid + 1;
            else
                end = mid;
        }
        put(out + at[0], from);
    }
}
