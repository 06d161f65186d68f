// REDUCE: a row of threads folds one output's elements (or one part of them, of `parts`) into an accumulator of type A.
// With parts, accumulators go to partial[output * parts + part], and the row that comes last folds those of its output.

#define SUM 0
#define PROD 1
#define MAX 2
#define MIN 3
#define MEAN 4
#define ANY 5
#define ALL 6
#define COUNT 8

D A identity() {
#if KIND == PROD || KIND == ALL
    return (A)1;
#elif KIND == MAX || KIND == MIN
    return LIMIT;
#else
    return (A)0;
#endif
}
D A fold(A a, A b) {
#if KIND == SUM || KIND == MEAN || KIND == COUNT
    return a + b;
#elif KIND == PROD
    return a * b;
#elif KIND == MAX
    return greater(a, b);
#elif KIND == MIN
    return smaller(a, b);
#elif KIND == ANY
    return a != (A)0 || b != (A)0 ? (A)1 : (A)0;
#else
    return a != (A)0 && b != (A)0 ? (A)1 : (A)0;
#endif
}
D A load(const T* p) {
#if KIND == COUNT || KIND == ANY || KIND == ALL
    return wide(*p) != 0 ? (A)1 : (A)0;
#else
    return get<A>(p);
#endif
}

extern "C" __global__ void __launch_bounds__(1024) entry(i32 by_x, i64 parts, A divisor, const T* x, O* out, A* partial, u32* tickets,
                                 const __grid_constant__ Geo<2> kept, const __grid_constant__ Geo<1> reduced) {
    __shared__ A room[1024];
    __shared__ u32 last_rows[256];
    const Place p = place(by_x);
    const i64 length = (reduced.n + parts - 1) / parts;
    for (i64 block = blockIdx.x; block * p.rows < kept.n * parts; block += gridDim.x) {
        const i64 unit = block * p.rows + p.row;
        const bool live = unit < kept.n * parts;
        // Rows of threads next to each other have outputs next to each other where these are neighbours in memory.
        const i64 output = !live ? 0 : by_x ? unit / parts : unit % kept.n, part = by_x ? unit % parts : unit / kept.n;
        i64 at[2], in[1];
        locate(kept, output, at);
        A acc = identity();
        if (live) {
            const i64 first = part * length, end = first + length < reduced.n ? first + length : reduced.n;
            for (i64 i = first + p.i; i < end; i += p.across) {
                locate(reduced, i, in);
                acc = fold(acc, load(x + at[1] + in[0]));
            }
        }
        acc = combine(acc, room, p, [](A a, A b) { return fold(a, b); });
        bool done = live;
        if (parts > 1) {
            // Whoever comes last to an output folds its parts, in their order.
            A* const own = partial + output * parts;
            if (live && p.i == 0) own[part] = acc;
            done = comes_last(tickets + output, parts, live, last_rows, p);
            acc = identity();
            for (i64 k = p.i; done && k < parts; k += p.across) acc = fold(acc, ((volatile A*)own)[k]);
            acc = combine(acc, room, p, [](A a, A b) { return fold(a, b); });
        }
        if (done && p.i == 0)
#if KIND == MEAN
            put(out + at[0], acc / divisor);
#else
            put(out + at[0], acc);
#endif
    }
}
