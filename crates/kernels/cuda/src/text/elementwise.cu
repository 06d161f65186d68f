// out = f(ins...): N inputs of types I0.., output type O, computed in C. `f` and the loads are written by the host.
// Layouts: 0, everything contiguous or one number: four elements a thread at once; 1, any strides; 2, four elements of the
// innermost dimension a position, along which operands lie without gaps or have one number.

template <class T> struct alignas(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4) Four { T v[4]; };

extern "C" __global__ void entry(i32 layout, i32 vector, const __grid_constant__ Geo<N + 1> g,
                                 const __grid_constant__ Ins ins, O* out, const __grid_constant__ Params p) {
    const i64 n = g.n;
    if (layout == 0) {
        i64 done = 0;
        if (vector) {
            done = n / 4 * 4;
            for (i64 i = first_position(); i < n / 4; i += position_step()) {
                C x[N][4];
                LOAD_FOUR
                Four<O> y;
#pragma unroll
                for (int j = 0; j < 4; j++) put(&y.v[j], APPLY_FOUR);
                ((Four<O>*)out)[i] = y;
            }
        }
        for (i64 i = done + first_position(); i < n; i += position_step()) {
            C x[N];
            LOAD_CONTIGUOUS
            put(out + i, APPLY);
        }
        return;
    }
    if (layout == 2) {
        for (i64 i = first_position(); i < n; i += position_step()) {
            i64 at[N + 1];
            locate(g, i, at);
            C x[N][4];
            LOAD_INNER
            Four<O> y;
#pragma unroll
            for (int j = 0; j < 4; j++) put(&y.v[j], APPLY_FOUR);
            *(Four<O>*)(out + at[0]) = y;
        }
        return;
    }
    for (i64 i = first_position(); i < n; i += position_step()) {
        i64 at[N + 1];
        locate(g, i, at);
        C x[N];
        LOAD_STRIDED
        put(out + at[0], APPLY);
    }
}
