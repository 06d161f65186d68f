// CONV and its two gradients as products of matrices whose right side is gathered from an image: D[m, col] = sum over k of
// A[m, k] * B[k, col]. B's element lies at the coordinates `s` of its column plus those of its k, and is zero outside of the
// image. PART 0 is the forward (columns: output positions; k: channels and taps), 1 the gradient of x (columns: positions of one
// phase of the strides; k: channels and the phase's taps), 2 the gradient of the weight (columns: channels and taps; k: output
// positions, in `parts` whose sums are added later). Parts 3 to 5 are the same for groups too small for tiles: an output a thread,
// and a block a weight's gradient.

struct Conv {
    i64 n, c, o, groups, parts, bias_stride;
    i64 in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
    // Between two taps of one phase: taps, and output positions.
    i64 tap_step[3], out_step[3];
    i64 x[5], w[5], y[5];
    // Channels are what lies side by side.
    i64 last;
};

// A number's digits, the last one fastest.
D void digits(u32 v, u32 a, u32 b, u32* d) {
    d[2] = v % b;
    v /= b;
    d[1] = v % a;
    d[0] = v / a;
}
D void position(const i64* sizes, u32 v, u32* at) { digits(v, (u32)sizes[1], (u32)sizes[2], at); }
D i64 offset(const i64* strides, const u32* at) {
    return (i64)at[0] * strides[2] + (i64)at[1] * strides[3] + (i64)at[2] * strides[4];
}

#if PART < 3
#define BK 16
#define BN 64
#define TM (BM / 16)
#define TN (BN / 16)

// Where a column's or a k's elements lie: offsets in both operands, and its share of the coordinates in B's image.
struct Term {
    i64 a, b;
    i32 s[3];
    i32 live;
};

// What one tile's product is about: sizes, and for PART 1 the phase.
struct Problem {
    i64 m, columns, k;
    i64 group;
    u32 phase[3], first_tap[3], taps[3], positions[3];
};

D Problem problem(const Conv& g, i64 z) {
    Problem p;
    const i64 o = g.o / g.groups, c = g.c / g.groups;
#if PART == 1
    i64 phases = g.stride[0] * g.stride[1] * g.stride[2];
    p.group = z / phases;
    digits((u32)(z % phases), (u32)g.stride[1], (u32)g.stride[2], p.phase);
    p.m = c;
    p.columns = g.n;
    p.k = o;
    for (int d = 0; d < 3; d++) {
        p.positions[d] = g.in[d] > p.phase[d] ? (u32)((g.in[d] - p.phase[d] + g.stride[d] - 1) / g.stride[d]) : 0;
        i64 t = 0;
        while (t < g.tap_step[d] && (p.phase[d] + g.padding[d] + (g.stride[d] - 1) * t * g.dilation[d]) % g.stride[d] != 0) t++;
        p.first_tap[d] = (u32)t;
        p.taps[d] = t < g.tap_step[d] && t < g.kernel[d] ? (u32)((g.kernel[d] - t + g.tap_step[d] - 1) / g.tap_step[d]) : 0;
        p.columns *= p.positions[d];
        p.k *= p.taps[d];
    }
#else
    p.group = z;
    p.m = o;
    const i64 taps = g.kernel[0] * g.kernel[1] * g.kernel[2], places = g.n * g.out[0] * g.out[1] * g.out[2];
    p.columns = PART == 0 ? places : c * taps;
    p.k = PART == 0 ? c * taps : places;
#endif
    return p;
}

// Channel and tap of an index, in the order in which the operand's memory runs.
D void channel_tap(const Conv& g, u32 i, u32 channels, const u32* taps, u32* channel, u32* tap) {
    const u32 n = taps[0] * taps[1] * taps[2];
    *channel = g.last ? i % channels : i / n;
    digits(g.last ? i / channels : i % n, taps[1], taps[2], tap);
}

