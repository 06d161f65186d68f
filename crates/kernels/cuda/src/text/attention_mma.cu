// ATTENTION and its backward by tensor cores, after FlashAttention-2 (Dao, 2023): 16-bit floats, heads of at most WIDTH columns in
// rows that lie at multiples of sixteen bytes. PART 0 the forward, 2 the gradients of key and value (a block owns keys and walks
// the rows that see them), 3 those of query and mask (a block owns rows and walks the keys they see): every gradient belongs to one
// block, which adds in order. A warp owns MT times 16 rows (PART 2: keys) of a tile of OWN = 16 MT WARPS; STEP is how many of the
// others pass at a time. Weights stay in registers: what a product leaves is, rounded, the next one's first operand.

#define THREADS (32 * WARPS)
#define OWN (16 * MT * WARPS)
// Sixteen bytes more than a row needs, so that the eight rows of a matrix lie in different banks.
#define LD (WIDTH + 8)
// Steps of 16 and 8 columns of a head, of 16 and 8 of what passes.
#define W16 (WIDTH / 16)
#define W8 (WIDTH / 8)
#define S16 (STEP / 16)
#define S8 (STEP / 8)
#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f

extern __shared__ __align__(128) unsigned char dynamic_shared[];

// A head's rows of `width` elements, `down` elements apart.
struct Rows {
    const T* p;
    i64 down, n;
    int width;
};
D Rows head_of(const T* p, const i64* s, i64 batch, i64 head, i64 n, i64 width) {
    Rows r;
    r.p = p + batch * s[0] + head * s[1];
    r.down = s[2];
    r.n = n;
    r.width = (int)width;
    return r;
}

// Brings rows first .. first + N to shared memory; zeros beyond the rows and columns there are.
template <int N> D void fetch(T* to, const Rows& from, i64 first) {
    for (int e = threadIdx.x; e < N * W8; e += THREADS) {
        const int r = e / W8, c = e % W8 * 8;
        const bool inside = first + r < from.n && c < from.width;
        copy_async(to + r * LD + c, from.p + (inside ? (first + r) * from.down + c : 0), inside);
    }
}

// This lane's share of the address of a matrix: first operands and second operands with `trans`, and second operands without.
D int place_first() { return (threadIdx.x % 16) * LD + threadIdx.x / 16 % 2 * 8; }
D int place_second() { return (threadIdx.x % 8 + threadIdx.x / 16 % 2 * 8) * LD + threadIdx.x / 8 % 2 * 8; }

// acc[m][j] += a's 16 rows m times the 8 rows j of b, over the columns of a head.
D void product(f32 (&acc)[MT][S8][4], const T* a, const T* b) {
    a += place_first();
    b += place_second();
#pragma unroll
    for (int k = 0; k < W16; k++) {
        u32 left[MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++) load_matrices(left[m], a + m * 16 * LD + k * 16);
#pragma unroll
        for (int j = 0; j < S16; j++) {
            u32 right[4];
            load_matrices(right, b + j * 16 * LD + k * 16);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                multiply(acc[m][2 * j], left[m], right[0], right[1]);
                multiply(acc[m][2 * j + 1], left[m], right[2], right[3]);
            }
        }
    }
}

// acc[m] += weights[m] (rounded) times the rows of b.
D void accumulate(f32 (&acc)[MT][W8][4], const f32 (&weights)[MT][S8][4], const T* b) {
    b += place_first();
#pragma unroll
    for (int k = 0; k < S16; k++) {
        u32 left[MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++) {
            const f32(&w0)[4] = weights[m][2 * k], (&w1)[4] = weights[m][2 * k + 1];
            left[m][0] = pack(w0[0], w0[1]);
            left[m][1] = pack(w0[2], w0[3]);
            left[m][2] = pack(w1[0], w1[1]);
            left[m][3] = pack(w1[2], w1[3]);
        }
#pragma unroll
        for (int j = 0; j < W16; j++) {
            u32 right[4];
            load_matrices_trans(right, b + k * 16 * LD + j * 16);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                multiply(acc[m][2 * j], left[m], right[0], right[1]);
                multiply(acc[m][2 * j + 1], left[m], right[2], right[3]);
            }
        }
    }
}

template <int N> D void clear(f32 (&acc)[MT][N][4]) {
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) acc[m][j][i] = 0.0f;
}

// Writes 16 MT rows of this warp's, each times its factor.
D void store(T* out, i64 down, i64 first, i64 n, i64 width, const f32 (&acc)[MT][W8][4], const f32 (&by)[MT][2]) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const i64 row = first + m * 16 + half * 8 + g;
            if (row >= n) continue;
