// SOFTMAX, LAYER_NORM (and RMS norm) and their backwards, of rows without gaps that fit the registers of ACROSS threads: memory is
// read once and written once, VEC elements (sixteen bytes) at a time, CHUNKS times a thread. KIND 0 softmax, 1 its backward, 2
// norm, 3 its gradients. Softmax: IS_LOG; norms: RMS.

#define THREADS (ACROSS < 256 ? 256 : ACROSS)
#define AT_ONCE (THREADS / ACROSS)

template <class E> struct alignas(VEC * sizeof(E) < 16 ? VEC * sizeof(E) : 16) Pack {
    E v[VEC];
};
template <class E> D void load(C (&to)[VEC], const E* from) {
    const Pack<E> p = *(const Pack<E>*)from;
#pragma unroll
    for (int e = 0; e < VEC; e++) to[e] = get<C>(&p.v[e]);
}
template <class E> D void save(E* to, const C (&from)[VEC]) {
    Pack<E> p;
#pragma unroll
    for (int e = 0; e < VEC; e++) put(&p.v[e], from[e]);
    *(Pack<E>*)to = p;
}

// Combines a number of each of the row's threads; all of them get the same bits. Shuffles, then shared memory between warps.
template <class F> D C over_row(C v, C* room, F f) {
#pragma unroll
    for (int s = (ACROSS < 32 ? ACROSS : 32) / 2; s > 0; s /= 2) v = f(v, __shfl_xor_sync(0xffffffffu, v, s));
#if ACROSS > 32
    const int warp = threadIdx.x / 32, first = warp / (ACROSS / 32) * (ACROSS / 32);
    if (threadIdx.x % 32 == 0) room[warp] = v;
    __syncthreads();
    v = room[first];
#pragma unroll
    for (int k = 1; k < ACROSS / 32; k++) v = f(v, room[first + k]);
    __syncthreads();
#endif
    return v;
}
D C sum_over_row(C v, C* room) {
    return over_row(v, room, [](C a, C b) { return a + b; });
}

// The element with which chunk k of this thread begins.
D int place_of(int k) { return (k * ACROSS + threadIdx.x % ACROSS) * VEC; }

