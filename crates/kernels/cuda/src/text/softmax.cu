// SOFTMAX and its backward along a dimension: a row of threads a row of numbers, one pass for maximum and sum together.

struct Sums {
    C max, sum;
};
D C exponential(C x) { return EXP(x); }
D Sums merge(Sums a, Sums b) {
    Sums r;
    r.max = greater(a.max, b.max);
    // Two empty or minus-infinite sides: nothing to rescale.
    r.sum = a.max == b.max ? a.sum + b.sum : a.sum * exponential(a.max - r.max) + b.sum * exponential(b.max - r.max);
    return r;
}

#if FORWARD
extern "C" __global__ void __launch_bounds__(1024) entry(i32 by_x, const T* x, T* out, i64 n, i64 x_stride, i64 out_stride,
                                 const __grid_constant__ Geo<2> kept) {
    __shared__ Sums room[1024];
    const Place p = place(by_x);
    for (i64 block = blockIdx.x; block * p.rows < kept.n; block += gridDim.x) {
        const i64 row = block * p.rows + p.row;
        const bool live = row < kept.n;
        i64 at[2];
        locate(kept, live ? row : 0, at);
        const T* in = x + at[1];
        Sums s;
        s.max = LOWEST;
        s.sum = (C)0;
        for (i64 i = p.i; live && i < n; i += p.across) {
            Sums one;
            one.max = get<C>(in + i * x_stride);
            one.sum = (C)1;
            s = merge(s, one);
        }
        s = combine(s, room, p, [](Sums a, Sums b) { return merge(a, b); });
        T* o = out + at[0];
        for (i64 i = p.i; live && i < n; i += p.across) {
            const C v = get<C>(in + i * x_stride) - s.max;
#if IS_LOG
            put(o + i * out_stride, v - LN(s.sum));
#else
            put(o + i * out_stride, exponential(v) / s.sum);
#endif
        }
    }
}
#else
// Operands: grad_x, grad_output, output.
extern "C" __global__ void __launch_bounds__(1024) entry(i32 by_x, const T* grad, const T* y, T* out, i64 n, i64 out_stride, i64 grad_stride,
                                 i64 y_stride, const __grid_constant__ Geo<3> kept) {
    __shared__ C room[1024];
    const Place p = place(by_x);
    for (i64 block = blockIdx.x; block * p.rows < kept.n; block += gridDim.x) {
        const i64 row = block * p.rows + p.row;
        const bool live = row < kept.n;
        i64 at[3];
        locate(kept, live ? row : 0, at);
        const T* g = grad + at[1];
        const T* v = y + at[2];
        C sum = (C)0;
        for (i64 i = p.i; live && i < n; i += p.across) {
            const C gi = get<C>(g + i * grad_stride);
            sum += IS_LOG ? gi : gi * get<C>(v + i * y_stride);
        }
        sum = combine(sum, room, p, [](C a, C b) { return a + b; });
        for (i64 i = p.i; live && i < n; i += p.across) {
            const C gi = get<C>(g + i * grad_stride), yi = get<C>(v + i * y_stride);
            put(out + at[0] + i * out_stride, IS_LOG ? gi - exponential(yi) * sum : yi * (gi - sum));
        }
    }
}
#endif
