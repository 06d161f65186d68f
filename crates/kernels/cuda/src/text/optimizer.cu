// One step of a rule over many tensors at once: blockIdx.y picks the tensor. Flat tensors (all operands dense in one order)
// are walked as one run of memory. Numbers of the step, grad_scale and found_inf are read on the device. The rule's two
// functions, `scalars` and `step`, stand above.

struct Table {
    P* p[MAX_TENSORS];
    S* s[MAX_STATES][MAX_TENSORS];
    const G* g[MAX_TENSORS];
    i64 n[MAX_TENSORS];
};
// A 0-dim number of any float dtype (host's dtype numbers).
struct Number {
    const void* at;
    i64 dtype;
};
struct Step {
    Number numbers[MAX_NUMBERS];
    Number scale, found_inf;
    f64 hyper[MAX_HYPER];
    // In their place, where they are on the device.
    const f64* live;
    i64 maximize;
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

extern "C" __global__ void entry(const __grid_constant__ Table t, const __grid_constant__ Step of) {
    if (read(of.found_inf, 0.0) != 0.0) return;
    const int k = blockIdx.y;
    f64 x[MAX_NUMBERS], constants[MAX_SCALARS];
    for (int i = 0; i < MAX_NUMBERS; i++) x[i] = read(of.numbers[i], 0.0);
    scalars(of.live ? of.live : of.hyper, x, constants);
    C c[MAX_SCALARS];
    for (int i = 0; i < MAX_SCALARS; i++) c[i] = (C)constants[i];
    const C factor = (C)((of.maximize ? -1.0 : 1.0) / read(of.scale, 1.0));
    for (i64 i = first_position(); i < t.n[k]; i += position_step()) {
        C p = get<C>(t.p[k] + i), s[MAX_STATES] = {};
        for (int j = 0; j < N_STATES; j++) s[j] = get<C>(t.s[j][k] + i);
        step(p, get<C>(t.g[k] + i) * factor, s, c);
        put(t.p[k] + i, p);
        for (int j = 0; j < N_STATES; j++) put(t.s[j][k] + i, s[j]);
    }
}