#if KIND == 0
// Operands: out, x.
extern "C" __global__ void __launch_bounds__(THREADS) entry(const T* x, T* out, i32 n, const __grid_constant__ Geo<2> rows) {
    __shared__ C room[THREADS / 32];
    for (i64 row0 = (i64)blockIdx.x * AT_ONCE; row0 < rows.n; row0 += (i64)gridDim.x * AT_ONCE) {
        const i64 row = row0 + threadIdx.x / ACROSS;
        const bool live = row < rows.n;
        i64 at[2];
        locate(rows, live ? row : 0, at);
        C v[CHUNKS][VEC], top = LOWEST;
#pragma unroll
        for (int k = 0; k < CHUNKS; k++)
            if (live && place_of(k) < n) {
                load(v[k], x + at[1] + place_of(k));
#pragma unroll
                for (int e = 0; e < VEC; e++) top = greater(top, v[k][e]);
            }
        top = over_row(top, room, [](C a, C b) { return greater(a, b); });
        C sum = (C)0;
#pragma unroll
        for (int k = 0; k < CHUNKS; k++)
            if (live && place_of(k) < n)
#pragma unroll
                for (int e = 0; e < VEC; e++) {
                    v[k][e] -= top;
                    const C w = EXP(v[k][e]);
                    sum += w;
                    if (!IS_LOG) v[k][e] = w;
                }
        sum = sum_over_row(sum, room);
        const C by = IS_LOG ? LN(sum) : (C)1 / sum;
#pragma unroll
        for (int k = 0; k < CHUNKS; k++)
            if (live && place_of(k) < n) {
#pragma unroll
                for (int e = 0; e < VEC; e++) v[k][e] = IS_LOG ? v[k][e] - by : v[k][e] * by;
                save(out + at[0] + place_of(k), v[k]);
            }
    }
}
#elif KIND == 1
// Operands: grad_x, grad_output, output.
extern "C" __global__ void __launch_bounds__(THREADS) entry(const T* grad, const T* y, T* out, i32 n,
                                                            const __grid_constant__ Geo<3> rows) {
    __shared__ C room[THREADS / 32];
    for (i64 row0 = (i64)blockIdx.x * AT_ONCE; row0 < rows.n; row0 += (i64)gridDim.x * AT_ONCE) {
        const i64 row = row0 + threadIdx.x / ACROSS;
        const bool live = row < rows.n;
        i64 at[3];
        locate(rows, live ? row : 0, at);
        C g[CHUNKS][VEC], v[CHUNKS][VEC], sum = (C)0;
#pragma unroll
        for (int k = 0; k < CHUNKS; k++)
            if (live && place_of(k) < n) {
                load(g[k], grad + at[1] + place_of(k));
                load(v[k], y + at[2] + place_of(k));
#pragma unroll
                for (int e = 0; e < VEC; e++) sum += IS_LOG ? g[k][e] : g[k][e] * v[k][e];
            }
        sum = sum_over_row(sum, room);
#pragma unroll
        for (int k = 0; k < CHUNKS; k++)
            if (live && place_of(k) < n) {
#pragma unroll
                for (int e = 0; e < VEC; e++)
                    g[k][e] = IS_LOG ? g[k][e] - EXP(v[k][e]) * sum : v[k][e] * (g[k][e] - sum);
                save(out + at[0] + place_of(k), g[k]);
            }
    }
}
#elif KIND == 2
// Operands: y, x. The variance is that of the differences to the mean: no cancellation.
extern "C" __global__ void __launch_bounds__(THREADS) entry(const T* x, const W* weight, const W* bias, T* y, C* mean, C* rstd,
                                                            C eps, i32 n, const __grid_constant__ Geo<2> rows) {
    __shared__ C room[THREADS / 32];
    for (i64 row0 = (i64)blockIdx.x * AT_ONCE; row0 < rows.n; row0 += (i64)gridDim.x * AT_ONCE) {
        const i64 row = row0 + threadIdx.x / ACROSS;
        const bool live = row < rows.n;
        i64 at[2];
        locate(rows, live ? row : 0, at);
        C v[CHUNKS][VEC], mu = (C)0, sum = (C)0;
#pragma unroll
        for (int k = 0; k < CHUNKS; k++)
            if (live && place_of(k) < n) {
                load(v[k], x + at[1] + place_of(k));
#pragma unroll
                for (int e = 0; e < VEC; e++) sum += v[k][e];
            }
#if !RMS
        mu = sum_over_row(sum, room) / (C)n;
#endif
        sum = (C)0;
#pragma unroll
        for (int k = 0; k < CHUNKS; k++)
            if (live && place_of(k) < n)
#pragma unroll
                for (int e = 0; e < VEC; e++) {
                    v[k][e] -= mu;
                    sum += v[k][e] * v[k][e];
                }
        const C r = (C)1 / SQRT(sum_over_row(sum, room) / (C)n + eps);
#pragma unroll
        for (int k = 0; k < CHUNKS; k++)
            if (live && place_of(k) < n) {
                C w[VEC], b[VEC];
                if (weight) load(w, weight + place_of(k));
                if (bias) load(b, bias + place_of(k));
#pragma unroll
                for (int e = 0; e < VEC; e++) {
                    v[k][e] *= r;
                    if (weight) v[k][e] *= w[e];
                    if (bias) v[k][e] += b[e];
                }
                save(y + at[0] + place_of(k), v[k]);
            }
        if (live && threadIdx.x % ACROSS == 0) {
            if (mean) mean[row] = mu;
            if (rstd) rstd[row] = r;
        }
    }
}
#else
// Operands: grad_x, grad_output, x, what is added to grad_x (null where nothing is). The gradient may be of a narrower
// dtype. PARAMS: a thread also keeps the sums of its columns over the rows it meets, for the gradients of weight and bias.
// The last block of each GROUP adds up what its group's blocks have left in `partial` ([2, blocks, n]); it leaves that
// behind them, and the last group's last block adds up all of those.
#define GROUP 16