#pragma unroll
            for (int j = 0; j < W8; j++)
                if (j * 8 < width)
                    *(u32*)(out + row * down + j * 8 + 2 * t) =
                        pack(acc[m][j][2 * half] * by[m][half], acc[m][j][2 * half + 1] * by[m][half]);
        }
}

// Whether a tile needs no look at single scores: all rows see all keys, and a greater product is a greater score.
D bool is_plain(const Problem& p, i64 row0, i64 n_rows, i64 key0, i64 n_keys, f32 scale) {
    const bool seen = !p.causal || key0 + n_keys <= row0 + 1;
    return seen && !p.mask && scale > 0.0f && key0 + n_keys <= p.keys && row0 + n_rows <= p.rows;
}

// Which of a tile's weights are kept, a bit each in the order of acc[m][j][i]. Rows go down, or keys.
template <bool KEYS_DOWN> D u64 kept_bits(const Problem& p, i64 batch, i64 head, i64 row0, i64 key0) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const RandomCall c = random_call(p.seed, p.offset, p.drawn);
    u64 bits = 0;
    // Random numbers take many instructions: once in the code, not once a weight.
#pragma unroll 1
    for (int e = 0; e < MT * S8 * 4; e += 2) {
        const int down = e / (S8 * 4) * 16 + e / 2 % 2 * 8 + g, right = e % (S8 * 4) / 4 * 8 + 2 * t;
        const i64 row = row0 + (KEYS_DOWN ? right : down), key = key0 + (KEYS_DOWN ? down : right);
        const u64 at = p.first + (u64)(batch * p.window[0] + head * p.window[1] + row * p.window[2] + key * p.window[3]);
        const u64 next = at + (u64)p.window[KEYS_DOWN ? 2 : 3];
        const Words words = philox(c.seed, c.offset, at / 4);
        // Four neighbours share a block of random numbers.
        const Words after = next / 4 == at / 4 ? words : philox(c.seed, c.offset, next / 4);
        const u32 low = at & 2 ? (at & 1 ? words.w[3] : words.w[2]) : (at & 1 ? words.w[1] : words.w[0]);
        const u32 high = next & 2 ? (next & 1 ? after.w[3] : after.w[2]) : (next & 1 ? after.w[1] : after.w[0]);
        bits |= (u64)((i64)(low >> 8) >= p.threshold) << e | (u64)((i64)(high >> 8) >= p.threshold) << (e + 1);
    }
    return bits;
}
D f32 factor(const Problem& p, u64 bits, int m, int j, int i) {
    return bits >> (m * S8 * 4 + j * 4 + i) & 1 ? (f32)p.drop_scale : 0.0f;
}