#if PART == 0
D Term column(const Conv& g, const Problem& p, u32 i) {
    const u32 places = (u32)(g.out[0] * g.out[1] * g.out[2]);
    u32 at[3];
    position(g.out, i % places, at);
    Term t;
    t.a = (i64)(i / places) * g.y[0] + offset(g.y, at);
    t.b = (i64)(i / places) * g.x[0] + p.group * (g.c / g.groups) * g.x[1];
    for (int d = 0; d < 3; d++) {
        t.s[d] = (i32)(at[d] * g.stride[d] - g.padding[d]);
        t.b += t.s[d] * g.x[2 + d];
    }
    return t;
}
D Term inner(const Conv& g, const Problem& p, u32 i) {
    const u32 taps[3] = {(u32)g.kernel[0], (u32)g.kernel[1], (u32)g.kernel[2]};
    u32 channel, tap[3];
    channel_tap(g, i, (u32)(g.c / g.groups), taps, &channel, tap);
    Term t;
    t.a = channel * g.w[1] + offset(g.w, tap);
    t.b = channel * g.x[1];
    for (int d = 0; d < 3; d++) {
        t.s[d] = (i32)(tap[d] * g.dilation[d]);
        t.b += t.s[d] * g.x[2 + d];
    }
    return t;
}
D i64 row(const Conv& g, const Problem& p, i64 m) { return (p.group * p.m + m) * g.w[0]; }
#elif PART == 1
D Term column(const Conv& g, const Problem& p, u32 i) {
    const u32 places = p.positions[0] * p.positions[1] * p.positions[2];
    u32 at[3];
    digits(i % places, p.positions[1], p.positions[2], at);
    Term t;
    t.a = (i64)(i / places) * g.x[0];
    t.b = (i64)(i / places) * g.y[0] + p.group * (g.o / g.groups) * g.y[1];
    for (int d = 0; d < 3; d++) {
        const i64 x = p.phase[d] + at[d] * g.stride[d];
        t.a += x * g.x[2 + d];
        // Divides without a rest where the phase has taps.
        t.s[d] = (i32)((x + g.padding[d] - (i64)p.first_tap[d] * g.dilation[d]) / g.stride[d]);
        t.b += t.s[d] * g.y[2 + d];
    }
    return t;
}
D Term inner(const Conv& g, const Problem& p, u32 i) {
    u32 channel, tap[3];
    channel_tap(g, i, (u32)(g.o / g.groups), p.taps, &channel, tap);
    Term t;
    t.a = (p.group * (g.o / g.groups) + channel) * g.w[0];
    t.b = channel * g.y[1];
    for (int d = 0; d < 3; d++) {
        t.a += (p.first_tap[d] + tap[d] * g.tap_step[d]) * g.w[2 + d];
        t.s[d] = -(i32)(tap[d] * g.out_step[d]);
        t.b += t.s[d] * g.y[2 + d];
    }
    return t;
}
D i64 row(const Conv& g, const Problem& p, i64 m) { return m * g.w[1]; }
#else
D Term column(const Conv& g, const Problem& p, u32 i) {
    const u32 taps[3] = {(u32)g.kernel[0], (u32)g.kernel[1], (u32)g.kernel[2]};
    u32 channel, tap[3];
    channel_tap(g, i, (u32)(g.c / g.groups), taps, &channel, tap);
    Term t;
    t.a = channel * g.w[1] + offset(g.w, tap);
    t.b = (p.group * (g.c / g.groups) + channel) * g.x[1];
    for (int d = 0; d < 3; d++) {
        t.s[d] = (i32)(tap[d] * g.dilation[d]);
        t.b += t.s[d] * g.x[2 + d];
    }
    return t;
}
D Term inner(const Conv& g, const Problem& p, u32 i) {
    const u32 places = (u32)(g.out[0] * g.out[1] * g.out[2]);
    u32 at[3];
    position(g.out, i % places, at);
    Term t;
    t.a = (i64)(i / places) * g.y[0] + offset(g.y, at);
    t.b = (i64)(i / places) * g.x[0];
    for (int d = 0; d < 3; d++) {
        t.s[d] = (i32)(at[d] * g.stride[d] - g.padding[d]);
        t.b += t.s[d] * g.x[2 + d];
    }
    return t;
}
D i64 row(const Conv& g, const Problem& p, i64 m) { return (p.group * p.m + m) * g.y[1]; }
#endif

