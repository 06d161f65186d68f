// BATCH_NORM and GROUP_NORM: rows of elements (a channel of all samples; a group of one sample) with a mean and a deviation each.
// PART 0 moments of parts of rows, 1 their ends and the running statistics, 2 the map, 3 sums of the backward by parts of rows,
// 4 their ends, 5 the gradient of x, 6 the ends of SQUARE_DEVIATIONS. Operands of the geometries: see each kernel; `stat` is the row of an element, `chan` its
// channel.

#if PART == 0
struct Moments {
    C n, mean, m2;
};
D Moments merge(Moments a, Moments b) {
    if (a.n == (C)0) return b;
    if (b.n == (C)0) return a;
    Moments r;
    r.n = a.n + b.n;
    const C d = b.mean - a.mean, share = b.n / r.n;
    r.mean = a.mean + d * share;
    r.m2 = a.m2 + b.m2 + d * d * a.n * share;
    return r;
}
// Operand: x. `out` holds (n, mean, m2) of [rows, parts].
extern "C" __global__ void __launch_bounds__(1024) entry(i32 by_x, i64 parts, const T* x, C* out,
                                 const __grid_constant__ Geo<1> kept, const __grid_constant__ Geo<1> reduced) {
    __shared__ Moments room[1024];
    const Place p = place(by_x);
    const i64 length = (reduced.n + parts - 1) / parts;
    for (i64 block = blockIdx.x; block * p.rows < kept.n * parts; block += gridDim.x) {
        const i64 unit = block * p.rows + p.row;
        const bool live = unit < kept.n * parts;
        i64 at[1], in[1];
        locate(kept, live ? unit / parts : 0, at);
        const i64 first = unit % parts * length, end = first + length < reduced.n ? first + length : reduced.n;
        Moments m;
        m.n = m.mean = m.m2 = (C)0;
        for (i64 i = first + p.i; live && i < end; i += p.across) {
            locate(reduced, i, in);
            const C v = get<C>(x + at[0] + in[0]), d = v - m.mean;
            m.n += (C)1;
            m.mean += d / m.n;
            m.m2 += d * (v - m.mean);
        }
        m = combine(m, room, p, [](Moments a, Moments b) { return merge(a, b); });
        if (live && p.i == 0) {
            out[unit * 3] = m.n;
            out[unit * 3 + 1] = m.mean;
            out[unit * 3 + 2] = m.m2;
        }
    }
}
#elif PART == 1
// A number of any float dtype (host's dtype numbers).
struct Stat {
    void* at;
    i64 stride, dtype;
};
D f64 read(Stat s, i64 i) {
    switch (s.dtype) {
        case 6: return wide(((const f16*)s.at)[i * s.stride]);
        case 7: return wide(((const bf16*)s.at)[i * s.stride]);
        case 8: return ((const f32*)s.at)[i * s.stride];
        default: return ((const f64*)s.at)[i * s.stride];
    }
}
D void write(Stat s, i64 i, f64 v) {
    switch (s.dtype) {
        case 6: put((f16*)s.at + i * s.stride, v); break;
        case 7: put((bf16*)s.at + i * s.stride, v); break;
        case 8: ((f32*)s.at)[i * s.stride] = (f32)v; break;
        default: ((f64*)s.at)[i * s.stride] = v;
    }
}
struct Running {
    Stat mean, var, new_mean, new_var;
};
// Without moments the running statistics are the statistics.
extern "C" __global__ void entry(const C* moments, i64 parts, C* mean, C* rstd, i64 rows, f64 eps, f64 momentum,
                                 const __grid_constant__ Running running) {
    for (i64 row = first_position(); row < rows; row += position_step()) {
        f64 n = 0, mu = 0, m2 = 0;
        if (moments) {
            for (i64 part = 0; part < parts; part++) {
                const C* m = moments + (row * parts + part) * 3;
                const f64 k = m[0], d = m[1] - mu;
                if (k == 0) continue;
                mu += d * (k / (n + k));
                m2 += m[2] + d * d * n * (k / (n + k));
                n += k;
            }
            if (running.new_mean.at) {
                const f64 old = read(running.mean, row);
                write(running.new_mean, row, old + momentum * (mu - old));
            }
            if (running.new_var.at) {
                const f64 old = read(running.var, row);
                write(running.new_var, row, old + momentum * (m2 / (n - 1) - old));
            }
        } else {
            mu = read(running.mean, row);
            m2 = read(running.var, row);
            n = 1;
        }
        mean[row] = (C)mu;
        rstd[row] = (C)(1 / sqrt(m2 / n + eps));
    }
}
#elif PART == 2
// Operands: y, x, stat, chan.
extern "C" __global__ void entry(const T* x, T* y, const C* mean, const C* rstd, const W* weight, i64 weight_stride, const W* bias,
                                 i64 bias_stride, const __grid_constant__ Geo<4> g) {
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[4];
        locate(g, i, at);
        C v = (get<C>(x + at[1]) - mean[at[2]]) * (weight ? rstd[at[2]] * get<C>(weight + at[3] * weight_stride) : rstd[at[2]]);
        if (bias) v += get<C>(bias + at[3] * bias_stride);
        put(y + at[0], v);
    }
}
#elif PART == 3
struct Pair {
    C g, gx;
};
// Operands: grad, x, stat, chan. Sums of w g and of w g xhat; w is one without a weight.
extern "C" __global__ void __launch_bounds__(1024) entry(i32 by_x, i64 parts, const T* grad, const T* x, const C* mean, const C* rstd,
                                 const W* weight, i64 weight_stride, C* out, const __grid_constant__ Geo<4> kept,
                                 const __grid_constant__ Geo<4> reduced) {
    __shared__ Pair room[1024];
    const Place p = place(by_x);
    const i64 length = (reduced.n + parts - 1) / parts;
    for (i64 block = blockIdx.x; block * p.rows < kept.n * parts; block += gridDim.x) {
        const i64 unit = block * p.rows + p.row;
        const bool live = unit < kept.n * parts;
        i64 at[4], in[4];
        locate(kept, live ? unit / parts : 0, at);
        const i64 first = unit % parts * length, end = first + length < reduced.n ? first + length : reduced.n;
        Pair s;
        s.g = s.gx = (C)0;
        for (i64 i = first + p.i; live && i < end; i += p.across) {
            locate(reduced, i, in);
            const i64 stat = at[2] + in[2];
            C g = get<C>(grad + at[0] + in[0]);
            if (weight) g *= get<C>(weight + (at[3] + in[3]) * weight_stride);
            s.g += g;
            s.gx += g * ((get<C>(x + at[1] + in[1]) - mean[stat]) * rstd[stat]);
        }
        s = combine(s, room, p, [](Pair a, Pair b) {
            a.g += b.g;
            a.gx += b.gx;
            return a;
        });
        if (live && p.i == 0) {
            out[unit * 2] = s.g;
            out[unit * 2 + 1] = s.gx;
        }
    }
}
#elif PART == 4
// Parts to sums of rows, in order, and to gradients of weight and bias where they are wanted.
extern "C" __global__ void entry(const C* from, i64 parts, i64 rows, C* sums, W* grad_weight, i64 weight_stride, W* grad_bias,
                                 i64 bias_stride) {
    for (i64 row = first_position(); row < rows; row += position_step()) {
        C g = (C)0, gx = (C)0;
        for (i64 part = 0; part < parts; part++) {
            g += from[(row * parts + part) * 2];
            gx += from[(row * parts + part) * 2 + 1];
        }
        if (sums) {
            sums[row * 2] = g;
            sums[row * 2 + 1] = gx;
        }
        if (grad_weight) put(grad_weight + row * weight_stride, gx);
        if (grad_bias) put(grad_bias + row * bias_stride, g);
    }
}
#elif PART == 6
// Operand: out.
extern "C" __global__ void entry(const C* moments, i64 parts, T* out, f64 divisor, i32 root, const __grid_constant__ Geo<1> kept) {
    for (i64 row = first_position(); row < kept.n; row += position_step()) {
        f64 n = 0, mu = 0, m2 = 0;
        for (i64 part = 0; part < parts; part++) {
            const C* m = moments + (row * parts + part) * 3;
            const f64 k = m[0], d = m[1] - mu;
            if (k == 0) continue;
            mu += d * (k / (n + k));
            m2 += m[2] + d * d * n * (k / (n + k));
            n += k;
        }
        i64 at[1];
        locate(kept, row, at);
        put(out + at[0], root ? sqrt(m2 / divisor) : m2 / divisor);
    }
}
#else
// Operands: grad_x, grad, x, stat, chan. `inside`: the sums are of w g. Without sums the statistics were constants.
extern "C" __global__ void entry(const T* grad, const T* x, T* out, const C* mean, const C* rstd, const W* weight, i64 weight_stride,
                                 const C* sums, C count, i32 inside, const __grid_constant__ Geo<5> g) {
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[5];
        locate(g, i, at);
        const C r = rstd[at[3]], w = weight ? get<C>(weight + at[4] * weight_stride) : (C)1;
        C v = get<C>(grad + at[1]);
        if (inside) v *= w;
        if (sums) {
            const C xhat = (get<C>(x + at[2]) - mean[at[3]]) * r;
            v -= (sums[at[3] * 2] + xhat * sums[at[3] * 2 + 1]) / count;
        }
        put(out + at[0], inside ? r * v : r * w * v);
    }
}
#endif
