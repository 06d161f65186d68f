// RANDOM_BY: draws by rejection from an element's own stream, the host's algorithms step by step. KIND: 0 Poisson, 1 binomial,
// 2 gamma. Operands: out, element index, a, b.

struct Stream {
    u64 seed, offset, index;
    Words words;
    i32 at;
};
// In (0, 1).
D f64 uniform(Stream& s) {
    if (s.at == 4) {
        s.words = philox(s.seed, s.offset, s.index);
        // Another key for the next block of this element.
        s.seed += 0x9e3779b97f4a7c15ull;
        s.at = 0;
    }
    const f64 u = uniform_f64(s.words.w[s.at], s.words.w[s.at + 1]);
    s.at += 2;
    return u > 2.2250738585072014e-308 ? u : 2.2250738585072014e-308;
}
D f64 normal(Stream& s) {
    const f64 radius = sqrt(-2.0 * log(uniform(s)));
    return radius * cos(6.283185307179586 * uniform(s));
}
D f64 nan() { return __longlong_as_double(0x7ff8000000000000ll); }

D f64 poisson(Stream& s, f64 rate) {
    if (!(rate > 0)) return rate == 0 ? 0 : nan();
    if (rate < 10) {
        const f64 limit = exp(-rate);
        f64 k = 0, product = uniform(s);
        while (product > limit) {
            k += 1;
            product *= uniform(s);
        }
        return k;
    }
    const f64 log_rate = log(rate), b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
    const f64 inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2.0);
    for (;;) {
        const f64 u = uniform(s) - 0.5, v = uniform(s), us = 0.5 - fabs(u);
        const f64 k = floor((2.0 * a / us + b) * u + rate + 0.43);
        if (us >= 0.07 && v <= v_r) return k;
        if (k < 0 || (us < 0.013 && v > us)) continue;
        if (log(v * inverse_alpha / (a / (us * us) + b)) <= -rate + k * log_rate - lgamma(k + 1.0)) return k;
    }
}
D f64 binomial(Stream& s, f64 n, f64 p) {
    if (n != n || p != p) return nan();
    if (n <= 0 || p <= 0) return 0;
    if (p >= 1) return n;
    const bool turned = p > 0.5;
    if (turned) p = 1.0 - p;
    f64 k;
    if (n * p < 10) {
        f64 trials = 0;
        for (k = 0;; k += 1) {
            const f64 gap = ceil(log(uniform(s)) / log1p(-p));
            trials += gap > 1 ? gap : 1;
            if (trials > n) break;
        }
        return turned ? n - k : k;
    }
    const f64 spread = sqrt(n * p * (1.0 - p)), b = 1.15 + 2.53 * spread, a = -0.0873 + 0.0248 * b + 0.01 * p;
    const f64 c = n * p + 0.5, v_r = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * spread;
    const f64 odds = p / (1.0 - p), mode = floor((n + 1.0) * p);
    for (;;) {
        const f64 u = uniform(s) - 0.5, v = uniform(s), us = 0.5 - fabs(u);
        k = floor((2.0 * a / us + b) * u + c);
        if (us >= 0.07 && v <= v_r) break;
        if (k < 0 || k > n) continue;
        if (log(v * alpha / (a / (us * us) + b)) <=
            lgamma(mode + 1.0) + lgamma(n - mode + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0) + (k - mode) * log(odds))
            break;
    }
    return turned ? n - k : k;
}
D f64 gamma_of(Stream& s, f64 shape) {
    if (!(shape > 0)) return shape == 0 ? 0 : nan();
    const bool small = shape < 1;
    const f64 d = (small ? shape + 1.0 : shape) - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
    f64 value;
    for (;;) {
        const f64 x = normal(s);
        f64 v = 1.0 + c * x;
        if (v <= 0) continue;
        v = v * v * v;
        const f64 u = uniform(s);
        if (log(u) < 0.5 * x * x + d * (1.0 - v + log(v))) {
            value = d * v;
            break;
        }
    }
    return small ? value * pow(uniform(s), 1.0 / shape) : value;
}

extern "C" __global__ void entry(const f64* a, const f64* b, T* out, u64 seed, u64 offset, const u64* drawn, u64 first,
                                 Fault* fault, const __grid_constant__ Geo<4> g) {
    const RandomCall call = random_call(seed, offset, drawn);
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[4];
        locate(g, i, at);
        Stream s;
        s.seed = call.seed;
        s.offset = call.offset;
        s.index = first + (u64)at[1];
        s.at = 4;
        const f64 x = a[at[2]];
#if KIND == 0
        if (!(x >= 0)) report(fault, 3, 0, 0, 0);
        put(out + at[0], poisson(s, x));
#elif KIND == 1
        put(out + at[0], binomial(s, x, b[at[3]]));
#else
        put(out + at[0], gamma_of(s, x));
#endif
    }
}
