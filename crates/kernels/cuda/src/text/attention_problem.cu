// What every kernel of ATTENTION and its backward is given, and what masks and dropout do to a weight.

struct Problem {
    i64 batch, heads, kv_heads, rows, keys, width, value_width, causal;
    f64 scale, drop_scale;
    u64 seed, offset, first;
    // Of `random_call`.
    const u64* drawn;
    i64 window[4];
    // Weights are dropped below it; zero: none.
    i64 threshold;
    const T *query, *key, *value;
    const M* mask;
    T* out;
    C* lse;
    const T* grad;
    C* delta;
    T *grad_query, *grad_key, *grad_value, *grad_mask;
    i64 q[4], k[4], v[4], m[4], o[4], g[4], gq[4], gk[4], gv[4], stat[3];
};

// A score from the product of its row and key; minus infinity where the row does not see the key.
D C score(const Problem& p, i64 batch, i64 head, i64 row, i64 key, C v) {
    if (row >= p.rows || key >= p.keys || (p.causal && key > row)) return LOWEST;
    v *= (C)p.scale;
    if (p.mask) {
        const M* m = p.mask + batch * p.m[0] + head * p.m[1] + row * p.m[2] + key * p.m[3];
#if MASK_BOOL
        if (wide(*m) == 0) return LOWEST;
#else
        v += get<C>(m);
#endif
    }
    return v;
}
// What a weight is multiplied by.
D C kept(const Problem& p, i64 batch, i64 head, i64 row, i64 key) {
    if (p.threshold == 0) return (C)1;
    const u64 at = p.first + (u64)(batch * p.window[0] + head * p.window[1] + row * p.window[2] + key * p.window[3]);
    const RandomCall c = random_call(p.seed, p.offset, p.drawn);
    return (i64)(packed_philox(c.seed, c.offset, at) >> 8) >= p.threshold ? (C)p.drop_scale : (C)0;
}
