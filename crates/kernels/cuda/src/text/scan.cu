// Inclusive scan along a dimension, of accumulators of type A that are `read` from elements, joined by `fold` and stored as `result`s.
// Rows of threads scan tile by tile with a carry; `across` 1 is a plain loop. Long rows are cut in `parts` that are scanned side by
// side: a first launch (`ends` 1) folds every part and leaves its end in `totals`, a second one (`ends` 0) begins with the ends of
// the parts before.

extern "C" __global__ void __launch_bounds__(1024) entry(i32 by_x, i32 ends, i64 parts, A* totals, const T* x, O* out,
                                 i64 n, i64 out_stride, i64 x_stride, const __grid_constant__ Geo<2> kept) {
    __shared__ A room[1024];
    const Place p = place(by_x);
    const i64 length = (n + parts - 1) / parts;
    for (i64 block = blockIdx.x; block * p.rows < kept.n * parts; block += gridDim.x) {
        const i64 unit = block * p.rows + p.row, part = unit % parts;
        const bool live = unit < kept.n * parts;
        i64 at[2];
        locate(kept, live ? unit / parts : 0, at);
        // Nothing has been folded yet where this part is the first.
        bool begun = false;
        A carry = A();
        for (i64 k = 0; live && !ends && k < part; k++) {
            const A total = totals[unit - part + k];
            carry = begun ? fold(carry, total) : total;
            begun = true;
        }
        const i64 first = part * length, end = first + length < n ? first + length : n;
        // As many tiles for all rows of a block: they meet at barriers.
        for (i64 tile = 0; tile < length; tile += p.across) {
            const i64 i = first + tile + p.i;
            const bool inside = live && i < end;
            A v = inside ? read(x + at[1] + i * x_stride) : A();
            // Elements beyond the row come last and are read by nobody.
            room[p.i * p.rows + p.row] = v;
            __syncthreads();
            for (int s = 1; s < p.across; s <<= 1) {
                const A left = p.i >= s ? room[(p.i - s) * p.rows + p.row] : A();
                __syncthreads();
                if (p.i >= s) room[p.i * p.rows + p.row] = v = fold(left, v);
                __syncthreads();
            }
            if (begun) v = fold(carry, v);
            if (inside && !ends) put(out + at[0] + i * out_stride, result(v));
            // Of the last tile, the end of what is inside.
            const i64 rest = end - first - tile;
            if (rest > 0) {
                const A last = room[(rest < p.across ? rest - 1 : p.across - 1) * p.rows + p.row];
                carry = begun ? fold(carry, last) : last;
                begun = true;
            }
            __syncthreads();
        }
        if (live && ends && p.i == 0) totals[unit] = carry;
    }
}
