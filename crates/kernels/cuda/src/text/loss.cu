// CROSS_ENTROPY of [n, c] logits and its backward: a row of threads a row of logits. A wrong target is reported and its
// row counts as ignored. FORWARD 2 ends CROSS_ENTROPY_REDUCED.

D bool valid(i64 target, i64 c, i64 ignore, Fault* fault, bool first) {
    if (target == ignore) return false;
    if (target >= 0 && target < c) return true;
    if (first) report(fault, 2, target, 1, c);
    return false;
}

// Sixteen bytes of a row.
#define VEC (16 / (int)sizeof(T))
struct alignas(16) Pack {
    T v[VEC];
};
// Elements before the first that lies at a multiple of sixteen bytes, at most n.
D i64 before_aligned(const T* p, i64 n) {
    const i64 k = (i64)((16 - (u64)p % 16) % 16 / sizeof(T));
    return k < n ? k : n;
}

#if FORWARD == 2
extern "C" __global__ void entry(const C* sum, const C* total, T* loss, i32 mean) {
    put(loss, mean ? *sum / *total : *sum);
}
#elif FORWARD == 1
struct Sums {
    C max, sum, all, weights;
};
D Sums merge(Sums a, Sums b) {
    Sums r;
    r.max = greater(a.max, b.max);
    r.sum = a.max == b.max ? a.sum + b.sum : a.sum * EXP(a.max - r.max) + b.sum * EXP(b.max - r.max);
    r.all = a.all + b.all;
    r.weights = a.weights + b.weights;
    return r;
}

// Adds N numbers to a sum of exponentials: one of these a number, and the sum is rescaled where a greater number comes.
template <int N> D void take(C& max, C& sum, const C (&v)[N]) {
    C top = v[0];
#pragma unroll
    for (int e = 1; e < N; e++) top = greater(top, v[e]);
    if (top > max) {
        sum *= EXP(max - top);
        max = top;
    }
#pragma unroll
    for (int e = 0; e < N; e++) sum += v[e] == max ? (C)1 : EXP(v[e] - max);
}

