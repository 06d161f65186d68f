// A dense run of memory is multiplied by a number on the device; a flag is raised where an element was not finite.

extern "C" __global__ void entry(P* p, i64 n, const F* factor_at, f32* flag) {
    const C factor = get<C>(factor_at);
    bool bad = false;
    for (i64 i = first_position(); i < n; i += position_step()) {
        const C v = get<C>(p + i);
        bad |= !(v - v == (C)0);
        put(p + i, v * factor);
    }
    if (bad) *flag = 1.0f;
}