// `a` is the weight (PART 2: grad_output), `b` the image that is gathered; sums of PART 2 go to [parts, o, c / groups * taps].
extern "C" __global__ void __launch_bounds__(256) entry(const T* a, const T* b, const T* bias, void* d, i64 by_k,
                                 const __grid_constant__ Conv g) {
    __shared__ C left[BK][BM + 1], right[BK][BN + 1];
    __shared__ Term columns[BN], inners[BK];
    const int id = threadIdx.x, tx = id % 16, ty = id / 16;
#if PART == 1
    const i64* image = g.out;
    const i64 depth = g.groups * g.stride[0] * g.stride[1] * g.stride[2];
#else
    const i64* image = g.in;
    const i64 depth = g.groups;
#endif
    for (i64 z = blockIdx.z; z < depth; z += gridDim.z) {
        const Problem p = problem(g, z);
        const i64 across = (p.columns + BN - 1) / BN, tiles = across * ((p.m + BM - 1) / BM);
        const i64 length = ((p.k + g.parts - 1) / g.parts + BK - 1) / BK * BK;
        for (i64 unit = blockIdx.x; unit < tiles * g.parts; unit += gridDim.x) {
            const i64 tile = unit % tiles, part = unit / tiles;
            const i64 m0 = tile / across * BM, n0 = tile % across * BN;
            const i64 first = part * length, end = first + length < p.k ? first + length : p.k;
            __syncthreads();
            for (int i = id; i < BN; i += 256) {
                if (n0 + i < p.columns) columns[i] = column(g, p, (u32)(n0 + i));
                columns[i].live = n0 + i < p.columns;
            }
            if (id < BK && first + id < end) inners[id] = inner(g, p, (u32)(first + id));
            C acc[TM][TN];
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++) acc[i][j] = (C)0;
            __syncthreads();
            for (i64 base = first; base < end; base += BK) {
                for (int e = id; e < BK * BM; e += 256) {
                    const int k = e % BK, m = e / BK;
                    left[k][m] = base + k < end && m0 + m < p.m ? get<C>(a + row(g, p, m0 + m) + inners[k].a) : (C)0;
                }
                for (int e = id; e < BK * BN; e += 256) {
                    const int k = by_k ? e % BK : e / BN, n = by_k ? e / BK : e % BN;
                    C v = (C)0;
                    if (base + k < end && columns[n].live) {
                        bool inside = true;
#pragma unroll
                        for (int s = 0; s < 3; s++) {
                            const i32 at = columns[n].s[s] + inners[k].s[s];
                            inside = inside && at >= 0 && at < (i32)image[s];
                        }
                        if (inside) v = get<C>(b + columns[n].b + inners[k].b);
                    }
                    right[k][n] = v;
                }
                __syncthreads();
                // The next terms, which nobody reads before the barrier.
                if (id < BK && base + BK + id < end) inners[id] = inner(g, p, (u32)(base + BK + id));
#pragma unroll
                for (int k = 0; k < BK; k++) {
                    C l[TM], r[TN];
#pragma unroll
                    for (int i = 0; i < TM; i++) l[i] = left[k][ty * TM + i];
#pragma unroll
                    for (int j = 0; j < TN; j++) r[j] = right[k][tx + 16 * j];
#pragma unroll
                    for (int i = 0; i < TM; i++)
#pragma unroll
                        for (int j = 0; j < TN; j++) acc[i][j] += l[i] * r[j];
                }
                __syncthreads();
            }
#pragma unroll
            for (int i = 0; i < TM; i++) {
                const i64 m = m0 + ty * TM + i;
                if (m >= p.m) continue;
#if PART == 2
                const i64 sum = part * g.o + p.group * p.m + m;
#elif PART == 0
                const i64 channel = p.group * p.m + m, at = channel * g.y[1];
#else
                const i64 channel = p.group * p.m + m, at = channel * g.x[1];
#endif
#pragma unroll
                for (int j = 0; j < TN; j++) {
                    const int n = tx + 16 * j;
                    if (!columns[n].live) continue;
#if PART == 2
                    // In the order of channels and taps, whatever order the columns are in.
                    u32 channel = (u32)(n0 + n), tap = 0;
                    if (g.last) {
                        const u32 channels = (u32)(g.c / g.groups);
                        tap = channel / channels;
                        channel = channel % channels * (u32)(p.columns / channels) + tap;
                    }
                    ((C*)d)[sum * p.columns + channel] = acc[i][j];
#else
                    put((T*)d + at + columns[n].a, acc[i][j] + (bias ? get<C>(bias + channel * g.bias_stride) : (C)0));
#endif
                }
            }
        }
    }
}
#else
// Image, channel and position of an element, neighbours in memory first.
D i64 element(const Conv& g, i64 i, i64 channels, const i64* sizes, u32* channel, u32* at) {
    const i64 places = sizes[0] * sizes[1] * sizes[2], rest = i % (channels * places);
    *channel = (u32)(g.last ? rest % channels : rest / places);
    position(sizes, (u32)(g.last ? rest / channels : rest % places), at);
    return i / (channels * places);
}

