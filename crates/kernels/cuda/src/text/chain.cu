// Several expressions in sequence on registers. The host writes: the functions, LOAD (inputs into s0..), STEPS, STORE.
// Everything is read before anything is written, so an output may be an input.

extern "C" __global__ void entry(const __grid_constant__ Geo<N> g, const __grid_constant__ Operands o,
                                 const __grid_constant__ Params p) {
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[N];
        locate(g, i, at);
        C SLOTS;
        LOAD
        STEPS
        STORE
    }
}
