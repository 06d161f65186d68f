// ATTENTION and its backward by tiles of BM rows by BM keys, the weights never in memory: PART 0 the forward with a running maximum
// and sum of every row, 1 the rows' sums of grad_out * out, 2 the gradients of key and value (a block walks the rows that see its
// keys), 3 those of query and mask (a block walks the keys its rows see). 256 threads of R by R scores each; E_TILES and V_TILES
// are the widths of query and value in steps of 16.

#define R (BM / 16)
#define CHUNK 16
#define STEP 8
#define WIDE (16 * (E_TILES > V_TILES ? E_TILES : V_TILES))

// A matrix of one head.
template <class E> struct Matrix {
    E* p;
    i64 rows, columns, down, right;
};
template <class E> D Matrix<E> matrix(E* p, const i64* s, i64 batch, i64 head, i64 rows, i64 columns) {
    Matrix<E> m;
    m.p = p + batch * s[0] + head * s[1];
    m.rows = rows;
    m.columns = columns;
    m.down = s[2];
    m.right = s[3];
    return m;
}

// A tile's numbers, and room for what is streamed through.
struct Rooms {
    C weights[BM][BM + 1];
#if PART == 2 || PART == 3
    C scores[BM][BM + 1];
#endif
    union {
        struct {
            C a[CHUNK][BM + 1], b[CHUNK][BM + 1];
        };
        C x[STEP][WIDE];
    };
    C stat[3][BM];
    C part[4][256];
};

// acc[i][j] = sum over columns of a[row ty * R + i] * b[row tx + 16 j].
D void product(Rooms& s, Matrix<const T> a, i64 a0, Matrix<const T> b, i64 b0, C acc[R][R]) {
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < R; j++) acc[i][j] = (C)0;
    for (i64 base = 0; base < a.columns; base += CHUNK) {
        for (int e = threadIdx.x; e < CHUNK * BM; e += 256) {
            const int c = e % CHUNK, r = e / CHUNK;
            const bool inside = base + c < a.columns;
            s.a[c][r] = inside && a0 + r < a.rows ? get<C>(a.p + (a0 + r) * a.down + (base + c) * a.right) : (C)0;
            s.b[c][r] = inside && b0 + r < b.rows ? get<C>(b.p + (b0 + r) * b.down + (base + c) * b.right) : (C)0;
        }
        __syncthreads();
#pragma unroll
        for (int c = 0; c < CHUNK; c++) {
            C l[R], r[R];
#pragma unroll
            for (int i = 0; i < R; i++) l[i] = s.a[c][ty * R + i];
#pragma unroll
            for (int j = 0; j < R; j++) r[j] = s.b[c][tx + 16 * j];
#pragma unroll
            for (int i = 0; i < R; i++)
#pragma unroll
                for (int j = 0; j < R; j++) acc[i][j] += l[i] * r[j];
        }
        __syncthreads();
    }
}

// acc[i][j] += sum over k of tile(ty * R + i, k) * x[x0 + k][tx + 16 j]; `turned`: the tile's rows are k.
template <int TILES> D void accumulate(Rooms& s, const C (*tile)[BM + 1], bool turned, Matrix<const T> x, i64 x0, C acc[R][TILES]) {
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    for (int base = 0; base < BM; base += STEP) {
        for (int e = threadIdx.x; e < STEP * 16 * TILES; e += 256) {
            const int c = e % (16 * TILES), r = e / (16 * TILES);
            const i64 row = x0 + base + r;
            s.x[r][c] = row < x.rows && c < x.columns ? get<C>(x.p + row * x.down + c * x.right) : (C)0;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < STEP; k++) {
            C l[R];
#pragma unroll
            for (int i = 0; i < R; i++) l[i] = turned ? tile[base + k][ty * R + i] : tile[ty * R + i][base + k];
#pragma unroll
            for (int j = 0; j < TILES; j++) {
                const C v = s.x[k][tx + 16 * j];
#pragma unroll
                for (int i = 0; i < R; i++) acc[i][j] += l[i] * v;
            }
        }
        __syncthreads();
    }
}

template <int TILES> D void clear(C acc[R][TILES]) {
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < TILES; j++) acc[i][j] = (C)0;
}
template <int TILES> D void store(Matrix<T> out, i64 row0, const C acc[R][TILES], C by) {
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < TILES; j++) {
            const i64 row = row0 + ty * R + i, c = tx + 16 * j;
            if (row < out.rows && c < out.columns) put(out.p + row * out.down + c * out.right, acc[i][j] * by);
        }
}