#if PARAMS
#define WIDTH (ACROSS * CHUNKS * VEC)
// A block's sums by column.
D void keep(C* to, const C (&sums)[CHUNKS][VEC], C* together, i32 n) {
    const int row = threadIdx.x / ACROSS;
#pragma unroll
    for (int k = 0; k < CHUNKS; k++)
#pragma unroll
        for (int e = 0; e < VEC; e++) together[row * WIDTH + place_of(k) + e] = sums[k][e];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += THREADS) {
        C sum = together[i];
#pragma unroll
        for (int r = 1; r < AT_ONCE; r++) sum += together[r * WIDTH + i];
        to[i] = sum;
    }
    __syncthreads();
}
D C column(const C* from, int i, u32 n_rows, i32 n) {
    C sum = (C)0;
    for (u32 k = 0; k < n_rows; k++) sum += ((const volatile C*)from)[(i64)k * n + i];
    return sum;
}
// Whether this block is the last of `n`, each of which has written before.
D bool is_last(u32* ticket, u32 n, u32* room) {
    Place p;
    p.i = threadIdx.x;
    p.row = 0;
    __threadfence();
    __syncthreads();
    return comes_last(ticket, n, true, room, p);
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS) entry(const G* grad, const T* x, const C* mean, const C* rstd,
                                                            const W* weight, const T* residual, T* out, W* grad_weight,
                                                            W* grad_bias, C* partial, u32* tickets, i32 n,
                                                            const __grid_constant__ Geo<4> rows) {
    __shared__ C room[THREADS / 32];
#if PARAMS
    __shared__ C together[AT_ONCE * WIDTH];
    __shared__ u32 last[1];
    C sum_w[CHUNKS][VEC], sum_b[CHUNKS][VEC];
#pragma unroll
    for (int k = 0; k < CHUNKS; k++)
#pragma unroll
        for (int e = 0; e < VEC; e++) sum_w[k][e] = sum_b[k][e] = (C)0;
#endif
    for (i64 row0 = (i64)blockIdx.x * AT_ONCE; row0 < rows.n; row0 += (i64)gridDim.x * AT_ONCE) {
        const i64 row = row0 + threadIdx.x / ACROSS;
        const bool live = row < rows.n;
        i64 at[4];
        locate(rows, live ? row : 0, at);
        const C mu = live && mean ? mean[row] : (C)0, r = live ? rstd[row] : (C)0;
        C g[CHUNKS][VEC], v[CHUNKS][VEC], sum_g = (C)0, sum_gx = (C)0;
#pragma unroll
        for (int k = 0; k < CHUNKS; k++)
            if (live && place_of(k) < n) {
                load(g[k], grad + at[1] + place_of(k));
                load(v[k], x + at[2] + place_of(k));
                C w[VEC];
                if (weight) load(w, weight + place_of(k));
#pragma unroll
                for (int e = 0; e < VEC; e++) {
                    v[k][e] = (v[k][e] - mu) * r;
#if PARAMS
                    sum_w[k][e] += g[k][e] * v[k][e];
                    sum_b[k][e] += g[k][e];
#endif
                    if (weight) g[k][e] *= w[e];
                    sum_g += g[k][e];
                    sum_gx += g[k][e] * v[k][e];
                }
            }
        sum_g = RMS ? (C)0 : sum_over_row(sum_g, room) / (C)n;
        sum_gx = sum_over_row(sum_gx, room) / (C)n;
#pragma unroll
        for (int k = 0; k < CHUNKS; k++)
            if (live && place_of(k) < n) {
                C more[VEC];
                if (residual) load(more, residual + at[3] + place_of(k));
#pragma unroll
                for (int e = 0; e < VEC; e++) {
                    v[k][e] = r * (g[k][e] - sum_g - v[k][e] * sum_gx);
                    if (residual) v[k][e] = plus(v[k][e], more[e]);
                }
                save(out + at[0] + place_of(k), v[k]);
            }
    }
#if PARAMS
    const u32 group = blockIdx.x / GROUP, first = group * GROUP, n_groups = (gridDim.x + GROUP - 1) / GROUP;
    const u32 n_blocks = gridDim.x - first < GROUP ? gridDim.x - first : GROUP;
    C* const of_weight = partial, * const of_bias = of_weight + (i64)gridDim.x * n;
    C* const groups_weight = of_bias + (i64)gridDim.x * n, * const groups_bias = groups_weight + (i64)n_groups * n;
    keep(of_weight + (i64)blockIdx.x * n, sum_w, together, n);
    keep(of_bias + (i64)blockIdx.x * n, sum_b, together, n);
    if (!is_last(tickets + group, n_blocks, last)) return;
    for (int i = threadIdx.x; i < n; i += THREADS) {
        groups_weight[(i64)group * n + i] = column(of_weight + (i64)first * n, i, n_blocks, n);
        groups_bias[(i64)group * n + i] = column(of_bias + (i64)first * n, i, n_blocks, n);
    }
    if (!is_last(tickets + n_groups, n_groups, last)) return;
    for (int i = threadIdx.x; i < n; i += THREADS) {
        if (grad_weight) put(grad_weight + i, column(groups_weight, i, n_groups, n));
        if (grad_bias) put(grad_bias + i, column(groups_bias, i, n_groups, n));
    }
#endif
}
#endif
