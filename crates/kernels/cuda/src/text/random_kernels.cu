// RANDOM and DROPOUT: PART 0 uniform, 1 normal, 2 Bernoulli, 3 integers, 4 exponential, 5 dropout. DIGITS is the number
// of random bits of a uniform value: as many as the dtype holds.

#if PART == 5
// Operands: y, mask, x, element index. `packed`: a position is four neighbours along all of them, which share a block of random
// numbers.
template <class E> struct alignas(4 * sizeof(E) < 16 ? 4 * sizeof(E) : 16) Four {
    E v[4];
};
extern "C" __global__ void entry(i32 packed, const T* x, T* y, b8* mask, u64 seed, u64 offset, const u64* drawn, u64 first,
                                 u32 threshold, C scale, const __grid_constant__ Geo<4> g) {
    const RandomCall c = random_call(seed, offset, drawn);
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[4];
        locate(g, i, at);
        if (packed) {
            const Words r = philox(c.seed, c.offset, (first + (u64)at[3]) / 4);
            Four<T> v = *(const Four<T>*)(x + at[2]);
            Four<b8> m;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const bool keep = r.w[j] >> 8 >= threshold;
                m.v[j].v = keep;
                put(&v.v[j], get<C>(&v.v[j]) * (keep ? scale : (C)0));
            }
            *(Four<b8>*)(mask + at[1]) = m;
            *(Four<T>*)(y + at[0]) = v;
            continue;
        }
        const bool keep = packed_philox(c.seed, c.offset, first + (u64)at[3]) >> 8 >= threshold;
        mask[at[1]].v = keep;
        put(y + at[0], get<C>(x + at[2]) * (keep ? scale : (C)0));
    }
}
#else
// Operands: out, element index. `low` and `span` serve integers, `threshold` Bernoulli.
extern "C" __global__ void entry(T* out, u64 seed, u64 offset, const u64* drawn, u64 first, f64 a, f64 b, i64 low, u64 span,
                                 u32 threshold, const __grid_constant__ Geo<2> g) {
    const RandomCall c = random_call(seed, offset, drawn);
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[2];
        locate(g, i, at);
        const Words r = philox(c.seed, c.offset, first + (u64)at[1]);
        const u32* w = r.w;
        T* o = out + at[0];
#if PART == 2
        put(o, w[0] >> 8 < threshold ? (i64)1 : (i64)0);
#elif PART == 3
        put(o, (i64)((u64)low + __umul64hi((u64)w[0] | (u64)w[1] << 32, span)));
#elif IS_F64
#if PART == 0
        f64 v = uniform_f64(w[0], w[1]) * (b - a) + a;
        if (a < b && v >= b) v = a;
        put(o, v);
#elif PART == 1
        const f64 u = 1.0 - uniform_f64(w[0], w[1]);
        put(o, sqrt(-2.0 * log(u)) * cos(6.283185307179586 * uniform_f64(w[2], w[3])) * b + a);
#else
        put(o, log(1.0 - uniform_f64(w[0], w[1])) / -a);
#endif
#else
        const f32 fa = (f32)a, fb = (f32)b;
#if PART == 0
        const f32 v = ((f32)(i32)(w[0] >> (32 - DIGITS)) * (1.0f / (f32)(1u << DIGITS))) * (fb - fa) + fa;
        put(o, v);
        // A value that rounds to the open end becomes the closed one.
        T ends[2];
        put(ends, a);
        put(ends + 1, b);
        if (wide(ends[0]) < wide(ends[1]) && wide(*o) >= wide(ends[1])) *o = ends[0];
#elif PART == 1
        put(o, normal_f32(w[0], w[1]) * fb + fa);
#else
        put(o, ln_f32(above_zero(w[0])) * (-1.0f / fa));
#endif
#endif
    }
}
#endif
