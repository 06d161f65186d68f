// RESAMPLE, a dimension at a time: PART 0 makes the table of windows and weights, PART 1 sums by it, PART 2 by its transpose.
// MODE: 0 nearest, 1 nearest-exact, 2 linear, 3 cubic, 4 area. Compiled without fused multiply-adds: positions are the host's.

#if PART == 0
D i64 inside(C v, i64 last) {
    const i64 j = v > (C)0 ? (i64)v : 0;
    return j < last ? j : last;
}
D f64 near_cubic(f64 x) { return ((-0.75 + 2.0) * x - (-0.75 + 3.0)) * x * x + 1.0; }
D f64 far_cubic(f64 x) { return ((-0.75 * x - 5.0 * -0.75) * x + 8.0 * -0.75) * x - 4.0 * -0.75; }
// The filter of a widened window.
D f64 filter(f64 x) {
    x = x < 0 ? -x : x;
#if MODE == 2
    return x < 1 ? 1 - x : 0;
#else
    if (x < 1) return ((-0.5 + 2.0) * x - (-0.5 + 3.0)) * x * x + 1.0;
    return x < 2 ? (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5 : 0;
#endif
}
// A window's elements in order; neighbours beyond a border are the border's.
struct Window {
    i64* start;
    C* weights;
    i64 n;
    __device__ __forceinline__ void put(i64 j, f64 w) {
        if (n == 0) *start = j;
        const i64 at = j - *start;
        // Elements come in ascending order, some more than once.
        while (n <= at) weights[n++] = (C)0;
        weights[at] = (C)((f64)weights[at] + w);
    }
};

extern "C" __global__ void entry(i64* starts, i64* counts, C* weights, i64 most, i64 d_in, i64 d_out, i32 align, i32 antialias,
                                 f64 given) {
    const i64 last = d_in > 0 ? d_in - 1 : 0;
    C scale;
    if (align)
        scale = d_out > 1 ? (C)(((f64)d_in - 1.0) / ((f64)d_out - 1.0)) : (C)0;
    else
        scale = given > 0 ? (C)given : (C)(f64)d_in / (C)(f64)d_out;
    for (i64 i = first_position(); i < d_out; i += position_step()) {
        Window w;
        w.start = starts + i;
        w.weights = weights + i * most;
        w.n = 0;
        *w.start = 0;
#if MODE == 2 || MODE == 3
        if (antialias) {
            const f64 s = scale, radius = MODE == 2 ? 1 : 2, support = s >= 1 ? radius * s : radius, shrink = s >= 1 ? 1 / s : 1;
            const f64 center = s * ((f64)i + 0.5), low = center - support + 0.5, high = center + support + 0.5;
            const i64 from = low > 0 ? (i64)low : 0;
            i64 to = high > 0 ? (i64)high : 0;
            if (to > d_in) to = d_in;
            f64 total = 0;
            for (i64 j = from; j < to; j++) total += filter(((f64)j - center + 0.5) * shrink);
            for (i64 j = from; j < to; j++) w.put(j, total == 0 ? 0 : filter(((f64)j - center + 0.5) * shrink) / total);
            counts[i] = w.n;
            continue;
        }
        const C x = align ? scale * (C)i : scale * ((C)i + (C)0.5) - (C)0.5;
#endif
#if MODE == 0
        w.put(inside(floor(scale * (C)i), last), 1);
#elif MODE == 1
        w.put(inside(floor(scale * ((C)i + (C)0.5)), last), 1);
#elif MODE == 2
        if (d_in == d_out) {
            w.put(i, 1);
        } else {
            const C at = x > (C)0 ? x : (C)0;
            const i64 j = inside(floor(at), last);
            C t = at - (C)j;
            t = t < (C)0 ? (C)0 : t > (C)1 ? (C)1 : t;
            w.put(j, (f64)((C)1 - t));
            w.put(j < last ? j + 1 : last, t);
        }
#elif MODE == 3
        f64 j = floor((f64)x);
        if (j > (f64)last) j = (f64)last;
        f64 t = (f64)(x - (C)j);
        t = t < 0 ? 0 : t > 1 ? 1 : t;
        const f64 by[4] = {far_cubic(t + 1), near_cubic(t), near_cubic(1 - t), far_cubic(2 - t)};
        for (int k = 0; k < 4; k++) {
            const f64 v = j - 1 + k;
            w.put(v > 0 ? (v < (f64)last ? (i64)v : last) : 0, by[k]);
        }
#else
        const i64 from = i * d_in / d_out, to = ((i + 1) * d_in + d_out - 1) / d_out;
        for (i64 j = from; j < to; j++) w.put(j, 1.0 / (f64)(to - from));
#endif
        counts[i] = w.n;
    }
}
#else
// Operands: out, x (stride zero along the dimension), the place along the dimension. `windows` is the table's length.
extern "C" __global__ void entry(const T* x, O* out, i64 stride, const i64* starts, const i64* counts, const C* weights, i64 most,
                                 i64 windows, const __grid_constant__ Geo<3> g) {
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[3];
        locate(g, i, at);
        C sum = (C)0;
#if PART == 1
        const C* w = weights + at[2] * most;
        const T* from = x + at[1] + starts[at[2]] * stride;
        const i64 n = counts[at[2]];
        // A single element is itself: infinity times zero is no number.
        for (i64 k = 0; k < n; k++) sum += w[k] * get<C>(from + k * stride);
#else
        // The first window that ends behind the element; windows ascend.
        i64 low = 0, high = windows;
        while (low < high) {
            const i64 mid = (low + high) / 2;
            if (starts[mid] + counts[mid] > at[2])
                high = mid;
            else
                low = mid + 1;
        }
        for (i64 k = low; k < windows && starts[k] <= at[2]; k++)
            if (at[2] < starts[k] + counts[k]) sum += weights[k * most + at[2] - starts[k]] * get<C>(x + at[1] + k * stride);
#endif
        put(out + at[0], sum);
    }
}
#endif