#if PART == 0
extern "C" __global__ void __launch_bounds__(256) entry(const __grid_constant__ Problem p) {
    __shared__ Rooms s;
    const int id = threadIdx.x, tx = id % 16, ty = id / 16;
    // Of the statistics: four threads a row.
    const int r = id / 4 % BM, quarter = id % 4;
    const i64 tiles = (p.rows + BM - 1) / BM;
    for (i64 unit = blockIdx.x; unit < tiles * p.batch * p.heads; unit += gridDim.x) {
        // The longest first.
        const i64 row0 = (tiles - 1 - unit / (p.batch * p.heads)) * BM, head = unit % p.heads, batch = unit / p.heads % p.batch;
        const i64 kv = head / (p.heads / p.kv_heads);
        const Matrix<const T> q = matrix(p.query, p.q, batch, head, p.rows, p.width);
        const Matrix<const T> k = matrix(p.key, p.k, batch, kv, p.keys, p.width);
        const Matrix<const T> v = matrix(p.value, p.v, batch, kv, p.keys, p.value_width);
        C sums[R][V_TILES];
        clear<V_TILES>(sums);
        // Maximum, sum, and what earlier sums are scaled by.
        if (id < BM) {
            s.stat[0][id] = LOWEST;
            s.stat[1][id] = (C)0;
        }
        const i64 end = p.causal && row0 + BM < p.keys ? row0 + BM : p.keys;
        for (i64 key0 = 0; key0 < end; key0 += BM) {
            C acc[R][R];
            product(s, q, row0, k, key0, acc);
#pragma unroll
            for (int i = 0; i < R; i++)
#pragma unroll
                for (int j = 0; j < R; j++)
                    s.weights[ty * R + i][tx + 16 * j] = score(p, batch, head, row0 + ty * R + i, key0 + tx + 16 * j, acc[i][j]);
            __syncthreads();
            C most = LOWEST;
            for (int c = quarter; c < BM; c += 4) most = greater(most, s.weights[r][c]);
            s.part[0][id] = most;
            __syncthreads();
            const C before = s.stat[0][r];
            most = before;
            for (int c = 0; c < 4; c++) most = greater(most, s.part[0][r * 4 + c]);
            C sum = (C)0;
            if (id < 4 * BM)
                for (int c = quarter; c < BM; c += 4) {
                    // A row that has seen nothing yet.
                    const C w = most == LOWEST ? (C)0 : EXP(s.weights[r][c] - most);
                    sum += w;
                    s.weights[r][c] = w * kept(p, batch, head, row0 + r, key0 + c);
                }
            s.part[1][id] = sum;
            __syncthreads();
            if (id < 4 * BM && quarter == 0) {
                const C by = most == LOWEST ? (C)1 : EXP(before - most);
                for (int c = 1; c < 4; c++) sum += s.part[1][r * 4 + c];
                s.stat[0][r] = most;
                s.stat[1][r] = s.stat[1][r] * by + sum;
                s.stat[2][r] = by;
            }
            __syncthreads();
#pragma unroll
            for (int i = 0; i < R; i++)
#pragma unroll
                for (int j = 0; j < V_TILES; j++) sums[i][j] *= s.stat[2][ty * R + i];
            accumulate<V_TILES>(s, s.weights, false, v, key0, sums);
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < R; i++) {
            const C total = s.stat[1][ty * R + i];
#pragma unroll
            for (int j = 0; j < V_TILES; j++) sums[i][j] = total == (C)0 ? (C)0 : sums[i][j] / total;
        }
        store<V_TILES>(matrix(p.out, p.o, batch, head, p.rows, p.value_width), row0, sums, (C)1);
        if (id < BM && row0 + id < p.rows) {
            const C total = s.stat[1][id];
            p.lse[batch * p.stat[0] + head * p.stat[1] + (row0 + id) * p.stat[2]] =
                total == (C)0 ? -LOWEST : s.stat[0][id] + LN(total);
        }
        __syncthreads();
    }
}
#elif PART == 1
// delta[batch, head, row] = sum of grad_out * out.
extern "C" __global__ void __launch_bounds__(1024) entry(const __grid_constant__ Problem p) {
    __shared__ C room[1024];
    const Place at = place(1);
    const i64 n = p.batch * p.heads * p.rows;
    for (i64 block = blockIdx.x; block * at.rows < n; block += gridDim.x) {
        const i64 unit = block * at.rows + at.row, row = unit % p.rows, head = unit / p.rows % p.heads;
        const i64 batch = unit / p.rows / p.heads;
        C sum = (C)0;
        for (i64 c = at.i; unit < n && c < p.value_width; c += at.across)
            sum += get<C>(p.out + batch * p.o[0] + head * p.o[1] + row * p.o[2] + c * p.o[3]) *
                   get<C>(p.grad + batch * p.g[0] + head * p.g[1] + row * p.g[2] + c * p.g[3]);
        sum = combine(sum, room, at, [](C a, C b) { return a + b; });
        if (unit < n && at.i == 0) p.delta[unit] = sum;
    }
}
#else
// The weights (dropped) and the scores' gradients of a tile.
D void tile(Rooms& s, const Problem& p, i64 batch, i64 head, i64 row0, i64 key0, Matrix<const T> q, Matrix<const T> k,
            Matrix<const T> v, Matrix<const T> g) {
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    C scores[R][R], grads[R][R];
    product(s, q, row0, k, key0, scores);
    product(s, g, row0, v, key0, grads);
#pragma unroll
    for (int i = 0; i < R; i++) {
        const i64 row = row0 + ty * R + i;
        const bool live = row < p.rows;
        const C lse = live ? p.lse[batch * p.stat[0] + head * p.stat[1] + row * p.stat[2]] : -LOWEST;
        const C delta = live ? p.delta[(batch * p.heads + head) * p.rows + row] : (C)0;
#pragma unroll
        for (int j = 0; j < R; j++) {
            const i64 key = key0 + tx + 16 * j;
            const C v = score(p, batch, head, row, key, scores[i][j]);
            const C w = v == LOWEST ? (C)0 : EXP(v - lse), by = kept(p, batch, head, row, key);
            s.weights[ty * R + i][tx + 16 * j] = w * by;
            s.scores[ty * R + i][tx + 16 * j] = w * (grads[i][j] * by - delta);
        }
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(256) entry(const __grid_constant__ Problem p) {
    __shared__ Rooms s;
    const i64 group = p.heads / p.kv_heads;
    // A block owns keys of a head of key and value, or rows of a head of the query.
    const i64 heads = PART == 2 ? p.kv_heads : p.heads, owned = PART == 2 ? p.keys : p.rows;
    const i64 tiles = (owned + BM - 1) / BM;
    for (i64 unit = blockIdx.x; unit < tiles * p.batch * heads; unit += gridDim.x) {
        const i64 turn = unit / (p.batch * heads), own = unit % heads, batch = unit / heads % p.batch;
        const i64 kv = PART == 2 ? own : own / group;
        const Matrix<const T> k = matrix(p.key, p.k, batch, kv, p.keys, p.width);
        const Matrix<const T> v = matrix(p.value, p.v, batch, kv, p.keys, p.value_width);
        C first[R][E_TILES];
        clear<E_TILES>(first);
#if PART == 2
        const i64 key0 = turn * BM;
        C second[R][V_TILES];
        clear<V_TILES>(second);
        for (i64 head = own * group; head < (own + 1) * group; head++) {
            const Matrix<const T> q = matrix(p.query, p.q, batch, head, p.rows, p.width);
            const Matrix<const T> g = matrix(p.grad, p.g, batch, head, p.rows, p.value_width);
            for (i64 row0 = p.causal ? key0 : 0; row0 < p.rows; row0 += BM) {
                tile(s, p, batch, head, row0, key0, q, k, v, g);
                accumulate<V_TILES>(s, s.weights, true, g, row0, second);
                accumulate<E_TILES>(s, s.scores, true, q, row0, first);
            }
        }
        store<E_TILES>(matrix(p.grad_key, p.gk, batch, own, p.keys, p.width), key0, first, (C)p.scale);
        store<V_TILES>(matrix(p.grad_value, p.gv, batch, own, p.keys, p.value_width), key0, second, (C)1);
#else
        const i64 row0 = (tiles - 1 - turn) * BM;
        const Matrix<const T> q = matrix(p.query, p.q, batch, own, p.rows, p.width);
        const Matrix<const T> g = matrix(p.grad, p.g, batch, own, p.rows, p.value_width);
        // The mask's gradient is written for keys that are not seen, too.
        const i64 end = p.causal && !p.grad_mask && row0 + BM < p.keys ? row0 + BM : p.keys;
        for (i64 key0 = 0; key0 < end; key0 += BM) {
            tile(s, p, batch, own, row0, key0, q, k, v, g);
            accumulate<E_TILES>(s, s.scores, false, k, key0, first);
            if (p.grad_mask)
                for (int e = threadIdx.x; e < BM * BM; e += 256) {
                    const i64 row = row0 + e / BM, key = key0 + e % BM;
                    if (row < p.rows && key < p.keys)
                        put(p.grad_mask + ((batch * p.heads + own) * p.rows + row) * p.keys + key, s.scores[e / BM][e % BM]);
                }
            __syncthreads();
        }
        store<E_TILES>(matrix(p.grad_query, p.gq, batch, own, p.rows, p.width), row0, first, (C)p.scale);
#endif
    }
}
#endif
