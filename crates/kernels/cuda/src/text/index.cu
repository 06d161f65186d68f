// Kernels that move elements by index: PART 0 INDEX_SELECT, 1 GATHER, 2 SCATTER (set), 3 INDEX, 4 INDEX_PUT (set),
// 5 TRIANGLE, 6 destinations of SCATTER and 7 of INDEX_PUT, for updates in order. E is an integer of the element's size.

D i64 checked(i64 i, i64 size, i64 dim, bool wrap, Fault* fault) {
    const i64 j = wrap && i < 0 ? i + size : i;
    if (j >= 0 && j < size) return j;
    report(fault, 1, i, dim, size);
    return -1;
}

#if PART == 0
// Operands: out, x (stride zero along dim), index (along dim only).
extern "C" __global__ void entry(const E* x, const I* index, E* out, i64 size, i64 stride, i64 dim, Fault* fault,
                                 const __grid_constant__ Geo<3> g) {
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[3];
        locate(g, i, at);
        const i64 j = checked((i64)index[at[2]], size, dim, false, fault);
        if (j >= 0) out[at[0]] = x[at[1] + j * stride];
    }
}
#elif PART == 1
// Operands: out, index, x (stride zero along dim).
extern "C" __global__ void entry(const E* x, const I* index, E* out, i64 size, i64 stride, i64 dim, Fault* fault,
                                 const __grid_constant__ Geo<3> g) {
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[3];
        locate(g, i, at);
        const i64 j = checked((i64)index[at[1]], size, dim, false, fault);
        if (j >= 0) out[at[0]] = x[at[2] + j * stride];
    }
}
#elif PART == 2 || PART == 6
// Operands: out (stride zero along dim), index, src. PART 6 writes where each element goes, and -1 for nowhere.
extern "C" __global__ void entry(const E* src, const I* index, E* out, i64* to, i64* from, i64 size, i64 stride, i64 dim,
                                 Fault* fault, const __grid_constant__ Geo<3> g) {
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[3];
        locate(g, i, at);
        const i64 j = checked((i64)index[at[1]], size, dim, false, fault);
#if PART == 2
        if (j >= 0) out[at[0] + j * stride] = src[at[2]];
#else
        to[i] = j < 0 ? -1 : at[0] + j * stride;
        from[i] = at[2];
#endif
    }
}
#elif PART == 3 || PART == 4 || PART == 7
// `g` walks the picked side. Operands: the picked tensor, the indexed tensor (stride zero along index dimensions).
// `used` index tensors follow, with strides along the dimensions of `g`.
struct Indices {
    i32 used, pad;
    const i64* p[MAX_DIMS];
    i64 size[MAX_DIMS], stride[MAX_DIMS], dim[MAX_DIMS];
    i64 strides[MAX_DIMS][MAX_DIMS];
};
extern "C" __global__ void entry(E* picked, E* indexed, i64* to, i64* from, Fault* fault, const __grid_constant__ Geo<2> g,
                                 const __grid_constant__ Indices ix) {
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 coord[MAX_DIMS], rest = i, a = 0, b = 0;
        for (int d = g.nd - 1; d >= 0; d--) {
            const i64 up = rest / g.sizes[d];
            coord[d] = rest - up * g.sizes[d];
            rest = up;
            a += coord[d] * g.strides[0][d];
            b += coord[d] * g.strides[1][d];
        }
        bool ok = true;
        for (int k = 0; k < ix.used; k++) {
            i64 at = 0;
            for (int d = 0; d < g.nd; d++) at += coord[d] * ix.strides[k][d];
            const i64 j = checked(ix.p[k][at], ix.size[k], ix.dim[k], true, fault);
            ok = ok && j >= 0;
            b += j * ix.stride[k];
        }
#if PART == 3
        if (ok) picked[a] = indexed[b];
#elif PART == 4
        if (ok) indexed[b] = picked[a];
#else
        to[i] = ok ? b : -1;
        from[i] = a;
#endif
    }
}
#elif PART == 5
// Operands: out, x, row, column.
extern "C" __global__ void entry(const E* x, E* out, i64 diagonal, i32 upper, const __grid_constant__ Geo<4> g) {
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[4];
        locate(g, i, at);
        // Saturating: the diagonal may be any number.
        const bool keep = upper ? at[3] - at[2] >= diagonal : at[3] - at[2] <= diagonal;
        E v{};
        if (keep) v = x[at[1]];
        out[at[0]] = v;
    }
}
#endif