#if PART == 3
extern "C" __global__ void entry(const T* w, const T* x, const T* bias, T* y, const __grid_constant__ Conv g) {
    const i64 total = g.n * g.o * g.out[0] * g.out[1] * g.out[2];
    for (i64 i = first_position(); i < total; i += position_step()) {
        u32 o, at[3];
        const i64 n = element(g, i, g.o, g.out, &o, at);
        const i64 c = g.c / g.groups, group = o / (g.o / g.groups);
        C acc = (C)0;
        for (i64 k = 0; k < c; k++) {
            const T* from = x + n * g.x[0] + (group * c + k) * g.x[1];
            const T* by = w + o * g.w[0] + k * g.w[1];
            for (i64 kd = 0; kd < g.kernel[0]; kd++) {
                const i64 d = at[0] * g.stride[0] - g.padding[0] + kd * g.dilation[0];
                if (d < 0 || d >= g.in[0]) continue;
                for (i64 kh = 0; kh < g.kernel[1]; kh++) {
                    const i64 h = at[1] * g.stride[1] - g.padding[1] + kh * g.dilation[1];
                    if (h < 0 || h >= g.in[1]) continue;
                    for (i64 kw = 0; kw < g.kernel[2]; kw++) {
                        const i64 v = at[2] * g.stride[2] - g.padding[2] + kw * g.dilation[2];
                        if (v < 0 || v >= g.in[2]) continue;
                        acc += get<C>(from + d * g.x[2] + h * g.x[3] + v * g.x[4]) *
                               get<C>(by + kd * g.w[2] + kh * g.w[3] + kw * g.w[4]);
                    }
                }
            }
        }
        if (bias) acc += get<C>(bias + o * g.bias_stride);
        put(y + n * g.y[0] + o * g.y[1] + offset(g.y, at), acc);
    }
}
#elif PART == 4
// The output position that reads x at `at` by tap k; -1 for none.
D i64 reader(const Conv& g, int d, u32 at, i64 k) {
    const i64 v = (i64)at + g.padding[d] - k * g.dilation[d];
    return v >= 0 && v % g.stride[d] == 0 && v / g.stride[d] < g.out[d] ? v / g.stride[d] : -1;
}
extern "C" __global__ void entry(const T* w, const T* y, const T* bias, T* x, const __grid_constant__ Conv g) {
    const i64 total = g.n * g.c * g.in[0] * g.in[1] * g.in[2];
    for (i64 i = first_position(); i < total; i += position_step()) {
        u32 c, at[3];
        const i64 n = element(g, i, g.c, g.in, &c, at);
        const i64 o = g.o / g.groups, group = c / (g.c / g.groups);
        C acc = (C)0;
        for (i64 kd = 0; kd < g.kernel[0]; kd++) {
            const i64 d = reader(g, 0, at[0], kd);
            if (d < 0) continue;
            for (i64 kh = 0; kh < g.kernel[1]; kh++) {
                const i64 h = reader(g, 1, at[1], kh);
                if (h < 0) continue;
                for (i64 kw = 0; kw < g.kernel[2]; kw++) {
                    const i64 v = reader(g, 2, at[2], kw);
                    if (v < 0) continue;
                    const T* from = y + n * g.y[0] + group * o * g.y[1] + d * g.y[2] + h * g.y[3] + v * g.y[4];
                    const T* by = w + group * o * g.w[0] + c % (g.c / g.groups) * g.w[1] + kd * g.w[2] + kh * g.w[3] +
                                  kw * g.w[4];
                    for (i64 k = 0; k < o; k++) acc += get<C>(from + k * g.y[1]) * get<C>(by + k * g.w[0]);
                }
            }
        }
        if (bias) acc += get<C>(bias + c * g.bias_stride);
        put(x + n * g.x[0] + c * g.x[1] + offset(g.x, at), acc);
    }
}
#else
extern "C" __global__ void __launch_bounds__(1024) entry(const T* y, const T* x, const T* none, T* w, const __grid_constant__ Conv g) {
    __shared__ C room[1024];
    const Place p = place(1);
    const i64 c = g.c / g.groups, taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
    const i64 places = g.out[0] * g.out[1] * g.out[2];
    for (i64 i = blockIdx.x; i < g.o * c * taps; i += gridDim.x) {
        const i64 o = i / (c * taps), k = i / taps % c, channel = o / (g.o / g.groups) * c + k;
        u32 tap[3];
        position(g.kernel, (u32)(i % taps), tap);
        C acc = (C)0;
        for (i64 j = p.i; j < g.n * places; j += p.across) {
            u32 at[3];
            position(g.out, (u32)(j % places), at);
            i64 from = j / places * g.x[0] + channel * g.x[1];
            bool inside = true;
            for (int d = 0; d < 3; d++) {
                const i64 v = at[d] * g.stride[d] - g.padding[d] + tap[d] * g.dilation[d];
                inside = inside && v >= 0 && v < g.in[d];
                from += v * g.x[2 + d];
            }
            if (inside) acc += get<C>(x + from) * get<C>(y + j / places * g.y[0] + o * g.y[1] + offset(g.y, at));
        }
        acc = combine(acc, room, p, [](C a, C b) { return a + b; });
        if (p.i == 0) put(w + o * g.w[0] + k * g.w[1] + offset(g.w, tap), acc);
    }
}
#endif
#endif
