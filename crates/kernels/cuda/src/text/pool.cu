// Poolings over up to three spatial dimensions: PART 0 MAX_POOL, 1 the destinations of its backward, 2 AVG_POOL, 3 its backward.
// A thread an output (PART 3: an element of x), neighbours in memory first.

struct Axis {
    i64 in, out, kernel, stride, padding, dilation;
};
struct Pool {
    i64 n, c, last, count_padding, divisor;
    Axis axes[3];
    i64 x[5], y[5], index[5];
};
// The part of a window that lies in the image: start, start + dilation, ... below end.
struct Span {
    i64 start, end;
};
D Span span(const Axis& a, i64 o) {
    Span s;
    if (a.kernel == 0) {
        s.start = o * a.in / a.out;
        s.end = ((o + 1) * a.in + a.out - 1) / a.out;
        return s;
    }
    const i64 first = o * a.stride - a.padding, beyond = first + (a.kernel - 1) * a.dilation + 1;
    s.start = first < 0 ? first + (-first + a.dilation - 1) / a.dilation * a.dilation : first;
    s.end = beyond < a.in ? beyond : a.in;
    if (s.end < s.start) s.end = s.start;
    return s;
}
// Sample, channel and position of the i-th element.
struct At {
    i64 n, c, p[3];
};
D At element(const Pool& g, i64 i, i64 depth, i64 height, i64 width) {
    At at;
    if (g.last) {
        at.c = i % g.c;
        i /= g.c;
    }
    at.p[2] = i % width;
    i /= width;
    at.p[1] = i % height;
    i /= height;
    at.p[0] = i % depth;
    i /= depth;
    if (!g.last) {
        at.c = i % g.c;
        i /= g.c;
    }
    at.n = i;
    return at;
}
D i64 offset(const i64* s, const At& at) {
    return at.n * s[0] + at.c * s[1] + at.p[0] * s[2] + at.p[1] * s[3] + at.p[2] * s[4];
}
D i64 outputs(const Pool& g) { return g.n * g.c * g.axes[0].out * g.axes[1].out * g.axes[2].out; }
D At output(const Pool& g, i64 i) { return element(g, i, g.axes[0].out, g.axes[1].out, g.axes[2].out); }

#if PART == 0
extern "C" __global__ void entry(const T* x, T* y, i64* indices, const __grid_constant__ Pool g) {
    for (i64 i = first_position(); i < outputs(g); i += position_step()) {
        const At at = output(g, i);
        const Span d = span(g.axes[0], at.p[0]), h = span(g.axes[1], at.p[1]), w = span(g.axes[2], at.p[2]);
        const T* from = x + at.n * g.x[0] + at.c * g.x[1];
        C best = LOWEST;
        i64 place = (d.start * g.axes[1].in + h.start) * g.axes[2].in + w.start;
        for (i64 a = d.start; a < d.end; a += g.axes[0].dilation)
            for (i64 b = h.start; b < h.end; b += g.axes[1].dilation)
                for (i64 c = w.start; c < w.end; c += g.axes[2].dilation) {
                    const C v = get<C>(from + a * g.x[2] + b * g.x[3] + c * g.x[4]);
                    if (v > best || v != v) {
                        best = v;
                        place = (a * g.axes[1].in + b) * g.axes[2].in + c;
                    }
                }
        put(y + offset(g.y, at), best);
        if (indices) indices[offset(g.index, at)] = place;
    }
}
#elif PART == 1
// Keys are elements of grad_x, `skip` for none; outputs in row-major order.
extern "C" __global__ void entry(const i64* indices, u64* keys, u64* numbers, i64* from, u64 skip, const __grid_constant__ Pool g) {
    const i64 plane = g.axes[0].in * g.axes[1].in * g.axes[2].in;
    for (i64 i = first_position(); i < outputs(g); i += position_step()) {
        At at = output(g, i);
        const i64 place = indices[offset(g.index, at)];
        from[i] = offset(g.y, at);
        at.p[0] = place / (g.axes[1].in * g.axes[2].in);
        at.p[1] = place / g.axes[2].in % g.axes[1].in;
        at.p[2] = place % g.axes[2].in;
        keys[i] = place < 0 || place >= plane ? skip : (u64)offset(g.x, at);
        numbers[i] = (u64)i;
    }
}
#else
// What the sum of a window is divided by: one dimension's part.
D i64 share(const Pool& g, int d, i64 o) {
    const Axis& a = g.axes[d];
    const Span s = span(a, o);
    if (!g.count_padding || a.kernel == 0) return s.end - s.start > 0 ? s.end - s.start : 1;
    const i64 first = o * a.stride - a.padding, beyond = first + a.kernel, limit = a.in + a.padding;
    const i64 n = (beyond < limit ? beyond : limit) - first;
    return n > 0 ? n : 0;
}
D C divisor(const Pool& g, i64 a, i64 b, i64 c) {
    return g.divisor != 0 ? (C)g.divisor : (C)share(g, 0, a) * (C)share(g, 1, b) * (C)share(g, 2, c);
}
#if PART == 2
extern "C" __global__ void entry(const T* x, T* y, const __grid_constant__ Pool g) {
    for (i64 i = first_position(); i < outputs(g); i += position_step()) {
        const At at = output(g, i);
        const Span d = span(g.axes[0], at.p[0]), h = span(g.axes[1], at.p[1]), w = span(g.axes[2], at.p[2]);
        const T* from = x + at.n * g.x[0] + at.c * g.x[1];
        C sum = (C)0;
        for (i64 a = d.start; a < d.end; a++)
            for (i64 b = h.start; b < h.end; b++)
                for (i64 c = w.start; c < w.end; c++) sum += get<C>(from + a * g.x[2] + b * g.x[3] + c * g.x[4]);
        put(y + offset(g.y, at), sum / divisor(g, at.p[0], at.p[1], at.p[2]));
    }
}
#else
// The outputs whose windows hold a position.
D Span readers(const Axis& a, i64 i) {
    Span s;
    if (a.kernel == 0) {
        s.start = i * a.out / a.in;
        s.end = ((i + 1) * a.out + a.in - 1) / a.in;
        return s;
    }
    const i64 before = i + a.padding - a.kernel + 1;
    s.start = before > 0 ? (before + a.stride - 1) / a.stride : 0;
    s.end = (i + a.padding) / a.stride + 1;
    if (s.end > a.out) s.end = a.out;
    return s;
}
extern "C" __global__ void entry(const T* grad, T* out, const __grid_constant__ Pool g) {
    const i64 depth = g.axes[0].in, height = g.axes[1].in, width = g.axes[2].in;
    for (i64 i = first_position(); i < g.n * g.c * depth * height * width; i += position_step()) {
        const At at = element(g, i, depth, height, width);
        const Span d = readers(g.axes[0], at.p[0]), h = readers(g.axes[1], at.p[1]), w = readers(g.axes[2], at.p[2]);
        const T* from = grad + at.n * g.y[0] + at.c * g.y[1];
        C sum = (C)0;
        for (i64 a = d.start; a < d.end; a++)
            for (i64 b = h.start; b < h.end; b++)
                for (i64 c = w.start; c < w.end; c++)
                    sum += get<C>(from + a * g.y[2] + b * g.y[3] + c * g.y[4]) / divisor(g, a, b, c);
        put(out + offset(g.x, at), sum);
    }
}
#endif
#endif
