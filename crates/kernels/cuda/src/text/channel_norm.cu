// BATCH_NORM and GROUP_NORM: rows of elements (a channel of all samples; a group of one sample) with a mean and a deviation each.
// PART 0 moments of parts of rows, 1 their ends and the running statistics, 2 the map, 3 sums of the backward by parts of rows,
// 4 their ends, 5 the gradient of x, 6 the ends of SQUARE_DEVIATIONS. Operands of the geometries: see each kernel; `stat` is the
// row of an element, `chan` its channel. `along`, a bit an operand, says which lie along the innermost dimension, V elements a
// position (pack.cu); the others have one number there. Zero: one element a position.

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
// Joins V numbers, whose own mean comes first: no cancellation, and one division for all of them.
D void join(Moments& m, const C (&v)[V]) {
    C sum = (C)0, squares = (C)0;
#pragma unroll
    for (int j = 0; j < V; j++) sum += v[j];
    const C mean = sum * ((C)1 / (C)V);
#pragma unroll
    for (int j = 0; j < V; j++) squares += (v[j] - mean) * (v[j] - mean);
    const C n = m.n + (C)V, d = mean - m.mean, share = (C)V / n;
    m.m2 += squares + d * d * m.n * share;
    m.mean += d * share;
    m.n = n;
}
// Operand: x. `out` holds (n, mean, m2) of [rows, parts].
extern "C" __global__ void __launch_bounds__(1024) entry(i32 by_x, u32 along, i64 parts, const T* x, C* out,
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
        i64 i = first + p.i;
        if (along) {
            for (; live && i < end; i += p.across) {
                locate(reduced, i, in);
                const Pack<T> pack = load_pack(x + at[0] + in[0], true);
                C v[V];
#pragma unroll
                for (int j = 0; j < V; j++) v[j] = get<C>(&pack.v[j]);
                join(m, v);
            }
        }
        for (; live && i + (V - 1) * p.across < end; i += V * p.across) {
            C v[V];
#pragma unroll
            for (int j = 0; j < V; j++) {
                locate(reduced, i + j * p.across, in);
                v[j] = get<C>(x + at[0] + in[0]);
            }
            join(m, v);
        }
        for (; live && i < end; i += p.across) {
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
extern "C" __global__ void entry(u32 along, const T* x, T* y, const C* mean, const C* rstd, const W* weight, i64 weight_stride,
                                 const W* bias, i64 bias_stride, const __grid_constant__ Geo<4> g) {
    const auto map = [&](C v, i64 stat, i64 chan) {
        v = (v - mean[stat]) * (weight ? rstd[stat] * get<C>(weight + chan * weight_stride) : rstd[stat]);
        return bias ? v + get<C>(bias + chan * bias_stride) : v;
    };
    const int stat_step = along >> 2 & 1, chan_step = along >> 3 & 1;
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[4];
        locate(g, i, at);
        if (along) {
            Pack<T> pack = load_pack(x + at[1], along >> 1 & 1);
#pragma unroll
            for (int j = 0; j < V; j++) put(&pack.v[j], map(get<C>(&pack.v[j]), at[2] + j * stat_step, at[3] + j * chan_step));
            *(Pack<T>*)(y + at[0]) = pack;
        } else {
            put(y + at[0], map(get<C>(x + at[1]), at[2], at[3]));
        }
    }
}
#elif PART == 3
struct Pair {
    C g, gx;
};
// Operands: grad, x, stat, chan. Sums of w g and of w g xhat; w is one without a weight.
extern "C" __global__ void __launch_bounds__(1024) entry(i32 by_x, u32 along, i64 parts, const T* grad, const T* x, const C* mean, const C* rstd,
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
        const auto add = [&](C g, C v, i64 stat, i64 chan) {
            if (weight) g *= get<C>(weight + chan * weight_stride);
            s.g += g;
            s.gx += g * ((v - mean[stat]) * rstd[stat]);
        };
        const int stat_step = along >> 2 & 1, chan_step = along >> 3 & 1;
        for (i64 i = first + p.i; live && i < end; i += p.across) {
            locate(reduced, i, in);
            const i64 stat = at[2] + in[2], chan = at[3] + in[3];
            if (along) {
                const Pack<T> gs = load_pack(grad + at[0] + in[0], along & 1), xs = load_pack(x + at[1] + in[1], along >> 1 & 1);
#pragma unroll
                for (int j = 0; j < V; j++)
                    add(get<C>(&gs.v[j]), get<C>(&xs.v[j]), stat + j * stat_step, chan + j * chan_step);
            } else {
                add(get<C>(grad + at[0] + in[0]), get<C>(x + at[1] + in[1]), stat, chan);
            }
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
// Operands: grad_x, grad, x, stat, chan. `inside`: the sums are of w g. Without sums the statistics were constants. `share` is the
// reciprocal of a row's number of elements.
extern "C" __global__ void entry(u32 along, const T* grad, const T* x, T* out, const C* mean, const C* rstd, const W* weight,
                                 i64 weight_stride, const C* sums, C share, i32 inside, const __grid_constant__ Geo<5> g) {
    const auto map = [&](C v, C in, i64 stat, i64 chan) {
        const C r = rstd[stat], w = weight ? get<C>(weight + chan * weight_stride) : (C)1;
        if (inside) v *= w;
        if (sums) v -= (sums[stat * 2] + (in - mean[stat]) * r * sums[stat * 2 + 1]) * share;
        return inside ? r * v : r * w * v;
    };
    const int stat_step = along >> 3 & 1, chan_step = along >> 4 & 1;
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[5];
        locate(g, i, at);
        if (along) {
            Pack<T> gs = load_pack(grad + at[1], along >> 1 & 1);
            const Pack<T> xs = load_pack(x + at[2], along >> 2 & 1);
#pragma unroll
            for (int j = 0; j < V; j++)
                put(&gs.v[j], map(get<C>(&gs.v[j]), get<C>(&xs.v[j]), at[3] + j * stat_step, at[4] + j * chan_step));
            *(Pack<T>*)(out + at[0]) = gs;
        } else {
            put(out + at[0], map(get<C>(grad + at[1]), get<C>(x + at[2]), at[3], at[4]));
        }
    }
}
#endif
