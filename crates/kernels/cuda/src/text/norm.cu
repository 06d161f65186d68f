// LAYER_NORM (and RMS norm) over the trailing dimensions, and the two halves of its backward. `outer` walks the rows,
// `inner` a row; weight and bias are contiguous over `inner`.

#if PART == 0
// Operands: y, x. A second pass over the row for the variance: no cancellation.
extern "C" __global__ void __launch_bounds__(1024) entry(const T* x, const W* weight, const W* bias, T* y, C* mean, C* rstd, C eps,
                                 const __grid_constant__ Geo<2> outer, const __grid_constant__ Geo<2> inner) {
    __shared__ C room[1024];
    const Place p = place(1);
    for (i64 block = blockIdx.x; block * p.rows < outer.n; block += gridDim.x) {
        const i64 row = block * p.rows + p.row;
        const bool live = row < outer.n;
        i64 at[2], in[2];
        locate(outer, live ? row : 0, at);
        C mu = (C)0, sum = (C)0;
#if !RMS
        for (i64 i = p.i; live && i < inner.n; i += p.across) {
            locate(inner, i, in);
            sum += get<C>(x + at[1] + in[1]);
        }
        mu = combine(sum, room, p, [](C a, C b) { return a + b; }) / (C)inner.n;
        sum = (C)0;
#endif
        for (i64 i = p.i; live && i < inner.n; i += p.across) {
            locate(inner, i, in);
            const C d = get<C>(x + at[1] + in[1]) - mu;
            sum += d * d;
        }
        const C var = combine(sum, room, p, [](C a, C b) { return a + b; }) / (C)inner.n;
        const C r = (C)1 / SQRT(var + eps);
        for (i64 i = p.i; live && i < inner.n; i += p.across) {
            locate(inner, i, in);
            C v = (get<C>(x + at[1] + in[1]) - mu) * r;
            if (weight) v *= get<C>(weight + i);
            if (bias) v += get<C>(bias + i);
            put(y + at[0] + in[0], v);
        }
        if (live && p.i == 0) {
            if (mean) mean[row] = mu;
            if (rstd) rstd[row] = r;
        }
    }
}
#elif PART == 1
// Operands: grad_x, grad_output, x, what is added to grad_x (null where nothing is). The gradient may be of a narrower
// dtype.
extern "C" __global__ void __launch_bounds__(1024) entry(const G* grad, const T* x, const C* mean, const C* rstd,
                                 const W* weight, const T* residual, T* out, const __grid_constant__ Geo<4> outer,
                                 const __grid_constant__ Geo<4> inner) {
    __shared__ C room[1024];
    const Place p = place(1);
    for (i64 block = blockIdx.x; block * p.rows < outer.n; block += gridDim.x) {
        const i64 row = block * p.rows + p.row;
        const bool live = row < outer.n;
        i64 at[4], in[4];
        locate(outer, live ? row : 0, at);
        const C mu = live && mean ? mean[row] : (C)0, r = live ? rstd[row] : (C)0;
        C sum_g = (C)0, sum_gx = (C)0;
        for (i64 i = p.i; live && i < inner.n; i += p.across) {
            locate(inner, i, in);
            const C w = weight ? get<C>(weight + i) : (C)1;
            const C g = get<C>(grad + at[1] + in[1]) * w;
            sum_g += g;
            sum_gx += g * ((get<C>(x + at[2] + in[2]) - mu) * r);
        }
        sum_g = combine(sum_g, room, p, [](C a, C b) { return a + b; }) / (C)inner.n;
        sum_gx = combine(sum_gx, room, p, [](C a, C b) { return a + b; }) / (C)inner.n;
#if RMS
        sum_g = (C)0;
#endif
        for (i64 i = p.i; live && i < inner.n; i += p.across) {
            locate(inner, i, in);
            const C w = weight ? get<C>(weight + i) : (C)1;
            const C g = get<C>(grad + at[1] + in[1]) * w;
            const C xhat = (get<C>(x + at[2] + in[2]) - mu) * r;
            const C v = r * (g - sum_g - xhat * sum_gx);
            put(out + at[0] + in[0], residual ? plus(v, get<C>(residual + at[3] + in[3])) : v);
        }
    }
}
#else
// Column sums of a part of the rows: threads in x walk columns, in y rows. With parts these are kept as [parts, inner] accumulators,
// and whoever comes last to a column adds them.
extern "C" __global__ void __launch_bounds__(1024) entry(const G* grad, const T* x, const C* mean, const C* rstd, W* grad_weight, W* grad_bias,
                                 C* partial_weight, C* partial_bias, u32* tickets, i64 parts,
                                 const __grid_constant__ Geo<2> outer, const __grid_constant__ Geo<2> inner) {
    __shared__ C room[1024];
    __shared__ u32 last_rows[256];
    const Place p = place(0);
    const auto sum = [](C a, C b) { return a + b; };
    const i64 length = (outer.n + parts - 1) / parts, columns = (inner.n + p.rows - 1) / p.rows;
    for (i64 block = blockIdx.x; block < columns * parts; block += gridDim.x) {
        const i64 column = block % columns * p.rows + p.row, part = block / columns;
        const bool live = column < inner.n;
        i64 at[2], in[2];
        locate(inner, live ? column : 0, in);
        C w = (C)0, b = (C)0;
        const i64 first = part * length, end = first + length < outer.n ? first + length : outer.n;
        for (i64 row = first + p.i; live && row < end; row += p.across) {
            locate(outer, row, at);
            const C g = get<C>(grad + at[0] + in[0]);
            b += g;
            if (grad_weight) w += g * ((get<C>(x + at[1] + in[1]) - (mean ? mean[row] : (C)0)) * rstd[row]);
        }
        w = combine(w, room, p, sum);
        b = combine(b, room, p, sum);
        bool done = live;
        if (parts > 1) {
            if (live && p.i == 0) {
                partial_weight[part * inner.n + column] = w;
                partial_bias[part * inner.n + column] = b;
            }
            done = comes_last(tickets + (live ? column : 0), parts, live, last_rows, p);
            w = b = (C)0;
            for (i64 k = p.i; done && k < parts; k += p.across) {
                w += ((volatile C*)partial_weight)[k * inner.n + column];
                b += ((volatile C*)partial_bias)[k * inner.n + column];
            }
            w = combine(w, room, p, sum);
            b = combine(b, room, p, sum);
        }
        if (done && p.i == 0) {
            if (grad_weight) put(grad_weight + column, w);
            if (grad_bias) put(grad_bias + column, b);
        }
    }
}
#endif
