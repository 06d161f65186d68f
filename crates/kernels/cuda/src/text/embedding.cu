// EMBEDDING: out[p] = weight[index[p] - start]; rows of other parts are zero, indices outside the table are reported.
// Operands: out, index (stride zero along the last dimension), and the position in a row as a stride of 1.

extern "C" __global__ void entry(const T* weight, i64 row_stride, i64 stride, i64 rows, const I* index, T* out, i64 start,
                                 i64 total, Fault* fault, const __grid_constant__ Geo<3> g) {
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[3];
        locate(g, i, at);
        const i64 raw = (i64)index[at[1]], row = raw - start;
        if (raw < 0 || raw >= total) report(fault, 1, raw, 0, total);
        T v{};
        if (row >= 0 && row < rows) v = weight[row * row_stride + at[2] * stride];
        out[at[0]] = v;
    }
}