#if PART == 0
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) entry(const __grid_constant__ Problem p) {
    T* const query = (T*)dynamic_shared;
    T* const key = query + OWN * LD;
    T* const value = key + STEP * LD;
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const f32 scale = (f32)p.scale * LOG2E;
    const i64 tiles = (p.rows + OWN - 1) / OWN, group = p.heads / p.kv_heads;
    for (i64 unit = blockIdx.x; unit < tiles * p.batch * p.heads; unit += gridDim.x) {
        // Neighbours in time share a head's keys; the longest of a head first.
        const i64 row0 = (tiles - 1 - unit % tiles) * OWN, head = unit / tiles % p.heads, batch = unit / tiles / p.heads;
        const Rows q = head_of(p.query, p.q, batch, head, p.rows, p.width);
        const Rows k = head_of(p.key, p.k, batch, head / group, p.keys, p.width);
        const Rows v = head_of(p.value, p.v, batch, head / group, p.keys, p.width);
        const i64 end = p.causal && row0 + OWN < p.keys ? row0 + OWN : p.keys;
        // This warp's first row.
        const i64 own0 = row0 + warp * 16 * MT;
        fetch<OWN>(query, q, row0);
        fetch<STEP>(key, k, 0);
        copies_issued();
        f32 sums[MT][W8][4], most[MT][2], total[MT][2];
        clear<W8>(sums);
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                most[m][half] = LOWEST;
                total[m][half] = 0.0f;
            }
        for (i64 key0 = 0; key0 < end; key0 += STEP) {
            // The keys are there, and nobody reads the values of the step before any more.
            wait_copies<0>();
            __syncthreads();
            fetch<STEP>(value, v, key0);
            copies_issued();
            f32 s[MT][S8][4];
            clear<S8>(s);
            product(s, query + warp * 16 * MT * LD, key);
            wait_copies<0>();
            __syncthreads();
            if (key0 + STEP < end) {
                fetch<STEP>(key, k, key0 + STEP);
                copies_issued();
            }
            const bool plain = is_plain(p, own0, 16 * MT, key0, STEP, scale);
            if (!plain) {
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int j = 0; j < S8; j++)
#pragma unroll
                        for (int i = 0; i < 4; i++)
                            s[m][j][i] = score(p, batch, head, own0 + m * 16 + i / 2 * 8 + g, key0 + j * 8 + 2 * t + i % 2,
                                               s[m][j][i]) * LOG2E;
            }
            const f32 by = plain ? scale : 1.0f;
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    f32 top = LOWEST;
#pragma unroll
                    for (int j = 0; j < S8; j++) top = fmaxf(top, fmaxf(s[m][j][2 * half], s[m][j][2 * half + 1]));
                    const f32 before = most[m][half], now = fmaxf(before, greatest_of_row(top) * by);
                    // A row that has seen nothing yet has no maximum to compare with.
                    const f32 base = now == LOWEST ? 0.0f : now, rescale = exp2_fast(before - base);
                    most[m][half] = now;
                    f32 sum = 0.0f;
#pragma unroll
                    for (int j = 0; j < S8; j++)
#pragma unroll
                        for (int i = 2 * half; i < 2 * half + 2; i++) {
                            s[m][j][i] = exp2_fast(s[m][j][i] * by - base);
                            sum += s[m][j][i];
                        }
                    total[m][half] = total[m][half] * rescale + sum;
#pragma unroll
                    for (int j = 0; j < W8; j++)
#pragma unroll
                        for (int i = 2 * half; i < 2 * half + 2; i++) sums[m][j][i] *= rescale;
                }
            if (p.threshold != 0) {
                const u64 bits = kept_bits<false>(p, batch, head, own0, key0);
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int j = 0; j < S8; j++)
#pragma unroll
                        for (int i = 0; i < 4; i++) s[m][j][i] *= factor(p, bits, m, j, i);
            }
            accumulate(sums, s, value);
        }
        f32 by[MT][2];
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const f32 sum = sum_of_row(total[m][half]);
                by[m][half] = sum == 0.0f ? 0.0f : 1.0f / sum;
                const i64 row = own0 + m * 16 + half * 8 + g;
                if (t == 0 && row < p.rows)
                    p.lse[batch * p.stat[0] + head * p.stat[1] + row * p.stat[2]] =
                        sum == 0.0f ? -LOWEST : most[m][half] * LN2 + logf(sum);
            }
        store(p.out + batch * p.o[0] + head * p.o[1], p.o[2], own0, p.rows, p.width, sums, by);
        // What was brought for nothing is there before the next unit brings its own.
        wait_copies<0>();
        __syncthreads();
    }
}
#elif PART == 1
// What the other parts read of a row, in a pair: the log-sum-exp times log2(e), and the sum of grad_out * out. LANES threads a row.
#define LANES (W8 <= 1 ? 1 : W8 <= 2 ? 2 : W8 <= 4 ? 4 : W8 <= 8 ? 8 : 16)
struct Eight {
    T v[8];
};
union Sixteen {
    uint4 bytes;
    Eight numbers;
};
extern "C" __global__ void __launch_bounds__(256) entry(const __grid_constant__ Problem p) {
    const i64 n = p.batch * p.heads * p.rows;
    const int lane = threadIdx.x % LANES;
    // All lanes of a warp stay for the shuffles.
    for (i64 base = (i64)blockIdx.x * (256 / LANES); base < n; base += (i64)gridDim.x * (256 / LANES)) {
        const i64 unit = base + threadIdx.x / LANES, row = unit % p.rows, head = unit / p.rows % p.heads;
        const i64 batch = unit / p.rows / p.heads;
        f32 sum = 0.0f;
        if (unit < n && lane * 8 < p.value_width) {
            Sixteen a, b;
            a.bytes = *(const uint4*)(p.out + batch * p.o[0] + head * p.o[1] + row * p.o[2] + lane * 8);
            b.bytes = *(const uint4*)(p.grad + batch * p.g[0] + head * p.g[1] + row * p.g[2] + lane * 8);
#pragma unroll
            for (int i = 0; i < 8; i++) sum += get<f32>(&a.numbers.v[i]) * get<f32>(&b.numbers.v[i]);
        }
#pragma unroll
        for (int s = LANES / 2; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
        if (unit < n && lane == 0) {
            p.delta[2 * unit] = p.lse[batch * p.stat[0] + head * p.stat[1] + row * p.stat[2]] * LOG2E;
            p.delta[2 * unit + 1] = sum;
        }
    }
}
#else
// The weight of a score's product.
D f32 weight(const Problem& p, bool plain, f32 scale, i64 batch, i64 head, i64 row, i64 key, f32 v, f32 lse) {
    return exp2_fast(plain ? v * scale - lse : score(p, batch, head, row, key, v) * LOG2E - lse);
}
// What passes in a step: keys and values, or rows of query and gradient with their statistics.
struct Pass {
    T a[STEP * LD], b[STEP * LD];
#if PART == 2
    f32 stats[STEP][2];
#endif
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) entry(const __grid_constant__ Problem p) {
    // What the block owns: key and value, or query and gradient. One step is worked on while the next is on its way.
    T* const own_a = (T*)dynamic_shared;
    T* const own_b = own_a + OWN * LD;
    Pass* const passes = (Pass*)(own_b + OWN * LD);
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const f32 scale = (f32)p.scale * LOG2E;
    const i64 group = p.heads / p.kv_heads;
#if PART == 2
    const i64 tiles = (p.keys + OWN - 1) / OWN;
    for (i64 unit = blockIdx.x; unit < tiles * p.batch * p.kv_heads; unit += gridDim.x) {
        // The first keys are seen by most rows.
        const i64 key0 = unit % tiles * OWN, kv = unit / tiles % p.kv_heads, batch = unit / tiles / p.kv_heads;
        const i64 own0 = key0 + warp * 16 * MT;
        fetch<OWN>(own_a, head_of(p.key, p.k, batch, kv, p.keys, p.width), key0);
        fetch<OWN>(own_b, head_of(p.value, p.v, batch, kv, p.keys, p.width), key0);
        f32 grad_key[MT][W8][4], grad_value[MT][W8][4];
        clear<W8>(grad_key);
        clear<W8>(grad_value);
        // Steps of one head, then of the next of its group.
        const i64 begin = p.causal ? key0 / STEP : 0, steps = (p.rows + STEP - 1) / STEP;
        const i64 a_head = begin < steps ? steps - begin : 0, n = a_head * group;
        const auto bring = [&](i64 step) {
            const i64 head = kv * group + step / a_head, row0 = (begin + step % a_head) * STEP;
            Pass& to = passes[step % 2];
            fetch<STEP>(to.a, head_of(p.query, p.q, batch, head, p.rows, p.width), row0);
            fetch<STEP>(to.b, head_of(p.grad, p.g, batch, head, p.rows, p.width), row0);
            for (int e = threadIdx.x; e < STEP; e += THREADS) {
                const bool inside = row0 + e < p.rows;
                copy_async8(to.stats[e], p.delta + (inside ? 2 * ((batch * p.heads + head) * p.rows + row0 + e) : 0), inside);
            }
        };
        if (n > 0) bring(0);
        copies_issued();
        for (i64 step = 0; step < n; step++) {
            const i64 head = kv * group + step / a_head, row0 = (begin + step % a_head) * STEP;
            const Pass& pass = passes[step % 2];
            if (step + 1 < n) bring(step + 1);
            copies_issued();
            wait_copies<1>();
            __syncthreads();
            // Keys go down, rows to the right.
            f32 s[MT][S8][4], d[MT][S8][4];
            clear<S8>(s);
            product(s, own_a + warp * 16 * MT * LD, pass.a);
            const bool plain = is_plain(p, row0, STEP, own0, 16 * MT, scale);
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int j = 0; j < S8; j++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const int r = j * 8 + 2 * t + i % 2;
                        s[m][j][i] = weight(p, plain, scale, batch, head, row0 + r, own0 + m * 16 + i / 2 * 8 + g,
                                            s[m][j][i], pass.stats[r][0]);
                    }
            clear<S8>(d);
            product(d, own_b + warp * 16 * MT * LD, pass.b);
            const u64 bits = p.threshold != 0 ? kept_bits<true>(p, batch, head, row0, own0) : 0;
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int j = 0; j < S8; j++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const f32 by = p.threshold != 0 ? factor(p, bits, m, j, i) : 1.0f;
                        d[m][j][i] = s[m][j][i] * (d[m][j][i] * by - pass.stats[j * 8 + 2 * t + i % 2][1]);
                        s[m][j][i] *= by;
                    }
            accumulate(grad_value, s, pass.b);
            accumulate(grad_key, d, pass.a);
            // The step after the next comes to the same place.
            __syncthreads();
        }
        f32 one[MT][2], by[MT][2];
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                one[m][half] = 1.0f;
                by[m][half] = (f32)p.scale;
            }
        store(p.grad_key + batch * p.gk[0] + kv * p.gk[1], p.gk[2], own0, p.keys, p.width, grad_key, by);
        store(p.grad_value + batch * p.gv[0] + kv * p.gv[1], p.gv[2], own0, p.keys, p.width, grad_value, one);
        wait_copies<0>();
        __syncthreads();
    }