extern "C" __global__ void __launch_bounds__(1024) entry(const T* logits, i64 row_stride, i64 stride, const i64* target, i64 target_stride,
                                 const W* weight, i64 weight_stride, L* loss, i64 loss_stride, C* row_weights, C* lse, i64 lse_stride,
                                 i64 n, i64 c, i64 ignore, C smoothing, Fault* fault) {
    __shared__ Sums room[1024];
    const Place p = place(1);
    for (i64 block = blockIdx.x; block * p.rows < n; block += gridDim.x) {
        const i64 row = block * p.rows + p.row;
        const bool live = row < n;
        const T* x = logits + (live ? row : 0) * row_stride;
        Sums s;
        s.max = LOWEST;
        s.sum = s.all = s.weights = (C)0;
        const bool plain = !weight && smoothing == (C)0 && stride == 1;
        if (live && plain) {
            const i64 head = before_aligned(x, c), packs = (c - head) / VEC;
            for (i64 q = p.i; q < packs; q += p.across) {
                const Pack pack = ((const Pack*)(x + head))[q];
                C v[VEC];
#pragma unroll
                for (int e = 0; e < VEC; e++) v[e] = get<C>(&pack.v[e]);
                take<VEC>(s.max, s.sum, v);
            }
            const i64 rest = c - packs * VEC;
            for (i64 i = p.i; i < rest; i += p.across) {
                const C v[1] = {get<C>(x + (i < head ? i : i + packs * VEC))};
                take<1>(s.max, s.sum, v);
            }
        }
        for (i64 i = p.i; live && !plain && i < c; i += p.across) {
            const C w = weight ? get<C>(weight + i * weight_stride) : (C)1;
            Sums one;
            one.max = get<C>(x + i * stride);
            one.sum = (C)1;
            // Sum of w * x, for smoothing.
            one.all = smoothing != (C)0 ? w * one.max : (C)0;
            one.weights = w;
            s = merge(s, one);
        }
        s = combine(s, room, p, [](Sums a, Sums b) { return merge(a, b); });
        if (live && p.i == 0) {
            const C z = s.max + LN(s.sum);
            C lse_out = (C)0;
            const i64 t = target[row * target_stride];
            C value = (C)0, row_weight = (C)0;
            if (valid(t, c, ignore, fault, true)) {
                lse_out = z;
                const C w = weight ? get<C>(weight + t * weight_stride) : (C)1;
                row_weight = w;
                // Far from zero the difference to the greatest logit keeps the digits that z rounds away.
                value = w * (LN(s.sum) - (get<C>(x + t * stride) - s.max));
                if (smoothing != (C)0)
                    value = ((C)1 - smoothing) * value + smoothing / (C)c * (s.weights * z - s.all);
            }
            put(loss + row * loss_stride, value);
            if (row_weights) row_weights[row] = row_weight;
            lse[row * lse_stride] = lse_out;
        }
    }
}
#else
extern "C" __global__ void __launch_bounds__(1024) entry(const T* grad, i64 grad_stride, const T* logits, i64 row_stride, i64 stride,
                                 const i64* target, i64 target_stride, const W* weight, i64 weight_stride, const C* lse,
                                 i64 lse_stride, T* out, i64 out_row_stride, i64 out_stride, i64 n, i64 c, i64 ignore,
                                 C smoothing, Fault* fault) {
    __shared__ C room[1024];
    const Place p = place(1);
    C weights = (C)0;
    if (smoothing != (C)0 && weight) {
        for (i64 i = p.i; i < c; i += p.across) weights += get<C>(weight + i * weight_stride);
        weights = combine(weights, room, p, [](C a, C b) { return a + b; });
    } else {
        weights = (C)c;
    }
    for (i64 row = (i64)blockIdx.x * p.rows + p.row; row < n; row += (i64)gridDim.x * p.rows) {
        const i64 t = target[row * target_stride];
        const bool counts = valid(t, c, ignore, fault, p.i == 0);
        const C g = counts ? get<C>(grad + row * grad_stride) : (C)0, z = lse[row * lse_stride];
        const C wt = counts && weight ? get<C>(weight + t * weight_stride) : (C)1;
        i64 i = p.i;
        const T* x = logits + row * row_stride;
        T* o = out + row * out_row_stride;
        const i64 head = before_aligned(x, c), packs = (c - head) / VEC, rest = c - packs * VEC;
        const bool plain = counts && !weight && smoothing == (C)0 && stride == 1 && out_stride == 1 && head == before_aligned(o, c);
        if (plain) {
            const auto gradient = [&](C v, i64 at) { return (EXP(v - z) - (at == t ? (C)1 : (C)0)) * g; };
            for (i64 q = p.i; q < packs; q += p.across) {
                Pack pack = ((const Pack*)(x + head))[q];
#pragma unroll
                for (int e = 0; e < VEC; e++) put(&pack.v[e], gradient(get<C>(&pack.v[e]), head + q * VEC + e));
                ((Pack*)(o + head))[q] = pack;
            }
            for (i64 k = p.i; k < rest; k += p.across) {
                const i64 at = k < head ? k : k + packs * VEC;
                put(o + at, gradient(get<C>(x + at), at));
            }
            i = c;
        }
        for (; i < c; i += p.across) {
            C v = (C)0;
            if (counts) {
                const C soft = EXP(get<C>(logits + row * row_stride + i * stride) - z);
                v = wt * (soft - (i == t ? (C)1 : (C)0));
                if (smoothing != (C)0) {
                    const C w = weight ? get<C>(weight + i * weight_stride) : (C)1;
                    v = ((C)1 - smoothing) * v + smoothing / (C)c * (weights * soft - w);
                }
                v *= g;
            }
            put(out + row * out_row_stride + i * out_stride, v);
        }
    }
}
#endif
