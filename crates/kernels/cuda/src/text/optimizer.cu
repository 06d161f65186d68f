// ADAM and SGD over many tensors at once: blockIdx.y picks the tensor. Flat tensors (all operands dense in one order) are
// walked as one run of memory. lr, step, grad_scale and found_inf are read on the device.

struct Table {
    P* p[MAX_TENSORS];
    S* m[MAX_TENSORS];
    S* v[MAX_TENSORS];
    const G* g[MAX_TENSORS];
    i64 n[MAX_TENSORS];
};
// A 0-dim number of any float dtype (host's dtype numbers).
struct Number {
    const void* at;
    i64 dtype;
};
D f64 read(Number x, f64 absent) {
    if (!x.at) return absent;
    switch (x.dtype) {
        case 6: return wide(*(const f16*)x.at);
        case 7: return wide(*(const bf16*)x.at);
        case 8: return *(const f32*)x.at;
        default: return *(const f64*)x.at;
    }
}

extern "C" __global__ void entry(const __grid_constant__ Table t, Number lr_at, Number step_at, Number scale_at,
                                 Number inf_at, f64 a, f64 b, f64 weight_decay, f64 eps, i32 maximize, i32 flag,
                                 i32 first_step) {
    if (read(inf_at, 0.0) != 0.0) return;
    const int k = blockIdx.y;
    const f64 lr = read(lr_at, 0.0);
    const C factor = (C)((maximize ? -1.0 : 1.0) / read(scale_at, 1.0));
#if ADAM
    // a: beta1, b: beta2, flag: decoupled.
    const f64 step = read(step_at, 1.0);
    const C rate = (C)(-lr / (1.0 - pow(a, step))), root = (C)(1.0 / sqrt(1.0 - pow(b, step))), e = (C)eps;
    const C beta2 = (C)b, rest1 = (C)(1.0 - a), rest2 = (C)(1.0 - b);
    const C shrink = flag ? (C)(1.0 - lr * weight_decay) : (C)1, decay = flag ? (C)0 : (C)weight_decay;
    for (i64 i = first_position(); i < t.n[k]; i += position_step()) {
        C g = get<C>(t.g[k] + i) * factor, p = get<C>(t.p[k] + i);
        C m = get<C>(t.m[k] + i), v = get<C>(t.v[k] + i);
        g += decay * p;
        m += rest1 * (g - m);
        v = v * beta2 + rest2 * g * g;
        p = p * shrink + rate * (m / (SQRT(v) * root + e));
        put(t.p[k] + i, p);
        put(t.m[k] + i, m);
        put(t.v[k] + i, v);
    }
#else
    // a: momentum, b: dampening, flag: nesterov.
    const C rate = (C)-lr, momentum = (C)a, rest = (C)(1.0 - b), decay = (C)weight_decay;
    for (i64 i = first_position(); i < t.n[k]; i += position_step()) {
        const C p = get<C>(t.p[k] + i);
        C g = get<C>(t.g[k] + i) * factor + decay * p;
        if (t.m[k]) {
            const C m = first_step ? g : get<C>(t.m[k] + i) * momentum + rest * g;
            put(t.m[k] + i, m);
            g = flag ? g + momentum * m : m;
        }
        put(t.p[k] + i, p + rate * g);
    }
#endif
}
