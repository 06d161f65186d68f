// SORT and TOPK around the radix sort. PART 0 makes keys in the order of the values and numbers the elements; PART 1 makes
// keys of the rows (the last passes of the sort bring each row together); PART 2 writes the first k of every row;
// PART 3 turns destinations (possibly -1) into keys.

#if PART == 0
D u64 key_of(f64 v) {
    const u64 b = (u64)__double_as_longlong(v + 0.0), sign = 1ull << 63;
    return v != v ? ~0ull : b & sign ? ~b : b | sign;
}
D u64 key_of(f32 v) {
    const u32 b = __float_as_uint(v + 0.0f), sign = 1u << 31;
    return v != v ? 0xffffffffu : b & sign ? ~b : b | sign;
}
D u64 key_of(i64 v) { return (u64)v ^ (1ull << 63); }

// Rows are the positions of `kept`, elements of a row are `stride` apart.
extern "C" __global__ void entry(const T* x, u64* keys, u64* numbers, i64 n, i64 stride, u64 flip,
                                 const __grid_constant__ Geo<1> kept) {
    for (i64 i = first_position(); i < kept.n * n; i += position_step()) {
        i64 at[1];
        locate(kept, i / n, at);
        keys[i] = key_of(wide(x[at[0] + i % n * stride])) ^ flip;
        numbers[i] = (u64)i;
    }
}
#elif PART == 1
extern "C" __global__ void entry(const u64* numbers, u64* keys, i64 total, i64 n) {
    for (i64 i = first_position(); i < total; i += position_step()) keys[i] = numbers[i] / (u64)n;
}
#elif PART == 2
// Operands of kept: x, values, indices.
extern "C" __global__ void entry(const T* x, const u64* numbers, T* values, i64* indices, i64 n, i64 k, i64 x_stride,
                                 i64 value_stride, i64 index_stride, const __grid_constant__ Geo<3> kept) {
    for (i64 i = first_position(); i < kept.n * k; i += position_step()) {
        const i64 row = i / k, j = i % k, from = (i64)numbers[row * n + j] - row * n;
        i64 at[3];
        locate(kept, row, at);
        if (values) values[at[1] + j * value_stride] = x[at[0] + from * x_stride];
        if (indices) indices[at[2] + j * index_stride] = from;
    }
}
#elif PART == 3
extern "C" __global__ void entry(const i64* to, u64* keys, u64* numbers, i64 n, u64 skip) {
    for (i64 i = first_position(); i < n; i += position_step()) {
        keys[i] = to[i] < 0 ? skip : (u64)to[i];
        numbers[i] = (u64)i;
    }
}
#elif PART == 4
// Keys of EMBEDDING_BACKWARD: rows of this part, everything else skipped. Operands: index, grad_output's row.
extern "C" __global__ void entry(const T* index, u64* keys, u64* numbers, i64* from, i64 start, i64 rows, i64 total,
                                 i64 padding, u64 skip, Fault* fault, const __grid_constant__ Geo<2> g) {
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[2];
        locate(g, i, at);
        const i64 raw = (i64)index[at[0]], row = raw - start;
        if (raw < 0 || raw >= total) report(fault, 1, raw, 0, total);
        keys[i] = raw == padding || row < 0 || row >= rows ? skip : (u64)row;
        numbers[i] = (u64)i;
        from[i] = at[1];
    }
}
#endif