#else
    const i64 tiles = (p.rows + OWN - 1) / OWN;
    for (i64 unit = blockIdx.x; unit < tiles * p.batch * p.heads; unit += gridDim.x) {
        const i64 row0 = (tiles - 1 - unit % tiles) * OWN, head = unit / tiles % p.heads, batch = unit / tiles / p.heads;
        const i64 own0 = row0 + warp * 16 * MT;
        const Rows k = head_of(p.key, p.k, batch, head / group, p.keys, p.width);
        const Rows v = head_of(p.value, p.v, batch, head / group, p.keys, p.width);
        // The mask's gradient is written for keys that are not seen, too.
        const i64 end = p.causal && !p.grad_mask && row0 + OWN < p.keys ? row0 + OWN : p.keys;
        fetch<OWN>(own_a, head_of(p.query, p.q, batch, head, p.rows, p.width), row0);
        fetch<OWN>(own_b, head_of(p.grad, p.g, batch, head, p.rows, p.width), row0);
        fetch<STEP>(passes[0].a, k, 0);
        fetch<STEP>(passes[0].b, v, 0);
        copies_issued();
        f32 grad_query[MT][W8][4], lse[MT][2], delta[MT][2];
        clear<W8>(grad_query);
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const i64 row = own0 + m * 16 + half * 8 + g, unit = (batch * p.heads + head) * p.rows + row;
                lse[m][half] = row < p.rows ? p.delta[2 * unit] : -LOWEST;
                delta[m][half] = row < p.rows ? p.delta[2 * unit + 1] : 0.0f;
            }
        int turn = 0;
        for (i64 key0 = 0; key0 < end; key0 += STEP, turn ^= 1) {
            const Pass& pass = passes[turn];
            if (key0 + STEP < end) {
                fetch<STEP>(passes[turn ^ 1].a, k, key0 + STEP);
                fetch<STEP>(passes[turn ^ 1].b, v, key0 + STEP);
            }
            copies_issued();
            wait_copies<1>();
            __syncthreads();
            f32 s[MT][S8][4], d[MT][S8][4];
            clear<S8>(s);
            product(s, own_a + warp * 16 * MT * LD, pass.a);
            const bool plain = is_plain(p, own0, 16 * MT, key0, STEP, scale);
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int j = 0; j < S8; j++)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        s[m][j][i] = weight(p, plain, scale, batch, head, own0 + m * 16 + i / 2 * 8 + g,
                                            key0 + j * 8 + 2 * t + i % 2, s[m][j][i], lse[m][i / 2]);
            clear<S8>(d);
            product(d, own_b + warp * 16 * MT * LD, pass.b);
            const u64 bits = p.threshold != 0 ? kept_bits<false>(p, batch, head, own0, key0) : 0;
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int j = 0; j < S8; j++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const f32 by = p.threshold != 0 ? factor(p, bits, m, j, i) : 1.0f;
                        d[m][j][i] = s[m][j][i] * (d[m][j][i] * by - delta[m][i / 2]);
                    }
            if (p.grad_mask) {
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int j = 0; j < S8; j++)
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            const i64 row = own0 + m * 16 + i / 2 * 8 + g, key = key0 + j * 8 + 2 * t + i % 2;
                            if (row < p.rows && key < p.keys)
                                put(p.grad_mask + ((batch * p.heads + head) * p.rows + row) * p.keys + key, d[m][j][i]);
                        }
            }
            accumulate(grad_query, d, pass.a);
            // The step after the next comes to the same place.
            __syncthreads();
        }
        f32 by[MT][2];
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) by[m][half] = (f32)p.scale;
        store(p.grad_query + batch * p.gq[0] + head * p.gq[1], p.gq[2], own0, p.rows, p.width, grad_query, by);
        wait_copies<0>();
        __syncthreads();
    }
#endif
}
#endif
