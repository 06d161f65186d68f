// out[i] = start + i * step, i the row-major position: FILL (step 0) and ARANGE. C is the number's type.

extern "C" __global__ void entry(const __grid_constant__ Geo<1> g, O* out, C start, C step) {
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[1];
        locate(g, i, at);
        put(out + at[0], start + (C)i * step);
    }
}
