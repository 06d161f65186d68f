// Inclusive scan along a dimension, of accumulators of type A that are `read` from elements, joined by `fold` and stored as `result`s.
// Rows of threads scan tile by tile with a carry; `across` 1 is a plain loop.

extern "C" __global__ void __launch_bounds__(1024) entry(i32 by_x, const T* x, O* out, i64 n, i64 out_stride, i64 x_stride,
                                 const __grid_constant__ Geo<2> kept) {
    __shared__ A room[1024];
    const Place p = place(by_x);
    for (i64 block = blockIdx.x; block * p.rows < kept.n; block += gridDim.x) {
        const i64 row = block * p.rows + p.row;
        const bool live = row < kept.n;
        i64 at[2];
        locate(kept, live ? row : 0, at);
        A carry = A();
        for (i64 base = 0; base < n; base += p.across) {
            const i64 i = base + p.i;
            const bool inside = live && i < n;
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
            if (base > 0) v = fold(carry, v);
            if (inside) put(out + at[0] + i * out_stride, result(v));
            const A last = room[(p.across - 1) * p.rows + p.row];
            carry = base > 0 ? fold(carry, last) : last;
            __syncthreads();
        }
    }
}
