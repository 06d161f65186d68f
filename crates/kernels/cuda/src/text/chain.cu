// Several expressions in sequence on registers. The host writes: the functions, LOAD (inputs into s0..), STEPS, STORE, and the same
// for V neighbouring elements at once (LOAD_PACKS, UNPACK, PACK, STORE_PACKS). Everything is read before anything is written, so an
// output may be an input. `along`, a bit an operand, says which lie along the innermost dimension, V elements a position; the
// others have one number there. Zero: one element a position, any strides.

extern "C" __global__ void entry(u32 along, const __grid_constant__ Geo<N> g, const __grid_constant__ Operands o,
                                 const __grid_constant__ Params p) {
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[N];
        locate(g, i, at);
        if (along) {
            LOAD_PACKS
#pragma unroll
            for (int j = 0; j < V; j++) {
                C SLOTS;
                UNPACK
                STEPS
                PACK
            }
            STORE_PACKS
        } else {
            C SLOTS;
            LOAD
            STEPS
            STORE
        }
    }
}
